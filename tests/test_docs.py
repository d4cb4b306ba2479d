"""Every code block of the README, of the documents and of CONTRIBUTING does what it says, on small made-up data."""

from __future__ import annotations

import re
import shutil
import time
import tomllib
from dataclasses import replace
from pathlib import Path

import click
import pytest

import tercet as tc
from support.commands import run
from support.documents import DOCUMENTS, PROJECT, SHELL, Block, blocks_of, names, write_data
from tercet.cli.main import cli
from tercet.errors import BundleError, InputError
from tercet.measure.duels import ATTRIBUTE, Assignment, Contest
from tercet.serve import TaughtStore
from tercet.serve.impressions import ImpressionLog
from tercet.weights import Identity, Weights

BLOCKS = {path.relative_to(PROJECT).as_posix(): blocks_of(path) for path in DOCUMENTS}
ALL = [block for blocks in BLOCKS.values() for block in blocks]

# What a document has large, and what stands for it here.
SMALLER = {
    "local:2": "here:2",  # as many shares, without processes of their own
    "DATA": "nfcorpus/",
    "n_basis=500": "n_basis=50",
    "500_000": "5_000",
    "5000": "50",
    "n_components=100": "n_components=5",
}
# Commands that are not run: that their options exist is checked all the same.
NOT_RUN = {
    "tercet serve": "runs until it is stopped",
    "tercet mcp": "runs until its client ends; tests/adapters/test_mcp.py runs it",
    "week.py": "takes its time; tests/adapters/test_mcp.py runs it",
    "--url": "needs a server",
    "--device cuda": "needs a GPU",
    "tcp://": "needs a cluster",
    "tercet demo": "takes its time; tests/cli/test_cli.py runs it",
    "--parallel": "the data has one language; tests/cli/test_parallel_cli.py runs it",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data that the documents speak of, with a model and an index of it."""
    folder = tmp_path_factory.mktemp("documents")
    write_data(folder)
    for command in (
        f"fit {folder}/nfcorpus -o {folder}/model",
        f"index {folder}/nfcorpus --model {folder}/model -o {folder}/index",
    ):
        result = run(*command.split())
        assert result.exit_code == 0, result.output
    for name in ("old", "new"):
        shutil.copytree(folder / "model", folder / name)
    model = tc.load(folder / "model")
    plain = Weights([Identity(n_terms=model.weights.shape[0], scale=2.0)])
    replace(model, weights=plain).save(folder / "learned")  # another model over the same words
    with TaughtStore(folder / "index.taught.db") as store:
        store.add("ann", "prefer", "acne and milk", [("MED-10", "MED-14")])
    with ImpressionLog(folder / "impressions", clock=lambda: time.time() - 3600) as log:
        shared = Assignment(Contest("served", "candidate"), ("first", "second")).to_meta()
        log.click(
            "127.0.0.1", str(log.search("127.0.0.1", "milk", ["MED-10", "MED-14"], {ATTRIBUTE: shared})), "MED-14"
        )
    shutil.copytree(folder / "index", folder / "out" / "demo" / "index")
    return folder


def smaller(text: str) -> str:
    for large, small in SMALLER.items():
        text = re.sub(rf"(?<!\w){re.escape(large)}(?!\w)", small, text)
    return text


def check_options(words: list[str]) -> None:
    """Parse a command as the command line would, without calling it; files need not be there."""
    command: click.Command = cli
    context = click.Context(cli, info_name="tercet")
    rest = words
    while isinstance(command, click.Group):
        _, found, rest = command.resolve_command(context, rest)
        assert found is not None
        command = found
        context = click.Context(command, info_name=command.name, parent=context)
    try:
        command.parse_args(context, list(rest))
    except click.BadParameter as error:
        if "does not exist" not in error.format_message():
            raise
    except (InputError, BundleError) as error:  # something stands at the output, which make_way removes
        if "nothing was written" not in str(error):
            raise


def make_way(words: list[str]) -> None:
    """Remove what stands where a command writes anew: a document tells several ways to one folder."""
    if "-o" in words:
        output = Path(words[words.index("-o") + 1])
        if output.is_dir():
            shutil.rmtree(output)
        output.unlink(missing_ok=True)


def run_command(words: list[str], where: str, not_run: str = "") -> None:
    line = " ".join(words)
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:", (PROJECT / "Makefile").read_text(), re.M), f"{where}: {line}"
    elif words[0] in ("pip", "pipx"):
        extras = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        for extra in re.findall(r"\[(.+)\]", line):
            assert set(extra.split(",")) <= set(extras), f"{where}: {line}"
    elif words[0] == "tercet":
        if ">" in words:
            words = words[: words.index(">")]
        try:
            check_options(words[1:])
        except click.UsageError as error:
            pytest.fail(f"{where}: {line}\n{error.format_message()}")
        if not not_run and not any(sign in line for sign in NOT_RUN):
            make_way(words[1:])
            alone = ["--yes", "--no-serve"] if words[1] == "up" else []  # nobody answers or searches
            result = run(*words[1:], *alone)
            assert result.exit_code == 0, f"{where}: {line}\n{result.output}"
    elif words[0] not in ("curl", "mkdir") or not not_run:
        assert words[0].startswith(".venv/bin/"), f"{where}: {line}"
        for argument in words[1:]:
            assert "/" not in argument or (PROJECT / argument).exists(), f"{where}: there is no {argument}"


@pytest.fixture
def here(made, tmp_path, monkeypatch) -> None:
    shutil.copytree(made, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")


@pytest.mark.slow
@pytest.mark.parametrize("document", sorted({block.document for block in ALL if block.language == "sh"}))
def test_the_commands_of_a_document_run(document, here):
    for block in BLOCKS[document]:
        if block.language == "sh":
            for words in block.commands():
                run_command([smaller(word) for word in words], block.where, block.not_run)


@pytest.mark.slow
@pytest.mark.parametrize("document", sorted({block.document for block in ALL if block.language == "python"}))
def test_the_python_of_a_document_runs(document, here, capsys):
    """One block after the other, as one program. What the README says that it prints, it prints."""
    namespace = names(document)
    for block, after in zip(BLOCKS[document], [*BLOCKS[document][1:], None], strict=True):
        if block.language == "python" and not block.not_run:
            code = compile("\n" * (block.line - 1) + smaller(block.text), block.document, "exec")  # with its lines
            capsys.readouterr()
            exec(code, namespace)
            if document == "README.md" and after is not None and after.language == "text":
                assert rounded(capsys.readouterr().out.strip()) == rounded(after.text), after.where


def rounded(text: str) -> str:
    """The last digits of a figure may be others on another machine."""
    return re.sub(r"\d+\.\d{3,}", lambda figure: f"{float(figure[0]):.2f}", text)


# -- blocks are what they seem --------------------------------------------------------------------------------------


def test_every_language_is_known():
    for block in ALL:
        if block.language == "sql":  # run by tests/data/test_click_counts.py
            assert block.document == "docs/guides/clicks.md"
            continue
        assert block.language in ("", "text", "python", "sh"), (
            f"{block.where}: {block.language} is neither run nor plain text"
        )
        if not block.language and not block.not_run:
            assert not re.search(r"^(import |from \w+ import|\w+ = tc\.)|\btc\.\w+\(", block.text, re.M), (
                f"{block.where}: Python stands between ```python and ```"
            )
            assert not re.search(rf"^({'|'.join(map(re.escape, SHELL))})", block.text, re.M), (
                f"{block.where}: a block of commands begins with a command"
            )


def test_what_is_not_run_says_why():
    reasons = {f"{block.document}: {block.not_run}" for block in ALL if block.not_run}
    assert reasons == {
        "docs/coming-from.md: needs PyTerrier, which needs Java",
        "docs/guides/agents.md: needs Haystack",
        "docs/guides/agents.md: needs LlamaIndex",
        "docs/guides/engines.md: needs a server",
        "docs/guides/opensearch.md: needs a server",
    }


def test_blocks_are_seen(tmp_path, monkeypatch):
    monkeypatch.setattr("support.documents.PROJECT", tmp_path)
    path = tmp_path / "a.md"
    path.write_text(
        "Text\n\n    tercet fit x  # said\n    tercet rank y\n\n1. one\n\n    not code\n\n"
        "Then:\n<!-- not run: no reason -->\n```python\nx = 1\n```\n\n    a: picture\n"
    )
    shell, python, picture = blocks_of(path)
    assert list(shell.commands()) == [["tercet", "fit", "x"], ["tercet", "rank", "y"]]
    assert python == Block("a.md", 13, "python", "x = 1", "no reason")
    assert (picture.language, picture.text, picture.not_run) == ("", "a: picture", "")
