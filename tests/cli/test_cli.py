"""The command line, as a user types it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from pkgutil import resolve_name

import numpy as np
import pytest

import tercet as tc
from support.commands import ok, run
from support.corpora import synonyms
from tercet.cli import main
from tercet.data import read_qrels, read_queries, read_run, write_beir

PAIRS = {"car": "automobile", "doctor": "physician", "fast": "quick", "film": "movie", "sea": "ocean", "shop": "store"}


@pytest.fixture(scope="module")
def beir(tmp_path_factory) -> Path:
    """Queries use one word of a pair, their documents the other; only learning can bring them together."""
    rng = np.random.default_rng(0)
    fillers = [f"filler{i}" for i in range(60)]
    docs, queries, qrels = {}, {}, {"train": {}, "dev": {}, "test": {}}
    for i in range(300):
        word = list(PAIRS.values())[i % 6]
        docs[f"{i:03}"] = f"{word} " + " ".join(rng.choice(fillers, 8))
    for i in range(180):
        word = list(PAIRS)[i % 6]
        queries[f"q{i}"] = f"{word} " + " ".join(rng.choice(fillers, 2))
        split = "train" if i < 120 else "dev" if i < 150 else "test"
        relevant = [d for d, text in docs.items() if text.startswith(PAIRS[word])]
        qrels[split][f"q{i}"] = dict.fromkeys(relevant, 1)
    folder = tmp_path_factory.mktemp("data") / "pairs"
    write_beir(folder, docs, queries, qrels)
    return folder


@pytest.fixture(scope="module")
def model(beir, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model"
    result = run("fit", beir, "-o", path)
    assert result.exit_code == 0, result.output
    assert "a BEIR folder, 300 documents, 180 queries (judged: dev 30, test 30, train 120)" in result.output
    assert "Used: " in result.output
    assert f"Next: tercet index {beir} --model {path} -o INDEX." in result.output
    assert "learned" in result.output
    assert "BM25" in result.output
    return path


@pytest.fixture(scope="module")
def index(beir, model, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("index") / "index"
    ok("index", beir, "--model", model, "-o", path)
    return path


@pytest.mark.slow
def test_fit_writes_a_model_that_learned(model):
    loaded = tc.load(model)
    assert loaded.report.accepted
    learned, start = (dict(loaded.report.systems[i].values.items())["nDCG@10"][0] for i in (-1, -2))
    assert learned > start + 0.1


def test_related_words(model):
    result = run("explain", model, "--word", "car", "--word", "Doctor", "-k", 3)
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert "automobil " in lines[0]  # words are cut to their stems
    assert "physician " in lines[1]
    assert run("explain", model, "--word", "zebra").exit_code == 1


@pytest.mark.slow
def test_search_writes_a_run_and_eval_measures_it(beir, model, index, tmp_path):
    out = tmp_path / "run.trec.gz"
    ok("search", index, "--queries", beir / "queries.jsonl", "-o", out, "-k", 20)
    ranked = read_run(out)
    assert len(ranked) == 180
    assert {len(docs) for docs in ranked.values()} == {20}
    by_model = run("eval", beir, "--model", model, "-m", "nDCG@10", "-k", 20)
    by_run = run("eval", "--judgements", beir / "qrels" / "test.tsv", "--run", out, "-m", "nDCG@10")
    assert by_model.exit_code == by_run.exit_code == 0, by_model.output + by_run.output

    def figures(result):
        return [line.split("│")[2].strip() for line in result.output.splitlines() if line.startswith("│")]

    assert figures(by_model) == figures(by_run)
    expected = tc.evaluate(read_qrels_of(beir), ranked, "nDCG@10").mean("nDCG@10")
    assert f"{expected:.4f}" in figures(by_run)[0]


def read_qrels_of(beir):
    return tc.data.read_beir(beir).qrels["test"]


def test_explain_adds_up(index):
    result = run("explain", index, "car filler3 filler7", "000", "-k", 3)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()[1:]
    numbers = [float(line.split()[0]) for line in lines]
    assert numbers[0] == pytest.approx(sum(numbers[1:]), abs=5e-4)
    free = run("explain", index, "car zebra", "000")
    assert "the model does not know: zebra" in free.output


@pytest.mark.slow
def test_fit_from_named_files_leaves_queries_out_in_turn(beir, tmp_path):
    result = run(
        *("fit", beir / "corpus.jsonl", "--queries", beir / "queries.jsonl"),
        *("--judgements", beir / "qrels" / "train.tsv", "-o", tmp_path / "m", "--ranker", "cosine"),
    )
    assert result.exit_code == 0, result.output
    assert "120 training queries, 120 of them left out in turn" in result.output
    assert "Each query was left out twice, in 5 folds" in result.output


@pytest.mark.slow
def test_the_share_of_new_documents_and_a_budget_can_be_given(beir, tmp_path):
    ok("fit", beir, "-o", tmp_path / "m", "--new-documents", 0, "--budget", "0.1", "--steps", 500)
    report = tc.load(tmp_path / "m").report
    assert report.n_train == 120
    assert "weighing known answers 100%" in report.decision
    for option in (("--new-documents", "2"), ("--budget", "0")):
        wrong = run("fit", beir, "-o", tmp_path / "x", *option)
        assert wrong.exit_code == 2
        assert f"Invalid value for '{option[0]}'" in wrong.output


@pytest.mark.slow
def test_fit_learns_from_preferences(beir, tmp_path):
    qrels = read_qrels(beir / "qrels" / "train.tsv")
    queries = read_queries(beir / "queries.jsonl")
    ids = [f"{i:03}" for i in range(300)]
    triplets = [(qid, doc_id, ids[(ids.index(doc_id) + 1) % 300]) for qid, docs in qrels.items() for doc_id in docs]
    by_id, by_text = tmp_path / "triplets.tsv", tmp_path / "by_text.tsv"
    text_triplets = [(queries[qid], better, worse) for qid, better, worse in triplets]
    for path, rows in ((by_id, triplets), (by_text, text_triplets)):
        path.write_text("".join("\t".join(row) + "\n" for row in [("query", "better", "worse"), *rows]))
    quick = ("--steps", 1000)
    output = ok("fit", beir, "--preferences", by_id, "-o", tmp_path / "m", *quick)
    assert f"{len(triplets):,} preferences" in output
    report = tc.load(tmp_path / "m").report
    assert (report.measure, report.accepted) == ("PairAccuracy", True)
    assert (tmp_path / "m" / "report.html").exists()
    ok("fit", beir / "corpus.jsonl", "--preferences", by_text, "-o", tmp_path / "by_text", *quick)
    assert tc.load(tmp_path / "by_text").report.accepted
    wrong = run("fit", beir, "--preferences", by_id, "--measure", "AP", "-o", tmp_path / "x")
    assert wrong.exit_code == 1
    assert "leave out --measure" in wrong.output


@pytest.mark.slow
def test_fit_learns_from_clicks_and_from_all_together(tmp_path):
    corpus = synonyms(3, n_pairs=12, n_docs=40, n_queries=40)
    rng = np.random.default_rng(0)
    clicks = ["session,time,search_term,rank,product_id,clicked,device"]
    for number in range(400):
        qid = f"q{number % 40}"
        shown = [list(corpus.docs)[i] for i in rng.permutation(40)[:6]]
        clicks += [
            f"s{number},{number},{corpus.queries[qid]},{rank},{sku},{int(sku in corpus.qrels[qid])},phone"
            for rank, sku in enumerate(shown, start=1)
        ]
    (tmp_path / "clicks.csv").write_text("\n".join([*clicks, "s,400,tea,first,d1,1,phone"]) + "\n")
    products = [f"{sku},{text},9.99" for sku, text in corpus.docs.items()]
    (tmp_path / "products.csv").write_text("\n".join(["sku,name,price", *products]) + "\n")
    judged = [f"{corpus.queries[q]},{d},{g}" for q, docs in corpus.qrels.items() for d, g in docs.items()]
    (tmp_path / "judged.csv").write_text("\n".join(["query,sku,grade", *judged]) + "\n")
    (tmp_path / "triplets.tsv").write_text("query\tbetter\tworse\tweight\nbrand new\td0\td1\t2\n")
    given = ("fit", tmp_path / "products.csv", "--clicks", tmp_path / "clicks.csv")
    wrong = run(*given, "-o", tmp_path / "x")
    assert "clicks.csv:2402: rank 'first'; a position is a number, 0 or more" in wrong.output
    output = ok(*given, "--skip-bad", "1", "-o", tmp_path / "m")
    assert "a row for each document shown; query: search_term; doc: product_id; clicked: clicked" in output
    assert "400 lists" in output
    assert "repeated queries" in output
    assert "clicks.csv:2402: rank 'first'" in output
    report = tc.load(tmp_path / "m").report
    assert "by time" in report.split
    more = ("--judgements", tmp_path / "judged.csv", "--preferences", tmp_path / "triplets.tsv", "--skip-bad", "1")
    ok(*given, *more, "-o", tmp_path / "both")
    report = tc.load(tmp_path / "both").report
    assert report.measure == "nDCG@10"
    assert {"judgements", "triplets", "clicks"} <= {result.name for result in report.evidence}


@pytest.mark.slow
def test_fit_labeled_folder(tmp_path):
    rng = np.random.default_rng(1)
    for label in ("space", "sport", "food"):
        (tmp_path / "data" / label).mkdir(parents=True)
        for i in range(40):
            words = [f"{label}{w}" for w in rng.integers(0, 30, 6)] + [f"common{w}" for w in rng.integers(0, 9, 6)]
            (tmp_path / "data" / label / f"{i}.txt").write_text(" ".join(words))
    result = run("fit", tmp_path / "data", "-o", tmp_path / "m", "--steps", 3000)
    assert result.exit_code == 0, result.output
    assert "120 texts in 3 labeled folders" in result.output
    assert "120 training queries, 120 of them left out in turn. Each text was left out twice" in result.output
    assert tc.load(tmp_path / "m").report.measure == "AP"
    (tmp_path / "qrels.tsv").write_text("q\t0\td\t1\n")
    for option, value in (("--judgements", tmp_path / "qrels.tsv"), ("--field", "title")):
        result = run("fit", tmp_path / "data", option, value, "-o", tmp_path / "other")
        assert result.exit_code == 1
        assert option in result.output
        assert "labeled texts" in result.output
        assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit"], "Missing argument 'DATA'"),
        (["fit", "."], "Missing option '-o'"),
        (["fit", "nowhere", "-o", "m"], "does not exist"),
        (["frobnicate"], "No such command"),
        (["eval", "."], "name --model, --run or --interleaved"),
        (["eval", "--run", __file__], "--run needs DATA or --judgements"),
        (["index", "."], ". is no index; to index its documents, add -o INDEX"),
        (["explain", "."], "name a text and a document's id, or --word"),
        (["searhc"], "did you mean 'search'?"),
    ],
)
def test_wrong_usage_is_exit_code_2(arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.output


def test_failures_are_one_line_and_exit_code_1(beir, model, index, tmp_path):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "qrels").mkdir()
    (tmp_path / "broken" / "corpus.jsonl").write_text('{"_id": "1", "text": "a"}\n{"_id": "2", text}\n')
    (tmp_path / "broken" / "queries.jsonl").write_text('{"_id": "1", "text": "a"}\n')
    (tmp_path / "broken" / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\n1\t1\t1\n")
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    for path in model.iterdir():
        (damaged / path.name).write_bytes(path.read_bytes().replace(b"tercet", b"terzet"))
    (tmp_path / "foreign.qrels").write_text("unknown 0 000 1\n")
    for arguments, message in (
        (
            ("eval", beir, "--model", model, "--judgements", tmp_path / "foreign.qrels"),
            "foreign.qrels:1: query 'unknown'",
        ),
        (("fit", tmp_path / "broken", "-o", tmp_path / "m"), "corpus.jsonl:2: "),
        (("fit", beir, "-o", tmp_path / "m", "--measure", "nDCG@x"), "nDCG@x"),
        (("explain", damaged, "--word", "car"), "manifest.json"),
        (("explain", tmp_path, "--word", "car"), str(tmp_path)),
        (("explain", index, "car", "x"), "'x'"),
    ):
        result = run(*arguments)
        assert result.exit_code == 1, arguments
        assert message in result.output
        assert result.output.splitlines()[-1].startswith("error: ")
        assert "Traceback" not in result.output
    assert not (tmp_path / "m").exists(), "something half-written was left"


def test_where_no_model_can_be_written_nothing_is_read_or_learned(beir, tmp_path):
    for output in (beir, beir / "corpus.jsonl", beir / "corpus.jsonl" / "model"):
        result = run("fit", beir, "-o", output)
        assert result.exit_code == 1
        assert len(result.output.splitlines()) == 1, "the folder was read first"
        assert "nothing was written" in result.output
    (tmp_path / "model").write_text("a file")
    assert run("demo", "-o", tmp_path).output == f"error: {tmp_path / 'model'} exists and is not a folder; " + (
        "nothing was written\n"
    )


def test_a_single_query_has_no_interval(beir, model, tmp_path):
    (tmp_path / "one.qrels").write_text("q0 0 000 1\n")
    result = run("eval", beir, "--model", model, "--judgements", tmp_path / "one.qrels", "-m", "P@1")
    assert result.exit_code == 0, result.output
    assert "nan" not in result.output


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX pipes")
def test_a_reader_that_has_seen_enough_ends_it_without_a_word(model):
    with subprocess.Popen(
        [sys.executable, "-m", "tercet", "explain", model, *["--word", "car"] * 5000],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


@pytest.mark.slow
def test_letters_the_output_cannot_hold_are_written_as_numbers(index):
    done = subprocess.run(
        [sys.executable, "-m", "tercet", "explain", index, "car", "000"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
        check=True,
        timeout=60,
    )
    assert rb"car \u2192 automobil" in done.stdout  # its stem


def test_a_traceback_when_asked_for(tmp_path):
    result = run("--traceback", "explain", tmp_path, "--word", "car")
    assert result.exit_code == 1
    assert "Traceback" in result.output


def test_help_and_version_load_no_verb_and_nothing_heavy():
    program = """
