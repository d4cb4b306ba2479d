"""What new users bring, as they have it: every row of what was tried and stopped them is answered here."""

from __future__ import annotations

import csv
import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tercet as tc
from support.commands import ok, run

KINDS = {"tea": ("beverage", "hot drink of leaves"), "milk": ("dairy", "white drink of cows")}
KINDS |= {"bread": ("bakery", "loaf of wheat"), "lamp": ("lighting", "bulb for the desk")}
PRODUCTS = [
    {"sku": f"{i:03}", "name": f"{list(KINDS)[i % 4]} {i}", "description": KINDS[list(KINDS)[i % 4]][1], "price": i / 4}
    for i in range(40)
]
TERMS = [(f"{list(KINDS.values())[i % 4][0]} {i}", i % 4) for i in range(24)]
JUDGED = [(term, PRODUCTS[(k + 4 * j) % 40]["sku"], 2) for term, k in TERMS for j in range(3)]
JUDGED += [(term, PRODUCTS[(k + 1) % 40]["sku"], 0) for term, k in TERMS]
TRIPLETS = [(term, PRODUCTS[k + 4 * j]["sku"], PRODUCTS[k + 5]["sku"]) for term, k in TERMS for j in range(2)]
ROLES = "id: sku; text: name, description; stored: price"


QUICK = ("--steps", 1000)
READ = ("--ranker", "cosine")  # where what is read matters and not what is learned


def write_csv(path, header, rows, **options):
    with open(path, "w", newline="", encoding=options.pop("encoding", "utf-8")) as file:
        writer = csv.writer(file, **options)
        writer.writerow(header)
        writer.writerows(rows)
    return path


@pytest.fixture
def products(tmp_path):
    return write_csv(tmp_path / "products.csv", PRODUCTS[0], [list(product.values()) for product in PRODUCTS])


@pytest.fixture
def judged(tmp_path):
    return write_csv(tmp_path / "judged.csv", ["Search Term", "Product ID", "Stars"], JUDGED, delimiter=";")


def failed(*arguments):
    """What a command says that must fail, in one line."""
    result = run(*arguments)
    assert result.exit_code == 1, result.output
    return result.output


# -- documents --------------------------------------------------------------------------------------------------------


def in_format(tmp_path, name):
    path = tmp_path / name
    if name == "products.parquet":
        pq.write_table(pa.Table.from_pylist(PRODUCTS), path)
    elif name.startswith("products.jsonl"):
        text = "".join(json.dumps(product) + "\n" for product in PRODUCTS).encode()
        path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    else:
        how = {"products.tsv": {"delimiter": "\t"}, "products.bar": {"delimiter": "|"}, "bom.csv": {}, "excel.csv": {}}
        encoding = {"bom.csv": "utf-8-sig", "excel.csv": "utf-16"}.get(name, "utf-8")
        write_csv(path, PRODUCTS[0], [list(product.values()) for product in PRODUCTS], encoding=encoding, **how[name])
    return path


@pytest.mark.parametrize(
    "name",
    ["products.tsv", "products.bar", "bom.csv", "excel.csv", "products.jsonl", "products.jsonl.gz", "products.parquet"],
)
def test_a_table_is_indexed_and_its_columns_come_back_with_hits(tmp_path, name):
    path = in_format(tmp_path, name)
    said = ok("index", path, "-o", tmp_path / "index")
    assert ROLES in said
    assert "40 documents" in said
    [hit] = tc.load(tmp_path / "index").search("bread 2", k=1)
    assert (hit.doc_id, hit.text, hit.stored_fields) == ("002", "bread 2\nloaf of wheat", {"price": 0.5})


def test_documents_alone_say_what_is_missing(products, tmp_path):
    result = run("fit", products, "-o", tmp_path / "m")
    assert result.exit_code == 2
    assert "products.csv has documents only; add --clicks, --judgements" in result.output


