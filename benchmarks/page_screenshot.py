"""Two pictures for the documents: the page of ``tercet serve`` on the demo's index, and the report of the demo's model.

Run ``tercet demo`` first. Needs Playwright and a Chromium of the system's; nothing that was learned online is read or
changed, since the service gets a taught file of its own.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

ROOT = Path(__file__).resolve().parent.parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
QUERY, OPENED = "permute the axes of an array", "numpy.transpose"


@contextmanager
def served(index: Path) -> Iterator[str]:
    """The address of a service that ends with the block."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", "from tercet.cli.main import main; main()", "serve", str(index), "--port", "0"]
        # No hurry: the first search of a process may have to compile.
        command += ["--taught", str(Path(folder) / "taught.db")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                address = process.stdout.readline().strip()
                if not re.fullmatch(r"http://\S+/", address):
                    sys.exit(f"the service did not begin; it said {address!r}")
                yield address
            finally:
                process.terminate()


@contextmanager
def looking(browser: str, arguments: argparse.Namespace) -> Iterator[Any]:
    """A page of a browser that ends with the block."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        yield launched.new_page(
            viewport={"width": arguments.width, "height": arguments.height},
            device_scale_factor=arguments.scale,
            color_scheme="dark" if arguments.dark else "light",
            reduced_motion="reduce",
        )
        launched.close()


def take_page(page: Any, address: str, arguments: argparse.Namespace) -> None:
    """Search, open the reasons of one result, and write what is seen."""
    for _ in range(2):  # the first search of a process loads what it needs, which nobody waits for twice
        page.goto(f"{address}?{urlencode({'q': arguments.query})}")
        page.wait_for_selector("#learned li")
    shown = page.locator("#learned li").evaluate_all("rows => rows.map(row => row.dataset.id)")
    opened = shown.index(arguments.opened) if arguments.opened in shown else 0
    row = page.locator("#learned li").nth(opened)
    row.locator(".title").click()
    row.locator(".pairs").wait_for()
    page.mouse.move(0, 0)
    page.evaluate("scrollTo(0, 0)")
    page.screenshot(path=arguments.output / "page.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("demo", type=Path, nargs="?", default=ROOT / "out/demo", help="what `tercet demo` made")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "docs/images", help="a folder")
    parser.add_argument("--query", default=QUERY)
    parser.add_argument("--opened", default=OPENED, help="id of the result whose reasons are shown, else the first")
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--width", type=int, default=1240)
    parser.add_argument("--height", type=int, default=1040)
    parser.add_argument("--scale", type=float, default=1.25, help="pixels of the picture for one of the page")
    arguments = parser.parse_args()
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        sys.exit(f"none of {', '.join(BROWSERS)} is here")
    index, report = arguments.demo / "index", arguments.demo / "model" / "report.html"
    if not index.is_dir() or not report.is_file():
        sys.exit(f"{index} or {report} is not there; `tercet demo` makes them")
    with served(index) as address, looking(browser, arguments) as page:
        take_page(page, address, arguments)
        page.goto(report.resolve().as_uri())
        page.screenshot(path=arguments.output / "report.png")
    for name in ("page.png", "report.png"):
        print(f"{arguments.output / name}: {(arguments.output / name).stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
