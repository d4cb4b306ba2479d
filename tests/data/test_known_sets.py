"""Data sets that are named: what a folder has is told by what is in its files, however they are packed."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from tercet.cli.main import cli
from tercet.data import known_sets as under_test
from tercet.data.known_sets import KnownFile, KnownSet, known_sets, verify_sets
from tercet.errors import InputError

PROJECT = Path(__file__).parents[2]


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """A folder with two sets that are right, one of a file and one of an archive."""
    members = {"sub/a.txt": b"one", "sub/b.txt": b"three"}
    lines = "".join(f"{sha256(data)}  {name}\n" for name, data in sorted(members.items()))
    sets = {
        "plain": KnownSet("plain", "", "", "", "", (KnownFile("plain/x.txt", sha256(b"hello"), 5),)),
        "packed": KnownSet(
            "packed", "", "", "", "", (KnownFile("packed/p.tar.gz", sha256(lines.encode()), 8, ("sub",)),)
        ),
        "unknown": KnownSet("unknown", "", "", "", "", ()),
    }
    monkeypatch.setattr(under_test, "known_sets", lambda: sets)
    for folder in ("plain", "packed"):
        (tmp_path / folder).mkdir()
    (tmp_path / "plain" / "x.txt").write_bytes(b"hello")
    source = tmp_path / "packed" / "sub"
    source.mkdir()
    for name, data in members.items():
        (tmp_path / "packed" / name).write_bytes(data)
    return tmp_path


def found(home: Path) -> dict[str, str]:
    return {one.path: one.state for one in verify_sets(home)}


def test_files_are_told_by_what_is_in_them_packed_or_not(home):
    assert found(home) == {"plain/x.txt": "right", "packed/p.tar.gz": "right"}
    (home / "plain" / "x.txt").unlink()
    with gzip.open(home / "plain" / "x.txt.gz", "wb", compresslevel=1) as file:
        file.write(b"hello")
    with tarfile.open(home / "packed" / "p.tar.gz", "w:gz") as archive:
        for name in ("sub/b.txt", "sub/a.txt"):
            archive.add(home / "packed" / name, f"./{name}")
    (home / "packed" / "sub" / "a.txt").write_bytes(b"another")  # the archive counts
    assert found(home) == {"plain/x.txt": "right", "packed/p.tar.gz": "right"}


def test_what_is_missing_or_different_is_told(home):
    (home / "plain" / "x.txt").write_bytes(b"Hello")
    (home / "packed" / "sub" / "a.txt").write_bytes(b"more than before")
    one, other = verify_sets(home)
    assert (one.state, other.state) == ("different", "different")
    assert "sha256" in one.about
    assert other.about == "21 bytes instead of 8"
    (home / "plain" / "x.txt").unlink()
    assert found(home)["plain/x.txt"] == "missing"
    (home / "packed" / "p.tar.gz").write_bytes(b"\x1f\x8b no archive")
    assert "cannot be read" in verify_sets(home)[1].about


def test_the_verb_fails_where_a_set_is_not_what_it_should_be(home):
    def run(*arguments):
        return CliRunner().invoke(cli, ["data", "verify", str(home), *arguments])

    assert run().exit_code == 0
    (home / "plain" / "x.txt").unlink()
    assert (run().exit_code, run("--set", "plain").exit_code) == (0, 1)
    (home / "packed" / "sub" / "a.txt").unlink()
    result = run()
    assert result.exit_code == 1
    assert "packed: not as it should be" in result.output
    states = json.loads(run("--json").stdout)
    assert [one["state"] for one in states] == ["missing", "different"]


def test_names_and_folders_are_checked(tmp_path):
    with pytest.raises(InputError, match="no data set 'nowhere'; known are 20news-bydate"):
        verify_sets(tmp_path, ["nowhere"])
    with pytest.raises(InputError, match="no folder"):
        verify_sets(tmp_path / "nowhere")


def test_the_page_lists_what_the_file_lists():
    page = (PROJECT / "docs" / "reference" / "data-sets.md").read_text(encoding="utf-8")
    for one in known_sets().values():
        assert re.fullmatch(r"https?://\S+", one.address)
        size = f"{one.size / 1e6:.1f} MB" if one.size else "not known"
        about = f"{one.about}{one.prepared and f' *Prepared: {one.prepared}.*'}"
        assert f"| `{one.name}` | {about} | {one.licence} | {size} | <{one.address}> |" in page
        assert all(re.fullmatch("[0-9a-f]{64}", file.sha256) and file.size > 0 for file in one.files)
    assert page.count("| `") == len(known_sets())


def test_every_folder_that_reproductions_read_is_listed():
    papers = "".join(path.read_text() for path in (PROJECT / "src/tercet/repro/papers").glob("*.toml"))
    named = set(re.findall(r'"([a-z0-9]+(?:-[a-z0-9]+)*)/', papers))
    # LETOR 3.0's Gov sets are one entry, whatever folders they lie in.
    listed = {"letor3-gov" if re.fullmatch("letor3-(gov|[hnt][dp]200[34])", name) else name for name in named}
    missing = {name for name in listed if not any(name.startswith(one) for one in known_sets())}
    assert not missing