def test_a_corpus_may_be_a_table(tmp_path):
    path = tmp_path / "products.jsonl"
    rows = [{"id": p["sku"], "title": p["name"], "body": p["description"], "tags": ["a", "b"]} for p in PRODUCTS]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    said = ok("index", path, "-o", tmp_path / "index")
    assert "JSONL; id: id; text: title, body; stored: tags" in said
    assert tc.load(tmp_path / "index").search("tea 4", k=1)[0].stored_fields == {"tags": "a, b"}


def test_beir_carries_what_else_it_has(tmp_path):
    (tmp_path / "corpus.jsonl").write_text(
        '{"_id": "a", "title": "Tea", "text": "green", "metadata": {"url": "x/y"}, "year": 1999}\n'
        '{"_id": "b", "title": "", "text": "milk", "metadata": {}}\n'
    )
    ok("index", tmp_path / "corpus.jsonl", "-o", tmp_path / "index")
    index = tc.load(tmp_path / "index")
    [hit] = index.search("tea", k=1)
    assert (hit.text, hit.stored_fields) == ("Tea\ngreen", {"metadata.url": "x/y", "year": 1999})
    assert index.search("milk", k=1)[0].stored_fields == {}


def test_columns_that_say_nothing_can_be_named(tmp_path):
    path = write_csv(tmp_path / "list.csv", ["no", "what", "more"], [["007", "tea", "green"], ["008", "milk", "white"]])
    message = failed("index", path, "-o", tmp_path / "index")
    assert (
        "list.csv: a table of no known kind, with the columns no, what, more; documents have an id and a text"
        in message
    )
    message = failed("index", path, "--text", "what", "-o", tmp_path / "index")
    assert "Which column holds the id? Name the column, or rename it to 'id'. The columns are no, what, more" in message
    assert "(here: --column id=NAME)" in message
    said = ok("index", path, "--column", "id=no", "--column", "text=what,more", "-o", tmp_path / "index")
    assert "id: no; text: what, more" in said
    assert tc.load(tmp_path / "index").search("white", k=1)[0].doc_id == "008"
    message = failed("index", path, "--id", "sku", "--text", "what", "-o", tmp_path / "other")
    assert "There is no column 'sku' for id." in message


def test_latin_1_says_what_helps_and_it_does(tmp_path):
    path = write_csv(tmp_path / "latin.csv", ["id", "text"], [["1", "café"]], encoding="latin-1")
    for verb in (("index", path, "-o", tmp_path / "index"), ("fit", path, "-o", tmp_path / "m")):
        message = failed(*verb)
        assert "latin.csv:2: byte 0xe9 at offset 14 is not UTF-8" in message
        assert "iconv -f LATIN1" in message
        assert "(here: --encoding latin-1, for example)" in message
    ok("index", path, "--encoding", "latin-1", "-o", tmp_path / "index")
    assert tc.load(tmp_path / "index").search("café", k=1)[0].text == "café"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([["1", "tea", "x"]], ":2: 3 cells under 2 columns; quote a text that holds ','"),
        ([["1", "tea"], ["", "milk"]], ":3: id is empty; every row needs an id"),
        ([["1", "tea"], ["1", "milk"]], ":3: the id '1' is already used at line 2"),
        ([["1", "tea\nand more"], ["2", ""]], ":4: document '2' has no text: text is empty"),
    ],
)
def test_bad_rows_are_told_by_line_and_so_many_are_left_out(tmp_path, rows, message):
    path = write_csv(tmp_path / "bad.csv", ["id", "text"], [*rows, ["9", "bread"]])
    assert message in failed("index", path, "-o", tmp_path / "index")
    said = ok("index", path, "--skip-bad", "1", "-o", tmp_path / "index")
    assert "note: 1 bad row is left out:" in said
    assert message in said
    assert len(tc.load(tmp_path / "index")) == len(rows)
    more = write_csv(tmp_path / "more.csv", ["id", "text"], [*rows, ["9"], ["10", "bread"]])
    assert "(1 bad row was allowed, and this is one more)" in failed(
        "index", more, "--skip-bad", "1", "-o", tmp_path / "other"
    )


