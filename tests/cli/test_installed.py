"""What Tercet tells its reader to type works in the way in which it was installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tercet._installed as installed
from tercet._installed import called, install_command
from tercet.errors import MissingExtraError

REQUIRES = ["numpy>=1.26", "fastapi>=0.115; extra == 'serve'", 'uvicorn>=0.30 ; extra == "serve"', "x; extra == 'plot'"]


class Record:
    """The metadata of an installed package."""

    def __init__(self, source: dict | None, installer: str = "pip") -> None:
        self.requires = REQUIRES
        self.files = {"direct_url.json": source and json.dumps(source), "INSTALLER": f"{installer}\n"}

    def read_text(self, name: str) -> str | None:
        return self.files[name]


@pytest.fixture
def command(monkeypatch, tmp_path):
    """The command for the extra ``serve`` where Tercet was installed from a source, with a pip on the path."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(installed, "called", lambda program: program)
    monkeypatch.setattr(installed, "find_spec", lambda module: object())

    def made(source: dict | None, **others: str) -> str:
        monkeypatch.setattr(installed, "distribution", lambda name: Record(source, **others))
        return install_command("serve")

    return made


def test_from_a_folder(command, tmp_path, monkeypatch):
    folder = {"url": tmp_path.as_uri(), "dir_info": {}}
    assert command(folder) == f"pip install '{tmp_path}[serve]'"
    assert command({**folder, "dir_info": {"editable": True}}) == f"pip install -e '{tmp_path}[serve]'"
    monkeypatch.chdir(tmp_path)
    assert command(folder) == "pip install '.[serve]'"


def test_from_a_wheel_which_may_be_gone(command, tmp_path):
    wheel = tmp_path / "tercet 0.1.whl"
    source = {"url": wheel.as_uri(), "archive_info": {}}
    assert command(source) == "pip install 'fastapi>=0.115' 'uvicorn>=0.30'"
    wheel.touch()
    assert command(source) == f"pip install '{wheel}[serve]'"


def test_from_elsewhere(command):
    git = {"url": "https://example.org/tercet.git", "vcs_info": {"vcs": "git", "commit_id": "0"}}
    assert command(git) == "pip install 'tercet[serve] @ git+https://example.org/tercet.git'"
    assert command(None) == "pip install 'tercet[serve]'"


def test_by_other_installers(command, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/there/python")
    assert command(None, installer="uv") == "uv pip install -p /there/python 'tercet[serve]'"
    monkeypatch.setattr(installed, "find_spec", lambda module: None)
    assert command(None) == "uv pip install -p /there/python 'tercet[serve]'"
    (tmp_path / "pipx_metadata.json").touch()
    assert command(None) == "pipx inject tercet 'fastapi>=0.115' 'uvicorn>=0.30'"


def test_from_sources_that_were_not_installed(monkeypatch, tmp_path):
    def none(name: str) -> None:
        raise installed.PackageNotFoundError(name)

    monkeypatch.setattr(installed, "distribution", none)
    monkeypatch.setattr(installed, "find_spec", lambda module: object())  # an environment with pip
    assert install_command("serve").endswith(f" install -e '{installed.CHECKOUT}[serve]'") or Path.cwd() == (
        installed.CHECKOUT
    )
    monkeypatch.setattr(installed, "CHECKOUT", tmp_path)
    assert install_command("serve").endswith(" install 'tercet[serve]'")


@pytest.mark.skipif(sys.platform == "win32", reason="programs have other names")
def test_programs_are_called_as_they_are_found_from_here(tmp_path, monkeypatch):
    scripts = tmp_path / "env" / "bin"
    scripts.mkdir(parents=True)
    (scripts / "tercet").touch(mode=0o755)
    monkeypatch.setattr(installed.sysconfig, "get_path", lambda name: str(scripts))
    monkeypatch.setenv("PATH", os.defpath)
    assert called("tercet") == str(scripts / "tercet")
    monkeypatch.chdir(tmp_path)
    assert called("tercet") == "env/bin/tercet"
    monkeypatch.setenv("PATH", str(scripts))
    assert called("tercet") == "tercet"
    (tmp_path / "tercet").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))  # another Tercet's
    assert called("tercet") == "env/bin/tercet"
    assert called("pip") == f"{sys.executable} -m pip"


def test_a_missing_extra_says_the_command_and_pages_do_not():
    error = MissingExtraError("matplotlib", "plot", "drawing a picture")
    assert str(error) == f"drawing a picture needs matplotlib: {install_command('plot')}"
    assert error.lack == "drawing a picture needs matplotlib (extra plot)"


@pytest.mark.slow
def test_python_runs_the_package():
    done = subprocess.run(
        [sys.executable, "-m", "tercet", "fit", "--no"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("Usage: tercet fit ")
