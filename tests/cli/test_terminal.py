"""What verbs print is text: no document, id or file name can command the terminal."""

from __future__ import annotations

import ast
import io
import json
import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table

import tercet as tc
from tercet.cli.main import cli
from tercet.cli.terminal import echo, open_console, plain

CLI = Path(tc.__file__).parent / "cli"
ATTACK = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\x08\u202e"
DOC = f"d{ATTACK}1".replace("\r", "")  # an id holds no line break
COMMAND = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@given(st.text())
def test_text_keeps_all_but_commands(text: str) -> None:
    shown = plain(text)
    assert not COMMAND.search(shown)
    shown.encode()  # no half of a surrogate pair
    kept = re.sub(r"[\ud800-\udfff]", "", COMMAND.sub("", text))
    assert re.sub(r"\\u[0-9a-f]{4}", "", shown) == re.sub(r"\\u[0-9a-f]{4}", "", kept)


@given(st.text())
def test_json_is_the_same_json(text: str) -> None:
    assert json.loads(plain(json.dumps(text, ensure_ascii=False))) == text


def test_a_console_shows_commands_of_its_own_only() -> None:
    stream = io.StringIO()
    console = open_console(file=stream, force_terminal=True, color_system="standard", width=200)
    table = Table(title=ATTACK)
    table.add_column(ATTACK)
    table.add_row(ATTACK)
    console.print(table, markup=False)
    console.print(f"[bold]{ATTACK}[/]")
    written = stream.getvalue()
    assert "\x1b[1m" in written
    assert not re.search(r"\x1b\](?!8)|\x1b\[2J|\x9b|\x07|\x08|\r|\u202e", written)


@pytest.mark.parametrize("path", sorted(CLI.rglob("*.py")), ids=lambda path: path.relative_to(CLI).as_posix())
def test_every_verb_prints_through_one_module(path: Path) -> None:
    if path.name == "terminal.py":
        return
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert called not in ("print", "click.echo", "click.secho", "Console", "traceback.print_exc"), node.lineno


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    docs = {DOC: f"green tea {ATTACK}", "d2": "black tea", "d3": "milk"}
    words = tc.Vectorizer().fit(docs.values())
    model = tc.TextModel(words, words, tc.Weights([tc.weights.Identity(n_terms=len(words.words_))]))
    folder = tmp_path_factory.mktemp("terminal")
    stored_fields = {doc_id: {"id": doc_id, "text": text, f"color{ATTACK}": ATTACK} for doc_id, text in docs.items()}
    tc.Index.build(list(stored_fields.values()), model, folder / "index")
    model.save(folder / "model")
    return folder / "index"


def run(*arguments: object) -> str:
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    return result.output


def test_escapes_in_documents_do_not_pass(index: Path) -> None:
    printed = run("search", index, "green tea", "--why")
    assert "green tea" in printed
    assert r"\u001b]0;owned\u0007\u001b[2J\u009b31m" in printed
    as_json = run("search", index, "green tea", "--json")
    assert json.loads(as_json)["hits"][0]["id"] == DOC
    explained = run("explain", index, f"green tea {ATTACK}", DOC)
    assert "green" in explained
    missing = run("explain", index, "green tea", f"no{ATTACK}")
    assert "error:" in missing
    for text in (printed, as_json, explained, missing, run("explain", index.parent / "model", "--word", "green")):
        assert not COMMAND.search(text)


def test_escapes_in_files_do_not_pass_in_what_is_said_of_them(tmp_path: Path) -> None:
    name = tmp_path / f"rows{ATTACK.replace('/', '')}.jsonl"
    name.write_text(json.dumps({"id": f"1{ATTACK}", "text": "a", "k": 1})[:-1] + f', "{ATTACK[4:9]}": 1, "k": 2}}\n')
    printed = run("fit", name, "-o", tmp_path / "model")
    assert "occurs twice" in printed
    assert not COMMAND.search(printed)


def test_a_line_goes_where_it_is_said_to_go() -> None:
    @click.command()
    def said() -> None:
        echo("out")
        echo("\x1berr", err=True)

    result = CliRunner().invoke(said)
    assert (result.stdout, result.stderr) == ("out\n", "\\u001berr\n")