def test_a_missing_header_is_noticed(tmp_path):
    (tmp_path / "bare.csv").write_text("1,green tea\n2,milk\n")
    result = run("index", tmp_path / "bare.csv", "-o", tmp_path / "index")
    assert result.exit_code == 1
    assert "bare.csv:1: the first line must name the columns; found '1', which looks like data" in result.output


# -- judgements -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_fit_from_a_table_of_judgements(products, judged, tmp_path):
    said = ok("fit", products, "--judgements", judged, "-o", tmp_path / "m", *QUICK)
    assert f"products.csv: CSV separated by commas; {ROLES}" in said
    assert "judged.csv: CSV separated by semicolons; query: Search Term; doc: Product ID; grade: Stars" in said
    assert "40 documents, 24 queries (judged: train 24)" in said
    model = tc.load(tmp_path / "m")
    assert model.report.accepted
    assert "24 queries" in ok("eval", products, "--judgements", judged, "--model", tmp_path / "m")
    said = ok("index", products, "--model", tmp_path / "m", "-o", tmp_path / "index")
    assert "40 documents" in said
    # The same in other words: queries in a file of their own, judgements by their ids.
    queries = write_csv(tmp_path / "queries.csv", ["qid", "query"], [(i, term) for i, (term, _) in enumerate(TERMS)])
    number = {term: i for i, (term, _) in enumerate(TERMS)}
    by_id = write_csv(tmp_path / "by_id.csv", ["qid", "doc", "grade"], [(number[t], d, g) for t, d, g in JUDGED])
    said = ok("fit", products, "--queries", queries, "--judgements", by_id, "-o", tmp_path / "by_id", *READ)
    assert "40 documents, 24 queries (judged: train 24)" in said


@pytest.mark.slow
def test_columns_of_judgements_can_be_named(products, tmp_path):
    path = write_csv(tmp_path / "odd.csv", ["asked", "thing", "how good", "by"], [(*row, "me") for row in JUDGED])
    message = failed("fit", products, "--judgements", path, "-o", tmp_path / "m")
    assert "(here: --column query=NAME --column doc=NAME --column grade=NAME)" in message
    named = ["--column", "query=asked", "--column", "doc=thing", "--column", "grade=how good"]
    said = ok("fit", products, "--judgements", path, *named, "-o", tmp_path / "m", *READ)
    assert "query: asked; doc: thing; grade: how good" in said
    result = run("fit", products, "--judgements", path, "--column", "mark=by", "-o", tmp_path / "n")
    assert result.exit_code == 2
    assert "got 'mark'" in result.output


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("tea", "999", 1), "document '999' is not among the documents"),
        (("tea", "1", 1), "document '1' is not among the documents; '001' is: was it read as a number on the way?"),
        (("tea", "001", 0.5), "Stars 0.5; a whole number is needed"),
        (("tea", "001", "good"), "Stars 'good'; a grade is a whole number"),
        (("", "001", 1), "Search Term is empty; a query needs words"),
        (("tea", "", 1), "Product ID is empty; every row needs an id"),
        ((*JUDGED[0][:2], 1), "has grade 1 here and 2 at line 2"),
    ],
)
def test_bad_judgements_are_told_by_line_and_so_many_are_left_out(products, tmp_path, row, message):
    header = ["Search Term", "Product ID", "Stars"]
    path = write_csv(tmp_path / "judged.csv", header, [*JUDGED, row])
    line = len(JUDGED) + 2
    said = failed("fit", products, "--judgements", path, "-o", tmp_path / "m")
    assert f"judged.csv:{line}: " in said
    assert message in said


@pytest.mark.slow
def test_bad_judgements_may_be_left_out(products, tmp_path):
    header = ["query", "sku", "rating"]
    path = write_csv(tmp_path / "judged.csv", header, [*JUDGED, ("tea", "999", 1), ("tea", "001", "")])
    said = ok("fit", products, "--judgements", path, "--skip-bad", "1", "-o", tmp_path / "m", *READ)
    assert "note: 1 bad row is left out:" in said
    assert f"judged.csv:{len(JUDGED) + 2}: document '999' is not among the documents" in said
    assert "judged.csv: left out, without a grade: 1 row" in said


