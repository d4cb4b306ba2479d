"""A model of texts: vectorizers, weights, memory and the report of the fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from os import PathLike
from typing import Annotated, Any, Final

import numpy as np

from tercet._lazy import sparse
from tercet.data.documents import Documents, as_documents
from tercet.data.judgements import as_queries
from tercet.data.values import Value
from tercet.errors import DamagedBundleError, InputError
from tercet.measure.confidence import Confidence
from tercet.memory import Memory, PastQuery
from tercet.report import Report
from tercet.report.html import Html, element, join
from tercet.report.table import Cell, Table
from tercet.store import Bundle, write_bundle
from tercet.store.codec import decode, encode
from tercet.store.kinds import TEXT_MODEL
from tercet.store.schema import OMIT_DEFAULT, Bounds, SameAs
from tercet.text import Analyzer, Vectorizer
from tercet.text.fielded import ANY_QUERY, ColumnLayout, FieldedVectorizer, docs_for
from tercet.text.language import N_TEXTS, usual_analyzer
from tercet.weights import Explanation, Identity, Sparse, Weights

# BM25 with the usual parameters of engines: the start of learning unless another start is clearly better.
ORDINARY_BM25: Final[dict[str, Any]] = {"weighting": "bm25", "k1": 1.2, "b": 0.75}


@dataclass(frozen=True)
class TextExplanation:
    """Explanation of a score: contributions of word pairs and past queries, the largest first, with the sum ``score``.

    Attributes
    ----------
    pairs : (query word, document word, contribution)
    unknown : words of the query outside the vocabulary
    past : past queries with evidence for the document
    """

    score: float
    pairs: tuple[tuple[str, str, float], ...]
    unknown: tuple[str, ...]
    past: tuple[PastQuery, ...] = ()

    @property
    def reasons(self) -> tuple[tuple[str, str, float], ...]:
        """All contributions, the largest first: pairs of words, and past queries as words of any query."""
        past = ((ANY_QUERY, past_name(reason), reason.contribution) for reason in self.past)
        return tuple(sorted((*self.pairs, *past), key=lambda reason: -abs(reason[2])))

    def table(self, k: int = 10) -> str:
        """The score, the k largest contributions of each kind, and the sum of the rest, a line each."""
        lines = [f"{contribution:+.4f}  {name}" for name, contribution in self._summed(k)]
        if self.unknown:
            lines.append(f"the model does not know: {', '.join(self.unknown)}")
        return "\n".join(lines)

    def _summed(self, k: int) -> list[tuple[str, float]]:
        """The score, the k largest contributions by name, and the sum of the rest."""
        rows = [("score", self.score), *((pair_name(a, b), contribution) for a, b, contribution in self.pairs[:k])]
        if rest := self.pairs[k:]:
            rows.append((f"{len(rest)} more pairs", sum(contribution for _, _, contribution in rest)))
        rows += [(past_name(reason), reason.contribution) for reason in self.past[:k]]
        if more := self.past[k:]:
            rows.append((f"{len(more)} more past queries", sum(reason.contribution for reason in more)))
        return rows

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        table = Table("Why", ["", "contribution"], n_labels=1, marked=0)
        table.rows += [[Cell(name), Cell(f"{contribution:+.4f}")] for name, contribution in self._summed(10)]
        unknown = f"the model does not know: {', '.join(self.unknown)}" if self.unknown else None
        return join([table.as_html(), element("p", unknown) if unknown else ""])


def pair_name(query_word: str, doc_word: str) -> str:
    """Name a pair of words; a match of equal words, and a number of the document, have a single name.

    Examples
    --------
    >>> pair_name("avocado", "guacamole"), pair_name("avocado", "title: avocado"), pair_name("any query", "price 2")
    ('avocado → guacamole', 'title: avocado', 'price 2')
    """
    has_one_name = query_word in (doc_word, ANY_QUERY) or doc_word.endswith(f": {query_word}")
    return doc_word if has_one_name else f"{query_word} → {doc_word}"


def past_name(reason: PastQuery) -> str:
    """A past query as a reason.

    Examples
    --------
    >>> past_name(PastQuery("green tea set", 0.82, 1.0, 1.31, times=14))
    'asked before: "green tea set" (similarity .82), chosen 14 times'
    """
    similarity = f"{reason.similarity:.2f}".removeprefix("0")
    chosen = ""
    if reason.evidence <= 0:
        chosen = ", not chosen"
    elif reason.times:
        chosen = ", chosen once" if reason.times == 1 else f", chosen {reason.times:,} times"
    return f'asked before: "{reason.text}" (similarity {similarity}){chosen}'


@dataclass(frozen=True)
class TaughtRows:
    """Learned rows of a file of taught actions: 1 to ``number`` of the file ``store``.

    A service with this file teaches the model later rows only, so that no row counts twice.
    """

    store: str
    number: Annotated[int, Bounds(1)]


PARTS: Final = ("words", "memory")
# Equivalents of the method names of other libraries.
_CALLS: Final = {
    "search": "to search documents: tc.Index.build(docs, model).search(text)",
    "predict": "to score documents: model.rank({'q': text}, docs)",
    "evaluate": "to measure: tc.evaluate(qrels, model.rank(queries, docs), ['nDCG@10'])",
    "fit": "to learn: model = tc.fit(docs, queries, qrels)",
}


@dataclass(frozen=True, eq=False)
class LearnedParts:
    """Learned parts of a model, in use and in reserve.

    Attributes
    ----------
    used : names of the parts in use, of "words" and "memory"
    other_weights : weights of the start if words are in use, else the learned weights, if any
    other_memory : memory in reserve, if any
    """

    used: tuple[str, ...]
    other_weights: Weights | None = None
    other_memory: Memory | None = None


@dataclass(frozen=True, eq=False, repr=False)
class TextModel:
    """Model of texts: vectorizers of queries and documents, and weights between their words.

    Attributes
    ----------
    query_vectorizer, doc_vectorizer : the same object unless queries and documents have separate vocabularies
    weights : W between query words and document words
    report : report of the fit, if any
    taught : learned rows of files of taught actions
    memory : past queries and their evidence for documents
    learned : learned parts in use and in reserve
    confidence : calibration of the probability of hits, if any
    id_column, text_columns : columns of the table of documents

    Examples
    --------
    >>> docs = {"a": "ice hockey", "b": "green tea"}
    >>> model = TextModel.bm25(docs.values())
    >>> list(model.rank({"q": "a cup of tea"}, docs, k=1)["q"])
    ['b']
    """

    query_vectorizer: Vectorizer
    doc_vectorizer: Vectorizer
    weights: Weights
    report: Report | None = None
    taught: tuple[TaughtRows, ...] = ()
    memory: Memory | None = None
    learned: LearnedParts | None = None
    id_column: str = ""
    text_columns: tuple[str, ...] = ()
    confidence: Confidence | None = None

    def __repr__(self) -> str:
        n_queries, n_docs = (len(vectorizer.words_) for vectorizer in (self.query_vectorizer, self.doc_vectorizer))
        words = f"{n_queries:,}" if self.query_vectorizer is self.doc_vectorizer else f"{n_queries:,} and {n_docs:,}"
        memory = "" if self.memory is None else f", {self.memory!r}"
        return f"TextModel({words} words, {self.weights!r}{memory})"

    def _repr_html_(self) -> str:
        return join([element("p", repr(self)), Html(self.report._repr_html_()) if self.report is not None else ""])

    def __getattr__(self, name: str) -> Any:
        hint = f"; {_CALLS[name]}" if name in _CALLS else ""
        raise AttributeError(f"a TextModel has no {name!r}{hint}", name=name, obj=self)

    def __post_init__(self) -> None:
        shape = (len(self.query_vectorizer.words_), len(self.doc_vectorizer.words_))
        if self.weights.shape != shape:
            raise InputError(f"weights have shape {self.weights.shape}, the vocabularies {shape}; they must agree")
        if self.memory is not None and self.memory.n_terms > shape[0]:
            raise InputError(f"memory has {self.memory.n_terms} words, the vocabulary {shape[0]}")
        shares_words = self.query_vectorizer is self.doc_vectorizer
        if self.memory is not None and self.memory.settings.unseen and not shares_words:
            raise InputError(
                "memory gives matching words a weight, and queries and documents have vocabularies of their own, in "
                "which no word matches; use MemorySettings(unseen=0)"
            )

    @classmethod
    def bm25(cls, texts: Iterable[str], analyzer: Analyzer | None = None) -> TextModel:
        """BM25 over the words of documents: a start without judgements.

        Parameters
        ----------
        texts : the documents, read once; memory holds one number per distinct word of each document
        analyzer : tokenizer and stemmer; by default `usual_analyzer` guesses the language of the first texts. `tc.fit`
            has the same default, unless judgements clearly favor another

        Examples
        --------
        >>> docs = {"a": "green avocado", "b": "the green eyes"}
        >>> TextModel.bm25(docs.values()).rank({"q": "the eye"}, docs, k=1)["q"].keys()
        dict_keys(['b'])
        """
        if analyzer is None:
            stream = iter(texts)
            first = list(islice(stream, N_TEXTS))
            analyzer, texts = usual_analyzer(first), chain(first, stream)
        return cls.of_words(Vectorizer(analyzer=analyzer, **ORDINARY_BM25).fit(texts))

    @classmethod
    def of_words(cls, words: Vectorizer) -> TextModel:
        """Return a model of plain matching by a fitted vectorizer."""
        return cls(words, words, Weights([Identity(n_terms=len(words.words_))]))

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the learned parts in use, of "words" and "memory"."""
        if self.learned is not None:
            return self.learned.used
        return () if self.memory is None else ("memory",)

    @property
    def unused_parts(self) -> tuple[str, ...]:
        """Names of the learned parts in reserve."""
        if self.learned is None:
            return ()
        reserve = {"words": self.learned.other_weights, "memory": self.learned.other_memory}
        return tuple(name for name in PARTS if name not in self.parts and reserve[name] is not None)

    def with_parts(self, parts: Iterable[str]) -> TextModel:
        """Return the model with exactly these learned parts; without parts, return the start.

        Parameters
        ----------
        parts : of "words" and "memory"

        Examples
        --------
        >>> docs = {"a": "ice hockey", "b": "green tea"}
        >>> TextModel.bm25(docs.values()).with_parts([]).parts
        ()
        """
        names = list(parts)
        for name in names:
            if name not in PARTS:
                raise InputError(f"a model has the parts {' and '.join(PARTS)}; got {name!r}")
        learned = self.learned or LearnedParts(self.parts)
        weights, other_weights = self.weights, learned.other_weights
        memory, other_memory = self.memory, learned.other_memory
        if ("words" in names) != ("words" in learned.used):
            if other_weights is None:
                what = "learned no words" if "words" in names else "no start beside its words"
                raise InputError(f"the model has {what}")
            weights, other_weights = other_weights, weights
        if ("memory" in names) != (memory is not None):
            if memory is None and other_memory is None:
                raise InputError("the model has learned no memory")
            memory, other_memory = other_memory, memory
        used = tuple(name for name in PARTS if name in names)
        learned_parts = LearnedParts(used, other_weights, other_memory)
        if used != self.parts:
            self = replace(self, report=None, confidence=None)
        return replace(self, weights=weights, memory=memory, learned=learned_parts)

    def queries(self, texts: Sequence[str]) -> sparse.csr_array:
        """Query rows of texts."""
        return self.query_vectorizer.transform_queries(texts)

    def docs(self, docs: Sequence[str] | Mapping[str, str]) -> sparse.csr_array:
        """Document rows of texts, or of documents by id; a model with fields or numbers needs `Documents`."""
        return self.doc_vectorizer.transform_docs(
            docs_for(self.doc_vectorizer, docs) if isinstance(docs, Mapping) else docs
        )

    @property
    def n_words(self) -> int | None:
        """Number of word columns, followed by columns of fields and numbers; None for words alone."""
        words = self.doc_vectorizer
        return words.layout_.n_words if isinstance(words, FieldedVectorizer) else None

    @property
    def any_query(self) -> int | None:
        """Column shared by all queries, to weigh numbers of documents; None for words alone."""
        return self._layout.any_query if isinstance(self.doc_vectorizer, FieldedVectorizer) else None

    @property
    def _layout(self) -> ColumnLayout:
        assert isinstance(self.doc_vectorizer, FieldedVectorizer)
        return self.doc_vectorizer.layout_

    def words_alone(self) -> TextModel:
        """Return the model of words alone, without fields, numbers, memory and report."""
        words = self.doc_vectorizer
        if not isinstance(words, FieldedVectorizer):
            if self.memory is None:
                return self
            learned = self.learned and replace(
                self.learned, used=tuple(part for part in self.parts if part != "memory")
            )
            return replace(self, memory=None, report=None, learned=learned, confidence=None)
        from tercet.learn.joint import taken_apart

        return TextModel(words.plain_, words.plain_, taken_apart(self.weights, words.layout_)[0])

    def rank(self, queries: Any, docs: Any, k: int = 100) -> dict[str, dict[str, float]]:
        """Return a run: the k best documents of each query, best first, as qid -> doc_id -> score.

        ``queries`` and ``docs`` have the forms of ``tc.fit``: texts by id, records or frames.
        """
        queries, docs = as_queries(queries), as_documents(docs)
        if not queries or not docs:
            raise InputError(f"there are {len(queries)} queries and {len(docs)} documents; both are needed")
        doc_ids = list(docs)
        Q, D = self.queries(list(queries.values())), self.docs(docs)
        if self.memory is None:
            doc_rows, scores = self.weights.rank(Q, D, k)
        else:
            doc_rows, scores = self.memory.rank(self.weights, Q, D, doc_ids, k, self.n_words)
        return {
            qid: {doc_ids[d]: float(s) for d, s in zip(row, best, strict=True)}
            for qid, row, best in zip(queries, doc_rows, scores, strict=True)
        }

    def explain(self, query: str, doc: str | Mapping[str, Value], doc_id: str | None = None) -> TextExplanation:
        """Explain the score of a document for a query text by word pairs; ``doc`` may be a record with fields.

        With the document's id, the explanation has memory, too: past queries of the document, or the matching words of
        a document without past queries.
        """
        if not isinstance(doc, str | Documents):
            doc = as_documents({"document": doc})
        row, Q = self.docs([doc] if isinstance(doc, str) else doc), self.queries([query])
        unknown = tuple(self.query_vectorizer.unknown_words(query))
        why = self.worded(self.weights.explain(Q, row), unknown, row)
        return why if doc_id is None else self.with_memory_reasons(why, Q, doc_id, row)

    def with_memory_reasons(
        self, why: TextExplanation, Q: sparse.csr_array, doc_id: str, D: sparse.csr_array
    ) -> TextExplanation:
        """Add memory to an explanation by words; ``Q`` and ``D`` are the rows of the query and of the document."""
        if self.memory is None:
            return why
        reasons, words = self.memory.explain(Q, doc_id, D, self.n_words), self.query_vectorizer.words_
        added = [
            *((words[column], f"past queries: {words[column]}", amount) for column, amount in reasons.pooled),
            *((words[column], f"new document: {words[column]}", amount) for column, amount in reasons.matches),
        ]
        pairs = tuple(sorted((*why.pairs, *added), key=lambda pair: -abs(pair[2]))) if added else why.pairs
        return replace(why, score=why.score + reasons.total, pairs=pairs, past=reasons.past)

    def worded(
        self, why: Explanation, unknown: tuple[str, ...] = (), doc: sparse.csr_array | None = None
    ) -> TextExplanation:
        """Name the columns of an explanation; with the document's row, numbers have the values of the document."""
        value_of = {} if doc is None else dict(zip(doc.indices.tolist(), doc.data.tolist(), strict=True))
        query_words, describe = self.query_vectorizer.words_, self.doc_vectorizer.described
        pairs = tuple((query_words[a], describe(b, value_of.get(b)), contribution) for a, b, contribution in why)
        return TextExplanation(why.score, pairs, unknown)

    def related(self, word: str, k: int = 10) -> list[tuple[str, float]]:
        """The k document words with the largest weights for a query word, with signs."""
        return [(self.doc_vectorizer.words_[j], weight) for j, weight in self.weights.related(self._column(word), k)]

    def _column(self, word: str) -> int:
        column = self.query_vectorizer.index_.get(word)
        if column is None:
            # The tokenizer lowers "Hockey" and stems "running".
            row = self.queries([word])
            columns = row.indices[row.indices < len(self.query_vectorizer.index_)]
            if columns.size != 1:
                raise InputError(f"the model does not know the word {word!r}{self.query_vectorizer.spelt_like(word)}")
            column = int(columns[0])
        return column

    def strongest_pairs(self, k: int = 20, *, min_docs: int = 10, per_word: int = 1) -> list[tuple[str, str, float]]:
        """Return the strongest learned pairs of different words, with their weights.

        Pairs are in the order of weight times both words' idf. Words in fewer than ``min_docs`` documents are left out,
        and each word is shown at most ``per_word`` times on each side. W is read by blocks of rows.
        """
        sides = (self.query_vectorizer, self.doc_vectorizer)
        query_rarity, doc_rarity = (np.where(v.document_frequency_ >= min_docs, v.idf_, 0.0) for v in sides)
        query_words, doc_words = (v.words_ for v in sides)
        rows, columns = np.flatnonzero(query_rarity), np.flatnonzero(doc_rarity)
        best: list[tuple[float, int, int, float]] = []
        for start in range(0, rows.size, 256):
            block_rows = rows[start : start + 256]
            W = sum((part.block(block_rows, columns) for part in self.weights.parts), np.zeros(()))
            if sides[0] is sides[1]:
                W[columns[None, :] == block_rows[:, None]] = 0  # a word paired with itself is no discovery
            strength = np.abs(W) * query_rarity[block_rows, None] * doc_rarity[columns]
            few = min(4 * per_word, columns.size)
            for i, positions in enumerate(np.argpartition(strength, -few, axis=1)[:, -few:]):
                best += [
                    (-float(strength[i, j]), int(block_rows[i]), int(columns[j]), float(W[i, j]))
                    for j in positions
                    if strength[i, j] > 0
                ]
        chosen: list[tuple[str, str, float]] = []
        times: Counter[tuple[str, int]] = Counter()
        for _, i, j, weight in sorted(best):
            if len(chosen) == k:
                break
            if max(times["query", i], times["doc", j]) < per_word:
                times.update([("query", i), ("doc", j)])
                chosen.append((query_words[i], doc_words[j], weight))
        return chosen

    def thin(self, density: float) -> TextModel:
        """Return a model with a sparse W: the share ``density`` of the entries, the largest in size.

        W is read by blocks of rows: no dense W of a low-rank model is in memory. A per-document scale counts at typical
        document length. Weights of fields and numbers stay as they are. The thinned model has no report;
        ``tercet eval`` measures the model.
        """
        from tercet.learn.joint import joined, taken_apart
        from tercet.learn.thin import largest_entries

        if isinstance(self.doc_vectorizer, FieldedVectorizer):
            layout = self.doc_vectorizer.layout_
            words, w = taken_apart(self.weights, layout)
            thinned = joined(Weights([Sparse(weights=largest_entries(words, density))]), w, layout)
            return replace(self, weights=thinned, report=None, confidence=None)
        thinned = Weights([Sparse(weights=largest_entries(self.weights, density))])
        return replace(self, weights=thinned, report=None, confidence=None)

    # -- saving -------------------------------------------------------------------------------------------------

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to a folder for ``tc.load``."""
        sides = (self.query_vectorizer, self.doc_vectorizer)
        values = (getattr(self, name) for name in list(_SavedTextModel.__dataclass_fields__)[2:])
        saved = _SavedTextModel(*sides, *values)
        meta, arrays = encode(saved)
        write_bundle(path, kind=TEXT_MODEL, meta=meta, arrays=arrays)

    @classmethod
    def from_bundle(cls, bundle: Bundle) -> TextModel:
        """Read the model of a bundle."""
        saved = decode(_SavedTextModel, bundle.meta, bundle.arrays, where=f"{bundle.path}: meta")
        try:
            return cls(*(getattr(saved, name) for name in saved.__dataclass_fields__))
        except InputError as error:
            raise DamagedBundleError(f"{bundle.path}: {error}") from error


@dataclass(frozen=True)
class _SavedTextModel:
    queries: Vectorizer
    docs: Annotated[Vectorizer, SameAs("queries", "shared_vocabulary")]
    weights: Weights
    report: Report | None
    taught: Annotated[tuple[TaughtRows, ...], OMIT_DEFAULT] = ()
    memory: Annotated[Memory | None, OMIT_DEFAULT] = None
    learned: Annotated[LearnedParts | None, OMIT_DEFAULT] = None
    id_column: Annotated[str, OMIT_DEFAULT] = ""
    text_columns: Annotated[tuple[str, ...], OMIT_DEFAULT] = ()
    confidence: Annotated[Confidence | None, OMIT_DEFAULT] = None
