"""Commands that Tercet tells its user to type."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import tercet._installed as installed
from tercet._installed import called, install_command
from tercet.errors import MissingExtraError


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
    assert install_command("serve") == "env/bin/pip install 'tercet[serve]'"


def test_a_missing_extra_says_the_command_and_pages_do_not():
    error = MissingExtraError("matplotlib", "plot", "drawing a picture")
    assert str(error) == f"drawing a picture needs matplotlib: {install_command('plot')}"
    assert error.lack == "drawing a picture needs matplotlib (extra plot)"


@pytest.mark.slow
def test_python_runs_the_package():
    done = subprocess.run(
        [sys.executable, "-m", "tercet", "demo", "--no"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("Usage: tercet demo ")