@pytest.mark.slow
def test_judgements_of_trec_and_a_table_are_read_as_ever(products, tmp_path):
    number = {term: f"q{i}" for i, (term, _) in enumerate(TERMS)}
    (tmp_path / "qrels.txt").write_text("".join(f"{number[term]} 0 {doc} {grade}\n" for term, doc, grade in JUDGED))
    said = failed("fit", products, "--judgements", tmp_path / "qrels.txt", "-o", tmp_path / "m")
    assert "qrels.txt names queries by their ids; give their texts, too: --queries FILE" in said
    table = write_csv(tmp_path / "case.csv", ["query", "docid", "rating"], JUDGED)
    said = ok("fit", products, "--judgements", table, "-o", tmp_path / "m", *READ)
    assert "case.csv: CSV separated by commas; query: query; doc: docid; grade: rating" in said
    queries = write_csv(tmp_path / "queries.csv", ["id", "text"], [(qid, term) for term, qid in number.items()])
    (tmp_path / "foreign.txt").write_text("q0 0 001 1\nq99 0 001 1\n")
    said = failed("fit", products, "--queries", queries, "--judgements", tmp_path / "foreign.txt", "-o", tmp_path / "n")
    assert "foreign.txt:2: query 'q99' is not among the queries" in said


# -- triplets ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("header", [["query", "better", "worse"], ["Query", "Winner", "Loser"]])
def test_fit_from_threes(products, tmp_path, header):
    path = write_csv(tmp_path / "triplets.tsv", header, TRIPLETS, delimiter="\t")
    said = ok("fit", products, "--preferences", path, "-o", tmp_path / "m", *QUICK)
    assert "48 preferences" in said
    assert tc.load(tmp_path / "m").report.accepted


@pytest.mark.slow
def test_threes_in_parquet_and_unknown_ids_by_row(products, tmp_path):
    rows = [{"query": q, "chosen": b, "rejected": w, "by": "me"} for q, b, w in TRIPLETS]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "triplets.parquet")
    said = ok("fit", products, "--preferences", tmp_path / "triplets.parquet", "-o", tmp_path / "m", *READ)
    assert "triplets.parquet: Parquet; query: query; better: chosen; worse: rejected" in said
    path = write_csv(tmp_path / "triplets.csv", ["query", "better", "worse"], [*TRIPLETS, ("tea", "001", "999")])
    message = f"triplets.csv:{len(TRIPLETS) + 2}: document '999' is not among the documents"
    assert message in failed("fit", products, "--preferences", path, "-o", tmp_path / "n")
    said = ok("fit", products, "--preferences", path, "--skip-bad", "1", "-o", tmp_path / "n", *READ)
    assert message in said
    assert "48 preferences" in said


@pytest.mark.slow
def test_threes_beside_judgements_may_have_queries_of_their_own(products, judged, tmp_path):
    rows = [*TRIPLETS, ("dairy new", PRODUCTS[1]["sku"], PRODUCTS[0]["sku"])]
    path = write_csv(tmp_path / "triplets.csv", ["query", "better", "worse"], rows)
    said = ok("fit", products, "--judgements", judged, "--preferences", path, "-o", tmp_path / "m", *READ)
    assert "49 preferences" in said


def test_one_preference_is_one(products, tmp_path):
    path = write_csv(tmp_path / "one.csv", ["query", "better", "worse"], TRIPLETS[:1])
    assert "1 preference\n" in run("fit", products, "--preferences", path, "-o", tmp_path / "m").output


def test_one_of_a_kind_is_told_as_one(tmp_path):
    products = write_csv(tmp_path / "one.csv", ["sku", "name"], [("1", "tea")])
    assert "index: 1 document, 1 word, BM25" in ok("index", products, "-o", tmp_path / "index")
    clicks = write_csv(tmp_path / "clicks.csv", ["query", "sku", "clicked"], [("tea", "x", 1), ("tea", "y", 0)])
    said = run("fit", products, "--clicks", clicks, "-o", tmp_path / "model", *QUICK).stdout
    assert "one.csv: 1 document, 0 queries" in said
    assert "\n1 list, 1 with a click\n" in said
