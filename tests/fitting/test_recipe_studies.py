"""benchmarks/recipe.py: its splits, and each verb once on made-up data in the real formats."""

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
from tercet.data.beir import write_beir
from tercet.weights import Identity

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    # Its first import changes how many threads every process started later would have.
    monkeypatch.setitem(sys.modules, "one_thread", ModuleType("one_thread"))
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    for name in ("recipe", "common"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import recipe  # type: ignore[import-not-found]

    return recipe


@pytest.fixture
def data_home(tmp_path: Path) -> Path:
    corpus = synonyms(0, n_pairs=12, n_docs=40, n_queries=50)
    parts = {"train": corpus.part(0, 30), "dev": corpus.part(30)}
    write_beir(tmp_path / "nfcorpus", corpus.docs, corpus.queries, parts)
    write_linked_corpus(tmp_path)
    for part in ("train", "test"):
        for group, words in (("cats", "purr meow"), ("dogs", "bark woof"), ("fish", "swim")):
            folder = tmp_path / f"20news-bydate-{part}" / group
            folder.mkdir(parents=True)
            for i in range(12):
                (folder / str(i)).write_text(f"{words} word{i} word{(i + 5) % 12}")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["small", "--sizes", "12", "--draws", "2"], ["stemmed BM25", "fits"]),
        (["documents", "--collections", "nfcorpus,wikispeedia"], ["nfcorpus", "wikispeedia"]),
        (["documents", "--collections", "wikispeedia", "--withhold", "documents"], ["wikispeedia"]),
        (["nfcorpus", "--seeds", "1"], ["stemmed BM25", "fits"]),
        (["labelled", "--classes", "3,2"], ["3", "2"]),
        (["steps", "--collections", "nfcorpus", "--queries", "20"], ["nfcorpus"]),
    ],
)
def test_verbs(
    words: list[str], names: list[str], recipe: ModuleType, data_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = data_home / "results.json"
    recipe.main([*words, "--quick", "--data-home", str(data_home), "-o", str(written)])
    assert list(json.loads(written.read_text())["results"]) == names
    assert "nan" not in capsys.readouterr().out.replace("± nan", "")  # one seed has no standard error


def test_small_tells_what_falls_behind(recipe: ModuleType) -> None:
    fits = [
        {"model": model, "start": 0.3, "accepted": model != 0.3, "seconds": 1.0} for model in (0.3, 0.2995, 0.29, 0.4)
    ]
    size, shipped, worst, below, start, gain, accepted, _ = recipe._small_row(30, fits, 0.3)
    assert (size, worst, below, start, accepted) == ("30", "-0.0100", "25%", "+0.0000 ± 0.0000", "75%")
    assert shipped == gain
    assert shipped.startswith("+0.0224 ± ")


@pytest.mark.parametrize("withhold", ["judgements", "documents"])
@pytest.mark.parametrize("linked", [True, False])
def test_what_is_withheld_is_not_learned_from(recipe: ModuleType, withhold: str, linked: bool) -> None:
    corpus = synonyms(1, n_pairs=12, n_docs=50, n_queries=40)
    queries, qrels = corpus.queries, corpus.qrels
    if linked:
        ids = list(corpus.docs)
        queries, qrels = corpus.docs, {ids[i]: {ids[i + 1]: 1, ids[i + 2]: 1} for i in range(40)}
    collection = recipe.Collection("made up", corpus.docs, queries, qrels, linked=linked)
    split = recipe.Split.drawn(collection, withhold, seed=3)
    assert len(split.test) == 8
    assert not split.test.keys() & split.train.keys()
    judged = {doc_id for grades in split.train.values() for doc_id in grades}
    assert judged == split.seen <= split.docs.keys()
    assert len(split.docs) == (len(corpus.docs) if withhold == "judgements" else round(0.8 * len(corpus.docs)))
    assert len(corpus.docs.keys() - judged) >= 10
    if linked:
        assert split.train.keys() <= split.docs.keys()
    assert all(split.test[qid] == qrels[qid] for qid in split.test)


def test_each_kind_is_measured_without_the_other(recipe: ModuleType) -> None:
    # Three documents in the order a, b, c; a is seen, c is new, b is relevant to nothing.
    docs = {"a": "tea tea tea", "b": "tea tea pot", "c": "tea pot pot"}
    collection = recipe.Collection("made up", docs, {"q": "tea"}, {"q": {"a": 2, "c": 1}}, measure="RR")
    words = tc.Vectoriser(sublinear_tf=False).fit(docs.values())
    model = tc.TextModel(words, words, tc.Weights([Identity(n_terms=2)]))
    held_out = collection.held_out(model, collection.qrels)
    assert held_out(model.weights) == 1.0
    seen, new, other = (recipe.of_kind(held_out, np.arange(3) == row) for row in (0, 2, 1))
    assert seen(model.weights) == 1.0
    assert new(model.weights) == 0.5  # b is before it, a is not there
    assert other is None


def test_the_default_call_is_given_the_training_part_alone(recipe: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    given = []
    monkeypatch.setattr(recipe.tc, "fit", lambda *evidence, **settings: given.append((evidence, settings)))
    collection = recipe.Collection("made up", TINY.docs, TINY.queries, TINY.qrels)
    collection.fit(TINY.docs, TINY.part(0, 12), Namespace(quick=False), 5)
    assert given == [
        (
            (TINY.docs, {f"q{i}": TINY.queries[f"q{i}"] for i in range(12)}, TINY.part(0, 12)),
            {"random_state": 5, "verbose": False},
        )
    ]
