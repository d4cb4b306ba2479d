"""``tercet doctor``"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

import tercet.kernels.machine_code as machine_code
from support.commands import run
from tercet._installed import install_command
from tercet.cli import doctor as under_test


def test_it_prints_versions_extras_the_cache_and_threads() -> None:
    result = run("doctor")
    assert result.exit_code == 0, result.output
    for about in ("Tercet ", "Python ", "numba ", "extra serve: fastapi ", "kernel cache: ", "threads of BLAS: "):
        assert any(line.startswith(about) for line in result.output.splitlines()), about
    assert str(machine_code.cache_folder()) in result.output


def test_a_missing_extra_has_the_command_that_adds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = under_test.version

    def version(name: str) -> str:
        if name == "fastapi":
            raise PackageNotFoundError(name)
        return installed(name)

    monkeypatch.setattr(under_test, "version", version)
    assert f"extra serve: fastapi missing; {install_command('serve')}\n" in run("doctor").output


def test_a_kernel_cache_that_cannot_be_used_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(machine_code, "cache_folder", lambda: tmp_path / "file" / "folder")
    assert f"{tmp_path / 'file' / 'folder'} is not usable: " in run("doctor").output
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    monkeypatch.setattr(machine_code, "cache_folder", lambda: shared)
    assert "is not usable: others can write to it" in run("doctor").output
