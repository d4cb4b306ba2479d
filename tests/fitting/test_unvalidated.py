"""Too few queries to leave any out: past queries are remembered, and the report says that nothing was validated."""

from __future__ import annotations

import pytest

import tercet as tc
from support.commands import ok, run
from tercet.errors import BundleError, InputError

DOCS = {"cat": "cats purr, chase mice", "dog": "dogs bark, fetch sticks", "fish": "fish swim in ponds"}
WANTED = [("feline pet", "cat", "dog"), ("canine pet", "dog", "fish"), ("aquatic animal", "fish", "cat")]


def test_three_preferences_are_a_model_and_its_report_says_that_nothing_was_validated(tmp_path):
    model = tc.fit(DOCS, preferences=WANTED)
    assert model.parts == ("memory",)
    assert "Nothing was validated: 3 queries are too few" in str(model.report)
    assert model.report.systems == ()
    for word, answer in (("feline", "cat"), ("canine", "dog"), ("aquatic", "fish")):
        hit = tc.Index.build(DOCS, model).search(word, k=1)[0]
        assert hit.doc_id == answer
        assert [reason.text.split()[0] for reason in hit.why.past] == [word]
    model.save(tmp_path / "model")
    again = tc.load(tmp_path / "model")
    assert str(again.report) == str(model.report)
    assert again.rank({"q": "feline"}, DOCS) == model.rank({"q": "feline"}, DOCS)


def test_one_preference_is_enough():
    model = tc.fit(DOCS, preferences=WANTED[:1])
    assert next(iter(model.rank({"q": "feline"}, DOCS)["q"])) == "cat"
    assert "1 query is too few" in model.report.decision


def test_memory_alone_learns_no_words_of_many_queries():
    queries = {f"q{i}": f"{query} {i}" for i, (query, *_) in enumerate(WANTED * 5)}
    qrels = {qid: {WANTED[i % 3][1]: 1} for i, qid in enumerate(queries)}
    model = tc.fit(DOCS, queries, qrels, options={"memory_only": True})
    assert model.parts == ("memory",)
    assert model.memory.evidence.shape[0] == 15
    assert model.report.decision.endswith("Nothing was validated.")


def test_five_preferences_in_a_file_are_a_model_in_the_shell(tmp_path):
    (tmp_path / "pets.csv").write_text("id,text\n" + "".join(f'{key},"{text}"\n' for key, text in DOCS.items()))
    rows = "".join(f"{query},{better},{worse}\n" for query, better, worse in WANTED)
    (tmp_path / "liked.csv").write_text("query,better,worse\n" + rows)
    said = ok("fit", tmp_path / "pets.csv", "--preferences", tmp_path / "liked.csv", "-o", tmp_path / "model")
    assert "Nothing was validated" in said
    ok("index", tmp_path / "pets.csv", "--model", tmp_path / "model", "-o", tmp_path / "index")
    assert "  cat" in ok("search", tmp_path / "index", "feline")


def test_a_list_of_texts_is_a_collection():
    texts = list(DOCS.values())
    assert [hit.doc_id for hit in tc.Index.build(texts).search("bark")] == ["1"]
    model = tc.fit(texts, preferences=[("canine", "1", "0")])
    assert list(model.rank({"q": "canine"}, texts, k=1)["q"]) == ["1"]


@pytest.mark.parametrize(
    ("name", "call"),
    [("search", "tc.Index.build(docs, model).search(text)"), ("predict", "model.rank"), ("evaluate", "tc.evaluate")],
)
def test_a_call_of_another_library_names_the_one_that_works(name, call):
    model = tc.TextModel.bm25(DOCS.values())
    assert not hasattr(model, name)
    with pytest.raises(AttributeError, match=f"has no '{name}'") as caught:
        getattr(model, name)
    assert call in str(caught.value)


def test_opening_a_model_as_an_index_names_the_call_that_makes_one(tmp_path):
    tc.TextModel.bm25(DOCS.values()).save(tmp_path / "model")
    with pytest.raises(BundleError, match="holds a model") as caught:
        tc.Index.open(tmp_path / "model")
    assert "tc.Index.build(docs, tc.load(path))" in str(caught.value)
    assert "in a shell tercet index" in run("search", tmp_path / "model", "x").output


def test_a_slip_of_the_keyboard_gets_the_name_that_is_there(tmp_path):
    (tmp_path / "pets.csv").write_text("ident,what\n" + "".join(f'{key},"{text}"\n' for key, text in DOCS.items()))
    named = "--id", "ident", "--text", "whta", "-o", tmp_path / "index"
    assert "did you mean 'what'?" in run("index", tmp_path / "pets.csv", *named).output
    ok("index", tmp_path / "pets.csv", "--id", "ident", "--text", "what", "-o", tmp_path / "index")
    assert "does not know: barq; did you mean 'bark'?" in run("search", tmp_path / "index", "barq").output
    with pytest.raises(InputError, match="did you mean 'low-rank'"):
        tc.fit(DOCS, preferences=WANTED, ranker="lowrank")
