"""``tercet doctor``: what is at hand is told, and what would fail is found before it does."""

from __future__ import annotations

import json
import os
import re
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from click.testing import CliRunner

from tercet.cli import doctor as under_test
from tercet.cli.doctor import Check, examined
from tercet.cli.main import cli


def states(checks: list[Check]) -> dict[str, str]:
    return {check.about: check.state for check in checks}


def test_a_working_place_is_fine_and_says_what_it_has() -> None:
    result = CliRunner().invoke(cli, ["doctor"])
    assert result.exit_code == 0, result.output
    assert "nothing would fail" in result.output
    for about in (
        "Tercet:",
        "Python:",
        "numba:",
        "extra serve:",
        "processor:",
        "memory:",
        "compiler:",
        "working folder:",
    ):
        assert about in result.output
    checks = json.loads(CliRunner().invoke(cli, ["doctor", "--json"]).output)
    assert {check["state"] for check in checks} <= {"fine", "note"}


def test_a_package_that_is_missing_or_too_old_fails_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    known = under_test.version

    def version(name: str) -> str:
        if name.lower() == "scipy":
            raise PackageNotFoundError(name)
        return "0.9" if name.lower() == "numba" else known(name)

    monkeypatch.setattr(under_test, "version", version)
    result = CliRunner().invoke(cli, ["doctor"])
    assert result.exit_code == 1
    assert "FAIL  scipy: not installed" in result.output
    assert "FAIL  numba: 0.9; 0.61 or later is needed" in result.output
    assert re.search(r"install 'scipy>=\d", result.output)
    assert "2 of " in result.output


def test_an_extra_that_is_missing_is_a_note_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    known = under_test.version

    def version(name: str) -> str:
        if name.lower() == "fastapi":
            raise PackageNotFoundError(name)
        return known(name)

    monkeypatch.setattr(under_test, "version", version)
    [serve] = [check for check in examined() if check.about == "extra serve"]
    assert serve.state == "note"
    assert "fastapi (not installed)" in serve.found
    assert "install" in serve.advice


def test_what_cannot_be_written_to_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(folder: Path) -> str | None:
        return "Read-only file system"

    monkeypatch.setattr(under_test, "_unwritable", refused)
    found = states(examined())
    assert found["working folder"] == "fails"
    assert found["compiled kernels"] == "note"
    monkeypatch.undo()
    (tmp_path / "file").touch()
    assert under_test._unwritable(tmp_path / "file" / "below") is not None
    assert under_test._unwritable(tmp_path / "not yet" / "there") is None
    if os.geteuid() != 0:
        tmp_path.chmod(0o500)
        assert under_test._unwritable(tmp_path) is not None


def test_settings_are_told_and_secrets_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERCET_SERVE_WRITE_TOKEN", "abracadabra")
    monkeypatch.setenv("TERCET_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    result = CliRunner().invoke(cli, ["doctor"])
    assert result.exit_code == 1
    assert "abracadabra" not in result.output
    assert "TERCET_SERVE_WRITE_TOKEN: is set" in result.output
    assert f"FAIL  TERCET_DATA: {tmp_path / 'nowhere'} is no folder" in result.output
    assert "switched off by NUMBA_DISABLE_JIT" in result.output


def test_a_check_that_breaks_ends_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise RuntimeError("no such thing")

    monkeypatch.setattr(under_test, "_device", broken)
    checks = examined()
    assert Check("broken", "fails", "RuntimeError: no such thing") in checks
    assert states(checks)["compiler"] == "fine"
