"""`tercet up` and `tercet.toml`: files with any columns become a search that learns, and verbs remember them."""

from __future__ import annotations

import csv
import json
import tomllib

import pytest

import tercet as tc
from support.commands import ok, run
from tercet.data.guessing import guess_clicks, guess_documents, sample
from tercet.data.tables import open_table
from tercet.simulate import Visitors, simulate_clicks

PLANTS = ("oak", "elm", "fir", "yew", "ash", "box", "may", "sloe", "broom", "alder", "aspen", "cedar")
ANIMALS = ("hen", "cow", "ewe", "sow", "cat", "dog", "doe", "hare", "mole", "vole", "newt", "toad")
DOCS = {f"P-{n:03}": f"{plant} tree with leaves and bark" for n, plant in enumerate(PLANTS)}
DOCS |= {f"P-{n:03}": f"{animal} beast with ears and eyes" for n, animal in enumerate(ANIMALS, start=50)}
# People say what no document has; what they click tells.
ASKED = {f"{kind} {word}": doc for n, doc in enumerate(DOCS) for word in ("big", "wild", "near")
         for kind in (f"thing{n} with",)}  # fmt: skip


def write(path, header, rows, delimiter=";", encoding="utf-8-sig"):
    with open(path, "w", newline="", encoding=encoding) as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(header)
        writer.writerows(rows)
    return path


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """A folder with an export and a log whose columns have names that nobody knows."""
    monkeypatch.chdir(tmp_path)
    rows = [(n, doc, text, f"{doc}@farm.example", "x") for n, (doc, text) in enumerate(DOCS.items())]
    write("export.csv", ("zeile", "Nummer", "Beschreibung", "wer", "rest"), rows)
    lists = {query: [[doc, *[other for other in DOCS if other != doc][:5]]] for query, doc in ASKED.items()}
    log = simulate_clicks(lists, {query: {doc: 1} for query, doc in ASKED.items()}, 600, Visitors())
    shown = [
        (session, seen.query, place, doc, "Ja" if doc in seen.clicked else "Nein")
        for seen, session in zip(log.impressions, log.sessions, strict=True)
        for place, doc in enumerate(seen.shown, start=1)
    ]
    write("log.csv", ("besuch", "gesucht", "rang", "artikel", "geklickt"), shown)
    return tmp_path


UP = ("up", "export.csv", "--clicks", "log.csv", "--yes", "--no-serve")


def settings(folder):
    return tomllib.loads((folder / "tercet.toml").read_text("utf-8"))


def test_columns_are_guessed_from_their_cells(shop):
    table, log = open_table("export.csv"), open_table("log.csv")
    docs, shown = sample(table), sample(log)
    guess = guess_documents(table.columns, docs, {cell for column in shown.values() for cell in column})
    assert (guess["id"], guess.columns["text"]) == ("Nummer", ("Beschreibung",))
    clicks = guess_clicks(log.columns, shown, docs, set(docs["Nummer"]))
    roles = {"query": "gesucht", "doc": "artikel", "clicked": "geklickt", "position": "rang", "session": "besuch"}
    assert {role: columns[0] for role, columns in clicks.columns.items()} == roles
    assert clicks.missing == ()


def test_lists_of_ids_are_found_in_a_log_with_a_row_for_each_list():
    docs = {"no": ["007", "008", "009"], "text": ["green tea", "black tea", "milk"]}
    log = {"typed": ["tea", "green tea"], "seen": ["007,008", "008,007,009"], "taken": ["007,008", "007,009"]}
    guess = guess_clicks(list(log), log, docs, docs["no"])
    assert {role: columns[0] for role, columns in guess.columns.items()} == {
        "query": "typed",
        "shown": "seen",
        "clicked": "taken",
    }


def test_up_learns_and_every_verb_remembers_the_columns(shop):
    said = ok(*UP)
    for column in ("Nummer", "Beschreibung", "gesucht", "artikel", "geklickt"):
        assert f"│ {column}" in said
    kept = settings(shop)
    assert (kept["documents"], kept["clicks"]) == ("export.csv", ["log.csv"])
    assert (kept["id"], kept["text"], kept["private"]) == ("Nummer", ["Beschreibung"], ["wer"])
    index = tc.Index.open(shop / "search" / "index")
    assert len(index) == len(DOCS)
    assert set(index.stored_fields("P-000")) == {"zeile", "rest"}
    model = tc.load(shop / "search" / "model")
    assert (model.id_column, model.text_columns) == ("Nummer", ("Beschreibung",))
    assert "memory" in model.parts
    served = index.with_model(model)
    right = [served.search(query, 1)[0].doc_id == doc for query, doc in ASKED.items() if served.search(query, 1)]
    assert sum(right) > len(ASKED) / 2
    # What no option says comes from the file: a fit, an index and a description of the log.
    assert "24 documents" in ok("fit", "export.csv", "--clicks", "log.csv", "--steps", 200, "-o", "other")
    ok("index", "export.csv", "--model", "other", "-o", "other-index")
    assert "600 lists" in ok("clicks", "log.csv")


