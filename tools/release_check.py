"""Build a wheel and an sdist, look at what is in them, and run the demo from the wheel under several interpreters.

    python tools/release_check.py python3.11 python3.12

Print what each dependency adds to the installed size, and leave wheel and sdist in dist/. Wants the packages build and
twine. Interpreters that are not here are named and passed over; if none is here, that is a
failure. Whatever is wrong is said, and the exit code is then 1.
"""

from __future__ import annotations

import email
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
SHIPPED = {".py", ".css", ".cu", ".cuh", ".html", ".js", ".json", ".toml", ".svg", ".typed"}  # of src/tercet
NEEDED_IN_SDIST = (
    ".dockerignore",
    "LICENSE",
    "README.md",
    "CHANGELOG.md",
    "CITATION.cff",
    "Makefile",
    "deploy/Dockerfile",
    "hatch_build.py",
    "requirements/serve.lock",
    "tests/conftest.py",
)
LARGEST_WHEEL = 2_000_000  # bytes; a data set that slipped in is larger
# Run inside the new environment: megabytes of each package, without the tools that installed it.
SIZES_OF_PACKAGES = """
import json
from importlib.metadata import distributions
print(json.dumps({
    package.name: sum(path.locate().stat().st_size for path in package.files or () if path.locate().is_file()) / 1e6
    for package in distributions() if package.name not in ("pip", "setuptools")
}))
"""


def main(pythons: list[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="tercet-release-") as folder:
        out = Path(folder)
        shutil.rmtree(PROJECT / "dist", ignore_errors=True)
        run(sys.executable, "-m", "build", "--outdir", str(PROJECT / "dist"), str(PROJECT))
        [wheel], [sdist] = (list((PROJECT / "dist").glob(pattern)) for pattern in ("*.whl", "*.tar.gz"))
        problems = [*versions(wheel, sdist), *wheel_problems(wheel), *sdist_problems(sdist)]
        run(sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(sdist))
        print(sizes(wheel, sdist), flush=True)
        there = [python for python in pythons if shutil.which(python) and works(python)]
        for python in pythons:
            if python not in there:
                print(f"{python}: not here")
        if not there:
            problems.append("none of the interpreters is here, so the wheel was not installed")
        for python in there:
            problems += installed_problems(python, wheel, out / python.replace("/", "_"))
    for problem in problems:
        print(f"wrong: {problem}")
    print("the release is wrong" if problems else f"{wheel.name} and {sdist.name} are right")
    return 1 if problems else 0


def run(*command: str, where: Path = PROJECT) -> str:
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def works(python: str) -> bool:
    return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0


def own_version() -> str:
    found = re.search(r'^__version__ = "([^"]+)"$', (PROJECT / "src/tercet/__init__.py").read_text(), re.M)
    assert found is not None
    return found[1]


def sizes(wheel: Path, sdist: Path) -> str:
    """For those who ask what they are about to install."""
    with zipfile.ZipFile(wheel) as packed:
        members = packed.infolist()
    packed_size, unpacked = wheel.stat().st_size / 1e6, sum(member.file_size for member in members) / 1e6
    summary = f"{wheel.name}: {packed_size:.1f} MB, unpacked {unpacked:.1f} MB in {len(members)} files"
    return f"{summary}; {sdist.name}: {sdist.stat().st_size / 1e6:.1f} MB"


def versions(wheel: Path, sdist: Path) -> Iterator[str]:
    """The version is the same everywhere."""
    version = own_version()
    citation = re.search(r"^version: (\S+)$", (PROJECT / "CITATION.cff").read_text(), re.M)
    heading = re.search(r"^## (\S+)", (PROJECT / "CHANGELOG.md").read_text(), re.M)
    stated = {
        "CITATION.cff": citation[1] if citation else None,
        "CHANGELOG.md": heading[1] if heading else None,
        wheel.name: wheel.name.split("-")[1],
        sdist.name: sdist.name.removesuffix(".tar.gz").rpartition("-")[2],
    }
    yield from (f"{name} says {other}, the package {version}" for name, other in stated.items() if other != version)


def wheel_problems(wheel: Path) -> Iterator[str]:
    """All of the package and nothing else, with its metadata."""
    if wheel.stat().st_size > LARGEST_WHEEL:
        yield f"{wheel.name} has {wheel.stat().st_size:,} bytes; expected at most {LARGEST_WHEEL:,}"
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
        [metadata] = [name for name in names if name.endswith(".dist-info/METADATA")]
        stated = email.message_from_bytes(packed.read(metadata))
    info = metadata.rpartition("/")[0]
    sources = (
        path for path in (PROJECT / "src/tercet").rglob("*") if path.is_file() and "__pycache__" not in path.parts
    )
    expected = {path.relative_to(PROJECT / "src").as_posix() for path in sources}
    yield from (f"{wheel.name} lacks {name}" for name in sorted(expected - names))
    yield from (f"{wheel.name} has {n}" for n in sorted(names - expected) if not n.startswith(f"{info}/"))
    yield from (f"{name} is of a kind that is not shipped" for name in expected if Path(name).suffix not in SHIPPED)
    if f"{info}/licenses/LICENSE" not in names:
        yield f"{wheel.name} has no license"
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    for field, value in (("License-Expression", project["license"]), ("Requires-Python", project["requires-python"])):
        if stated[field] != value:
            yield f"{wheel.name} says {field}: {stated[field]}; pyproject.toml has {value}"
    for url in stated.get_all("Project-URL", []):
        if "example" in url or "TODO" in url:
            yield f"{wheel.name} has an address that is made up: {url}"


def sdist_problems(sdist: Path) -> Iterator[str]:
    """All that a build and the tests need."""
    with tarfile.open(sdist) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    yield from (f"{sdist.name} lacks {name}" for name in NEEDED_IN_SDIST if name not in names)
    yield from (
        f"{sdist.name} has {name}" for name in names if name.startswith((".venv", "out/")) or "__pycache__" in name
    )


def installed_problems(python: str, wheel: Path, venv: Path) -> Iterator[str]:
    """Install the wheel into a new environment, away from the sources, and run the demo."""
    print(f"{python}: installing {wheel.name}", flush=True)
    run(python, "-m", "venv", str(venv))
    began = time.monotonic()
    run(str(venv / "bin/pip"), "--disable-pip-version-check", "install", "--quiet", str(wheel))
    seconds = time.monotonic() - began
    megabytes = json.loads(run(str(venv / "bin/python"), "-c", SIZES_OF_PACKAGES))
    shares = ", ".join(f"{name} {size:.0f}" for name, size in sorted(megabytes.items(), key=lambda item: -item[1]))
    print(f"{python}: {seconds:.0f} s, {sum(megabytes.values()):,.0f} MB: {shares}", flush=True)
    tercet = str(venv / "bin/tercet")
    said = run(tercet, "--version", where=venv)
    if own_version() not in said:
        yield f"{python}: tercet --version says {said.strip()}"
    run(tercet, "doctor", where=venv)
    demo = run(tercet, "demo", where=venv)
    if "learned" not in demo:
        yield f"{python}: the demo says nothing of what was learned"
    print(f"{python}: the demo ran", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["python3"]))
