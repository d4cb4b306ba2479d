"""benchmarks/memory.py: splits and measures, and every study once on small data."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import tercet as tc
from support.corpora import TINY, synonyms
from support.linked_corpus import write_linked_corpus
from support.packages import package_list
from tercet.data.beir import write_beir
from tercet.data.clicks import ClickLog, Impression

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
QUICK = Namespace(quick=True)


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    # Importing one_thread would change the number of threads of every process started later.
    monkeypatch.setitem(sys.modules, "one_thread", ModuleType("one_thread"))
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    for name in ("memory", "memory_cases", "common"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import memory  # type: ignore[import-not-found]

    return memory


@pytest.fixture
def cases(memory: ModuleType) -> ModuleType:
    import memory_cases  # type: ignore[import-not-found]

    return memory_cases


@pytest.fixture
def data_home(tmp_path: Path) -> Path:
    corpus = synonyms(0, n_pairs=12, n_docs=40, n_queries=50)
    for name, test in (("nfcorpus", "dev"), ("toollens", "test")):
        write_beir(tmp_path / name, corpus.docs, corpus.queries, {"train": corpus.part(0, 35), test: corpus.part(35)})
    write_linked_corpus(tmp_path)
    for part in ("train", "test"):
        for group, words in (("cats", "purr meow"), ("dogs", "bark woof"), ("fish", "swim")):
            folder = tmp_path / f"20news-bydate-{part}" / group
            folder.mkdir(parents=True)
            for i in range(12):
                (folder / str(i)).write_text(f"{words} word{i} word{(i + 5) % 12}")
    (tmp_path / "packages").write_text(package_list())
    return tmp_path


# -- studies ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("study", "kinds"),
    [
        ("docstrings", {"all", "known", "new"}),
        ("faq", {"all", "known", "new"}),
        ("shop", {"all", "known", "new", "asked before"}),
        ("nfcorpus", {"all", "known"}),
        ("toollens", {"all"}),
        ("wikispeedia", {"all", "known"}),
        ("newsgroups", {"all"}),
        ("small", {"all", "known", "new"}),
    ],
)
def test_a_study_measures_every_part(
    study: str, kinds: set[str], memory: ModuleType, data_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = run(memory, data_home, study)
    records = results[study]["records"]
    assert kinds <= {record["test"] for record in records}
    for record in records:
        assert {*memory.SYSTEMS} <= record["systems"].keys()
        assert all(0 <= value <= 1 for values in record["systems"].values() for value in values)
        assert record["systems"]["start"]
        assert record["systems"]["shipped"]
    said = capsys.readouterr().out
    assert f"seeds 0; python benchmarks/memory.py {study} --seeds 0 --quick" in said
    assert "nan" not in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("study", "names"),
    [("growing", {"nfcorpus", "docstrings", "faq", "shop"}), ("curve", {"nfcorpus", "toollens"})],
)
def test_a_study_has_every_collection(study: str, names: set[str], memory: ModuleType, data_home: Path) -> None:
    assert run(memory, data_home, study)[study].keys() == names


def run(memory: ModuleType, data_home: Path, *words: str) -> dict:
    written = data_home / "results.json"
    given = ["--quick", "--data-home", str(data_home), "--packages", str(data_home / "packages"), "-o", str(written)]
    memory.main([*words, *given])
    return json.loads(written.read_text())["results"]


def test_missing_data_is_skipped_with_a_line(
    memory: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(memory, "warm_up", lambda: None)
    (tmp_path / "packages").write_text("Package: untagged\nDescription: nothing\n")
    assert run(memory, tmp_path, "nfcorpus", "newsgroups", "curve", "shop") == {"curve": {}}
    said = capsys.readouterr().out
    assert f"nfcorpus: skipped, there is no {tmp_path / 'nfcorpus'}" in said
    assert "newsgroups: skipped" in said
    assert "curve, toollens: skipped" in said
    assert "shop: skipped, no tagged package was found" in said
    monkeypatch.delenv("TERCET_DATA", raising=False)
    memory.main(["toollens", "--quick"])
    assert "toollens: skipped, name the folder with the data: --data-home DIR" in capsys.readouterr().out


def test_an_unknown_study_is_refused_by_name(memory: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        memory.main(["recipe"])
    assert "there is no study 'recipe'; there are nfcorpus" in capsys.readouterr().err


# -- cases ------------------------------------------------------------------------------------------------------------


def test_a_fit_is_given_the_training_part_alone(cases: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    given = []
    monkeypatch.setattr(cases.tc, "fit", lambda *evidence, **settings: given.append((evidence, settings)))
    case = cases.Case("made up", TINY.docs, TINY.queries, TINY.part(0, 12), {}, added=frozenset("c"))
    case.fit(5, new_documents=0)
    docs = {"a": TINY.docs["a"], "b": TINY.docs["b"]}
    queries = {f"q{i}": TINY.queries[f"q{i}"] for i in range(12)}
    assert given == [
        ((docs, queries, TINY.part(0, 12)), {"random_state": 5, "verbose": False, "new_documents": 0}),
    ]


def test_documents_that_are_added_later_have_no_evidence(cases: ModuleType) -> None:
    corpus = synonyms(1, n_pairs=12, n_docs=50, n_queries=40)
    shown = tuple(corpus.docs)
    clicks = ClickLog(tuple(Impression("q", shown[i : i + 2], shown[i : i + 1]) for i in range(50)))
    case = cases.make_case("made up", corpus.docs, corpus.queries, corpus.part(0, 30), corpus.part(30), False)
    grown = cases.grow(cases.replace(case, clicks=clicks), seed=3)
    assert len(grown.added) == round(0.2 * len(corpus.docs))
    assert grown.docs == corpus.docs
    assert not grown.added & {doc_id for judged in grown.train.values() for doc_id in judged}
    assert not grown.added & {doc_id for seen in grown.clicks.impressions for doc_id in (*seen.shown, *seen.clicked)}
    assert all(seen.shown for seen in grown.clicks.impressions)
    answers = {doc_id for judged in grown.tests["new"].qrels.values() for doc_id in judged}
    assert answers
    assert answers <= grown.added


def test_kinds_follow_the_past_queries_that_were_drawn(cases: ModuleType) -> None:
    corpus = synonyms(1, n_pairs=12, n_docs=50, n_queries=40)
    case = cases.make_case("made up", corpus.docs, corpus.queries, corpus.part(0, 30), corpus.part(30), False)
    drawn = cases.with_past_queries(case, 3, np.random.default_rng(0))
    assert len(drawn.train) == 3
    assert drawn.train.keys() <= case.train.keys()
    known = {doc_id for judged in drawn.tests["known"].qrels.values() for doc_id in judged}
    assert known
    assert not known & drawn.new_docs()
    assert drawn.tests["all"].qrels == case.tests["all"].qrels


def test_each_kind_is_measured_without_the_other(memory: ModuleType, cases: ModuleType) -> None:
    # BM25 ranks a before b before c; a is known, c is new, b answers nothing.
    docs = {"a": "tea tea tea", "b": "tea tea pot", "c": "tea pot pot"}
    case = cases.make_case(
        "made up", docs, {"past": "pot", "q": "tea"}, {"past": {"a": 1}}, {"q": {"a": 2, "c": 1}}, False
    )
    case = cases.replace(case, measures=("RR", "R@5", memory.COMPLETE))
    values = memory.values_of(case, tc.TextModel.bm25(docs.values()), docs)
    assert {kind: values[kind, "RR"].tolist() for kind in case.tests} == {"all": [1.0], "known": [1.0], "new": [0.5]}
    assert case.appended()["a"] == "tea tea tea\npot"


def test_completeness_wants_every_answer_among_the_first_five(memory: ModuleType, cases: ModuleType) -> None:
    docs = {f"d{i}": " ".join(["tea"] * (9 - i) + ["pot"] * i) for i in range(8)}
    test = {"p": {"d0": 1, "d4": 1}, "q": {"d0": 1, "d6": 1}}
    queries = {"past": "pot", "p": "tea", "q": "tea"}
    measures = ("R@5", memory.COMPLETE)
    case = cases.make_case("made up", docs, queries, {"past": {"d0": 1}}, test, False, measures=measures)
    values = memory.values_of(case, tc.TextModel.bm25(docs.values()), docs)
    assert values["all", "R@5"].tolist() == [1.0, 0.5]
    assert values["all", memory.COMPLETE].tolist() == [1.0, 0.0]


def test_a_linked_document_is_not_ranked_for_itself(memory: ModuleType, cases: ModuleType) -> None:
    docs = {"a": "tea tea", "b": "tea pot", "c": "pot"}
    case = cases.make_case(
        "made up", docs, docs, {"c": {"b": 1}}, {"a": {"b": 1}}, False, measures=("AP",), linked=True
    )
    values = memory.values_of(case, tc.TextModel.bm25(docs.values()), docs)
    assert values["all", "AP"].tolist() == [1.0]


def test_the_faq_is_made_by_its_seed_and_no_answer_has_a_synonym(cases: ModuleType) -> None:
    case, again, other = (cases.faq(QUICK, seed) for seed in (0, 0, 1))
    assert (case.docs, case.queries) == (again.docs, again.queries)
    assert case.queries != other.queries
    assert not any(word.startswith(("ask", "habit")) for text in case.docs.values() for word in text.split())
    trained = {doc_id for judged in case.train.values() for doc_id in judged}
    assert len(trained) == 0.8 * len(case.docs)
    assert not trained & {doc_id for judged in case.tests["new"].qrels.values() for doc_id in judged}
    assert {doc_id for judged in case.tests["known"].qrels.values() for doc_id in judged} == trained
    assert not case.train.keys() & case.tests["all"].qrels.keys()
