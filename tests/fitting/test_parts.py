"""Words and memory as parts of a model: which are used, which are kept, and how to use others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tercet as tc
from support.corpora import Corpus, bits, matching, synonyms, with_random_answers
from support.memories import remember
from tercet.errors import InputError
from tercet.memory import MemorySettings

CHOICES = [(), ("words",), ("memory",), ("words", "memory")]


def paraphrases(seed: int = 0, n_answers: int = 12, n_each: int = 8, n_words: int = 6) -> Corpus:
    """A FAQ: each answer is asked for in several ways, which share words with one another and none with the answer."""
    rng = np.random.default_rng(seed)
    docs = {f"d{i}": f"answer{i} reply{i} closing words" for i in range(n_answers)}
    docs |= {f"other{i}": f"unasked{i} closing words" for i in range(30)}
    queries, qrels = {}, {}
    for answer in range(n_answers):
        for number in range(n_each):
            words = [f"topic{answer}word{w}" for w in rng.choice(n_words, 3, replace=False)]
            queries[f"q{answer}.{number}"] = " ".join([*words, f"please{rng.integers(5)}"])
            qrels[f"q{answer}.{number}"] = {f"d{answer}": 1}
    return Corpus(docs, queries, qrels)


def ndcg(model: tc.TextModel, corpus: Corpus, qids) -> float:
    queries = {qid: corpus.queries[qid] for qid in qids}
    found = tc.evaluate({qid: corpus.qrels[qid] for qid in qids}, model.rank(queries, corpus.docs), ["nDCG@10"])
    return float(found.mean("nDCG@10"))


def scored(model: tc.TextModel, corpus: Corpus) -> dict[str, dict[str, float]]:
    return model.rank(dict(list(corpus.queries.items())[:10]), corpus.docs, k=len(corpus.docs))


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return synonyms(4, n_pairs=12, n_docs=50, n_queries=80)


@pytest.fixture(scope="module")
def both(corpus) -> tc.TextModel:
    model = tc.fit(corpus.docs, corpus.queries, corpus.part(0, 60), options={"n_steps": 1000})
    assert model.parts == ("words", "memory")
    return model


# -- which parts are used ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_questions_asked_in_other_words_are_answered_by_memory():
    faq = paraphrases()
    train = {qid: judged for qid, judged in faq.qrels.items() if not qid.endswith(".0")}
    model = tc.fit(faq.docs, faq.queries, train, ranker="diagonal", options={"n_steps": 500})
    assert "memory" in model.parts
    assert model.report.decision.startswith("Used: ")
    fresh = [qid for qid in faq.queries if qid.endswith(".0")]
    assert ndcg(model, faq, fresh) > 0.9
    assert ndcg(model.with_parts([]), faq, fresh) < 0.3
    rivals = {rival.name: rival.values["nDCG@10"][0] for rival in model.report.rivals}
    assert rivals["past queries appended"] > model.report.systems[0].values["nDCG@10"][0] + 0.3


@pytest.mark.slow
def test_where_nothing_helps_the_model_is_bm25():
    true = matching(2)
    model = tc.fit(
        true.docs, true.queries, true.qrels, measure="Success@10", ranker="diagonal", options={"n_steps": 500}
    )
    assert model.parts == ()
    assert model.memory is None
    assert model.report.decision.startswith("Nothing that was learned is better than BM25")
    assert bits(model.weights) == bits(tc.TextModel.bm25(true.docs.values()).weights)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_new_documents_are_found_at_least_as_bm25_finds_them(seed):
    """Threads of a forum: a question says two words of its thread and two of its own; some threads are new."""
    rng = np.random.default_rng(seed)

    def some(kind: str, n: int, size: int) -> list[str]:
        return [f"{kind}{i}" for i in rng.choice(n, size, replace=False)]

    docs = {f"d{i}": " ".join(some("word", 60, 6)) for i in range(60)}
    queries, qrels = {}, {}
    for i in range(60):
        for number in range(3):
            words = rng.choice(docs[f"d{i}"].split(), 2, replace=False).tolist()
            queries[f"q{i}.{number}"] = " ".join(words + some("own", 40, 2))
            qrels[f"q{i}.{number}"] = {f"d{i}": 1}
    known = {f"d{i}" for i in range(45)}
    train = {qid: judged for qid, judged in qrels.items() if known & judged.keys()}
    some_docs = {doc_id: text for doc_id, text in docs.items() if doc_id in known}
    model = tc.fit(some_docs, queries, train, options={"n_steps": 5000})
    forum, new = Corpus(docs, queries, qrels), [qid for qid in qrels if qid not in train]
    assert ndcg(model, forum, new) > ndcg(model.with_parts([]), forum, new) - 0.02


# -- with_parts -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_parts_are_taken_out_and_put_back(both, corpus):
    start, words, memory, again = map(both.with_parts, CHOICES)
    assert [model.parts for model in (start, words, memory, again)] == CHOICES
    assert (start.memory, words.memory) == (None, None)
    assert bits(words.weights) == bits(both.weights)
    assert memory.memory is both.memory
    assert again.report is both.report
    assert start.report is words.report is memory.report is None
    expected = {
        parts: scored(model, corpus) for parts, model in zip(CHOICES, (start, words, memory, again), strict=True)
    }
    for model in (start, words, memory, again):
        for parts in CHOICES:
            assert scored(model.with_parts(parts), corpus) == expected[parts]
    assert expected["words", "memory"] == scored(both, corpus)
    assert both.with_parts(["memory", "words"]).parts == ("words", "memory")


@pytest.mark.slow
def test_without_parts_a_model_is_its_start(both, corpus):
    start = both.with_parts([])
    bm25 = replace(start, weights=tc.Weights([tc.weights.Identity(n_terms=start.weights.shape[0])]), learned=None)
    for qid, found in scored(start, corpus).items():
        assert list(found) == list(scored(bm25, corpus)[qid])


@pytest.mark.slow
def test_parts_are_of_one_scale(both, corpus):
    """Memory beside the start counts as much as beside the words: the start comes in the unit of the words."""
    fresh = list(corpus.part(60))
    by_part = {parts: ndcg(both.with_parts(parts), corpus, fresh) for parts in CHOICES}
    assert by_part["words", "memory"] >= max(by_part["words",], by_part["memory",]) - 0.02
    assert min(by_part["words",], by_part["memory",]) > by_part[()] + 0.2
    chosen = both.report.chosen
    unit = 1.0 if "mean with" in chosen else chosen["identity_weight"]
    assert both.with_parts([]).weights.identity == pytest.approx(unit)
    assert both.weights.identity == pytest.approx(unit * (1 + chosen["blend"]))


@pytest.mark.slow
@pytest.mark.parametrize("parts", CHOICES)
def test_a_saved_model_has_the_same_parts_to_choose_from(both, corpus, parts, tmp_path):
    model = both.with_parts(parts)
    model.save(tmp_path / "model")
    again = tc.load(tmp_path / "model")
    assert again.parts == parts
    assert (again.report is None) == (model.report is None)
    for other in CHOICES:
        assert scored(again.with_parts(other), corpus) == scored(model.with_parts(other), corpus)


@pytest.mark.slow
def test_an_index_is_built_with_the_parts_that_are_wanted(both, corpus):
    queries = dict(list(corpus.queries.items())[:5])
    for parts in CHOICES:
        model = both.with_parts(parts)
        index = tc.Index.build(corpus.docs, model)
        for qid, found in index.search_many(queries, k=5).items():
            expected = model.rank({qid: queries[qid]}, corpus.docs, k=5)[qid]
            assert list(found.values()) == pytest.approx(list(expected.values())[: len(found)], rel=1e-4)


@pytest.mark.slow
def test_what_was_rejected_is_kept_and_can_be_used(tmp_path):
    noise = with_random_answers(matching(0), 0)
    model = tc.fit(noise.docs, noise.queries, noise.part(0, 30), options={"n_steps": 300})
    assert not model.report.accepted
    assert model.parts == ()
    assert model.report.rejected.name == "learned"
    kept = [
        name
        for name, part in (("words", model.learned.other_weights), ("memory", model.learned.other_memory))
        if part is not None
    ]
    assert "memory" in kept
    assert f"with_parts({kept})" in model.report.decision
    used = model.with_parts(kept)
    assert used.parts == tuple(kept)
    assert scored(used, noise) != scored(model, noise)
    assert scored(used.with_parts([]), noise) == scored(model, noise)
    model.save(tmp_path / "model")
    assert scored(tc.load(tmp_path / "model").with_parts(kept), noise) == scored(used, noise)


@pytest.mark.slow
def test_words_alone_have_no_memory(both):
    alone = both.words_alone()
    assert alone.parts == ("words",)
    assert alone.memory is None
    assert bits(alone.weights) == bits(both.weights)


@pytest.mark.parametrize("parts", [["vectors"], ["words", "vectors"], "vectors"])
def test_a_part_that_no_model_has_is_named(parts):
    model = tc.TextModel.bm25(["green tea"])
    with pytest.raises(InputError, match=f"got {parts[-1]!r}|got {parts[0]!r}"):
        model.with_parts(parts)


def test_a_part_that_was_not_learned_is_named():
    model = tc.TextModel.bm25(["green tea", "black coffee"])
    assert model.parts == model.with_parts([]).parts == ()
    for part in ("words", "memory"):
        with pytest.raises(InputError, match=f"learned no {part}"):
            model.with_parts([part])
    memory = remember({"q": {"a": 1}}, {"q": "tea"}, model.queries(["tea"]), MemorySettings())
    remembering = replace(model, memory=memory)
    assert remembering.parts == ("memory",)
    assert remembering.with_parts([]).with_parts(["memory"]).memory is memory
    with pytest.raises(InputError, match="learned no words"):
        remembering.with_parts(["words", "memory"])
