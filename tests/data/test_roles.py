"""Roles of columns: guessed from names, given by name, and asked for all at once."""

import pytest

from tercet.data.frames import MemoryTable
from tercet.data.judgements import read_judgements
from tercet.data.roles import TABLE_ROLES, find_roles, guess_roles, kind_of_click_log, kind_of_columns
from tercet.data.triplets import as_triplets
from tercet.errors import FormatError


@pytest.mark.parametrize("kind", TABLE_ROLES)
def test_usual_names_are_guessed_for_every_role(kind):
    roles = TABLE_ROLES[kind]
    guess = guess_roles([role.usual_column for role in roles], kind)
    assert guess.problem() is None
    assert {role: guess[role] for role in guess.columns} == {role.name: role.usual_column for role in roles}


@pytest.mark.parametrize("kind", TABLE_ROLES)
def test_all_missing_columns_are_asked_for_at_once(kind):
    guess = guess_roles(["color"], kind)
    required = [role for role in TABLE_ROLES[kind] if role.required]
    assert list(guess.missing) == required
    problem = str(guess.problem())
    assert all(role.meaning in problem and repr(role.usual_column) in problem for role in required)
    with pytest.raises(FormatError) as caught:
        find_roles(MemoryTable("rows", [{"color": "red"}], ["color"]), kind)
    assert caught.value.message == problem


def test_a_given_column_is_guessed_for_nothing_else():
    assert guess_roles(["id", "title", "text"], "documents", {"id": "title"}).columns["text"] == ("text",)
    guess = guess_roles(["query", "sku", "position", "clicked"], "shown", {"list": "position"})
    assert (guess["list"], guess.get("position")) == ("position", None)


def test_equally_sure_names_are_unclear_only_where_the_column_is_required():
    guess = guess_roles(["query", "sku", "asin", "grade", "weight"], "judgements")
    assert guess.unclear == {"doc": ("sku", "asin")}
    assert "'sku' and 'asin' could each be the doc" in str(guess.problem())
    assert guess_roles(["query", "sku", "clicked", "rank", "slot"], "shown").get("position") == "rank"


@pytest.mark.parametrize(
    ("columns", "kind"),
    [
        (["anchor", "positive", "negative"], "triplets"),
        (["query", "pos", "neg"], "triplets"),
        (["question", "answer", "negative"], "triplets"),
        (["question", "answer"], "judgements"),
        (["question", "answer", "label"], "judgements"),
        (["id", "question", "answer"], "documents"),
        (["query", "pos", "clicked"], None),
        (["question", "price"], None),
    ],
)
def test_names_of_other_tools_are_known(columns, kind):
    assert kind_of_columns(columns) == kind


def test_triplets_of_other_tools_are_read():
    rows = [{"anchor": "green tea", "positive": "007", "negative": "008"}]
    assert as_triplets(rows, None) == [("green tea", "007", "008")]
    assert as_triplets([{"query": "green tea", "pos": "007", "neg": "008"}], None) == [("green tea", "007", "008")]


def test_an_answer_without_a_grade_is_relevant(tmp_path):
    file = tmp_path / "faq.csv"
    file.write_text("question,answer\nhow much,a7\nhow long,a8\n")
    assert read_judgements(file).qrels == {"how much": {"a7": 1}, "how long": {"a8": 1}}
    file.write_text("question,answer,label\nhow much,a7,0\n")
    assert read_judgements(file).qrels == {"how much": {"a7": 0}}


def test_the_shape_of_a_click_log():
    assert kind_of_click_log(["query", "shown", "clicked"]) == "lists"
    assert kind_of_click_log(["query", "sku", "clicked", "event"]) == "shown"
    assert kind_of_click_log(["query", "sku", "action"]) == "events"
    assert kind_of_click_log(["who", "what", "hit"], {"action": "hit"}) == "events"