import sys
from click.testing import CliRunner
from tercet.cli.main import cli
for arguments in (["--version"], ["--help"], ["letor", "--help"], ["export", "--help"]):
    assert CliRunner().invoke(cli, arguments).exit_code == 0
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    modules = set(done.stdout.split())
    assert {"numpy", "scipy", "numba", "sklearn", "rich"} & modules == set()
    assert {
        "tercet.cli.fit",
        "tercet.cli.letor",
        "tercet.cli.letor_fit",
        "tercet.cli.export",
        "tercet.cli.search",
    } & modules == set()


@pytest.mark.parametrize("verbs", [main.VERBS, main.LETOR_VERBS, main.EXPORT_VERBS], ids=["tercet", "letor", "export"])
def test_each_verb_of_the_tables_is_there(verbs):
    for verb, (target, line) in verbs.items():
        command = resolve_name(target)
        assert command.name == verb
        assert command.help
        assert len(verb) + len(line) < 76, "the help shows a line a verb"


def test_the_help_has_every_verb_in_one_section():
    listed = [verb for section in main.SECTIONS.values() for verb in section]
    assert sorted(listed) == sorted(main.VERBS)
    shown = run("--help").output
    positions = [shown.index(f"\n  {verb} ") for verb in listed]
    assert positions == sorted(positions)
    for heading in main.SECTIONS:
        assert f"\n{heading}:\n" in shown


def test_the_installed_command_says_its_version():
    command = Path(sys.executable).with_name("tercet")
    done = subprocess.run([command, "--version"], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == f"tercet, version {tc.__version__}"


def test_a_search_loads_neither_scipy_nor_numba(tmp_path):
    tc.Index.build({"a": "green tea", "b": "black tea"}, path=tmp_path / "index")
    program = """
import sys
from click.testing import CliRunner
from tercet.cli.main import cli
assert "green" in CliRunner().invoke(cli, ["search", sys.argv[1], "green tea"]).output
print(*sys.modules)
"""
    command = [sys.executable, "-c", program, str(tmp_path / "index")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert {"scipy", "numba", "sklearn", "rich"} & set(done.stdout.split()) == set()