def test_up_again_takes_new_documents_and_offers_a_candidate(shop):
    ok(*UP)
    index = tc.Index.open(shop / "search" / "index")
    before = len(index.promotions)
    rows = [(n, doc, text, "", "") for n, (doc, text) in enumerate(list(DOCS.items())[1:])]
    write(
        "export.csv", ("zeile", "Nummer", "Beschreibung", "wer", "rest"), [*rows, (99, "P-999", "a new heron", "", "")]
    )
    said = ok("up", "--yes", "--no-serve")
    assert "24 documents before, 24 now, 1 removed" in said
    assert "until clicks decide" in said
    again = tc.Index.open(shop / "search" / "index")
    assert ("P-999" in again, "P-000" in again) == (True, False)
    assert [hit.doc_id for hit in again.search("heron", 1)] == ["P-999"]
    assert len(again.promotions) == before  # the clicks on shared lists decide, not the fit


def test_a_folder_without_clicks_is_searched_by_bm25_until_there_are_some(shop):
    assert "the ranking is BM25" in ok("up", "export.csv", "--yes", "--no-serve")
    shown = shop / "search" / "impressions"
    shown.mkdir()
    query = {"query_id": "1", "client_id": "c", "timestamp": "2026-05-01T12:00:00Z", "user_query": "oak"}
    query["query_response_hit_ids"] = ["P-000", "P-001"]
    (shown / "ubi_queries-20260501-0001.jsonl").write_text(json.dumps(query) + "\n")
    (shown / "ubi_events-20260501-0001.jsonl").write_text("")
    ok("up", "--yes", "--no-serve")
    assert not (shop / "search" / "model").exists()
    event = {"action_name": "click", "query_id": "1", "client_id": "c", "timestamp": "2026-05-01T12:00:05Z"}
    event["event_attributes"] = {"object": {"object_id": "P-001"}, "position": {"ordinal": 2}}
    (shown / "ubi_events-20260501-0001.jsonl").write_text(json.dumps(event) + "\n")
    assert "Nothing was validated" in ok("up", "--yes", "--no-serve")


def test_the_columns_of_a_model_are_those_of_its_documents(shop):
    columns = ("--id", "Nummer", "--text", "Beschreibung", "--column", "query=gesucht", "--column", "doc=artikel")
    columns += ("--column", "clicked=geklickt")
    ok("fit", "export.csv", "--clicks", "log.csv", "--steps", 200, "-o", "m", *columns)
    assert not (shop / "tercet.toml").exists()
    ok("index", "export.csv", "--model", "m", "-o", "i")
    write("today.csv", ("zeile", "Nummer", "Beschreibung", "wer", "rest"), [(1, "P-500", "a heron", "", "")])
    assert "25 now" in ok("index", "i", "--update", "today.csv")


def test_all_that_cannot_be_guessed_is_asked_for_at_once(shop):
    write("bare.csv", ("a", "b"), [("x y", 1), ("x y", 1)])
    result = run("up", "bare.csv", "--clicks", "log.csv", "--yes", "--no-serve")
    assert result.exit_code == 1
    for option in ("--id COLUMN", "--text COLUMN", "--column doc=COLUMN"):
        assert option in result.output
    assert not (shop / "tercet.toml").exists()


def test_a_question_is_answered_in_the_terminal(shop):
    from click.testing import CliRunner

    from tercet.cli.main import cli

    write("bare.csv", ("a", "Beschreibung"), [("x", text) for text in DOCS.values()])
    write("bare.csv", ("a", "nr", "Beschreibung"), [("x", f"{n} {doc}", DOCS[doc]) for n, doc in enumerate(DOCS)])
    done = CliRunner().invoke(cli, ["up", "bare.csv", "--no-serve"], input="nr\n")
    assert "which column holds the id?" in done.output
    assert done.exit_code == 0, done.output
    assert settings(shop)["id"] == "nr"


def test_settings_of_a_verb_are_defaults_of_its_options(shop):
    ok(*UP)
    with open("tercet.toml", "a", encoding="utf-8") as file:
        file.write("\n[search]\nk = 1\n")
    result = run("search", "search/index", "with")
    assert "there is no option 'k'" in result.output
    text = (shop / "tercet.toml").read_text("utf-8").replace("k = 1", "why = true")
    (shop / "tercet.toml").write_text(text, "utf-8")
    assert "+0." in ok("search", "search/index", "oak tree")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("documnts = 'a.csv'", "there is no setting 'documnts'; did you mean 'documents'?"),
        ("id = 3", "id is 3; a text is expected"),
        ("columns = 'x'", "a table of texts is expected"),
        ("id = ", "tercet.toml: "),
    ],
)
def test_a_slip_in_the_file_is_named(shop, text, message):
    (shop / "tercet.toml").write_text(text, "utf-8")
    result = run("clicks", "log.csv")
    assert result.exit_code == 1
    assert message in result.output
