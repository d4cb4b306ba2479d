"""What ``-o`` names is not lost: every verb that writes refuses what is there, unless ``--replace`` allows it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from support.commands import ok, run
from support.indexes import DOCS, small_model
from tercet.cli.main import cli
from tercet.data import write_beir
from tercet.errors import BundleError
from tercet.search import Index

TEXTS = {doc_id: text for doc_id, text in DOCS.items() if text}

# These say themselves what becomes of what is there.
OF_THEIR_OWN = {
    "demo": "writes over a demo only",
    "up": "brings its own folder up to date",
}


def commands(group: click.Group, name: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for verb in group.list_commands(context):
        command = group.get_command(context, verb)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{name}{verb} ")
        else:
            yield name + verb, command


def test_every_verb_that_writes_has_replace() -> None:
    for name, command in commands(cli):
        parameters = {parameter.name for parameter in command.params}
        if "output" in parameters and name not in OF_THEIR_OWN:
            assert "replace" in parameters, f"tercet {name} has -o and no --replace"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_beir(tmp_path / "data", TEXTS, {"q1": "green avocado"}, {"train": {"q1": {"a": 1}}})
    return tmp_path / "data"


def content(path: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def test_folders_that_hold_something_else_are_never_written_over(data: Path, tmp_path: Path) -> None:
    model, index = tmp_path / "model", tmp_path / "index"
    small_model(TEXTS).save(model)
    Index.build(TEXTS, path=index)
    foreign = tmp_path / "holiday"
    foreign.mkdir()
    (foreign / "photo.jpg").write_bytes(b"x")
    before = content(tmp_path)
    for output, verbs in (
        (model, (["index", data], ["letor", "fit", data])),
        (index, (["fit", data], ["letor", "fit", data])),
        (foreign, (["fit", data], ["index", data], ["letor", "fit", data])),
    ):
        for verb in verbs:
            refused = run(*verb, "-o", output, "--replace")
            assert refused.exit_code == 1, (verb, refused.output)
            assert "nothing was written" in refused.output or "is a folder" in refused.output, refused.output
    for verb in (["fit", data, "-o", model], ["index", data, "-o", index]):
        refused = run(*verb)
        assert refused.exit_code == 1
        assert "already; nothing was written. --replace puts the new one in its place" in refused.output
    assert content(tmp_path) == before


def test_files_are_written_over_when_told_so(data: Path, tmp_path: Path) -> None:
    Index.build(TEXTS, small_model(TEXTS), tmp_path / "index")
    run_file = tmp_path / "run.trec"
    run_file.write_text("mine")
    command = ("search", tmp_path / "index", "--queries", data / "queries.jsonl", "-o", run_file)
    assert f"{run_file} is there already; nothing was written" in run(*command).output
    assert run_file.read_text() == "mine"
    ok(*command, "--replace")
    assert run_file.read_text().startswith("q1 Q0 a 1 ")


def test_saving_in_python_replaces_its_own_kind_only(tmp_path: Path) -> None:
    Index.build(TEXTS, path=tmp_path / "index")
    with pytest.raises(BundleError, match="so nothing was written"):
        small_model(TEXTS).save(tmp_path / "index")
    assert len(Index.open(tmp_path / "index")) == len(TEXTS)
    small_model(TEXTS).save(tmp_path / "model")
    small_model({"z": "other words"}).save(tmp_path / "model")
