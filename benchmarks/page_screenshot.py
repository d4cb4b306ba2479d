"""The picture of the page in the README: ``tercet serve`` on the demo's index, seen by a browser.

Run ``tercet demo`` first. Needs Playwright and a Chromium of the system's; nothing that was learned online is read or
changed, since the service gets a journal of its own.
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
        command += ["--journal", str(Path(folder) / "journal.jsonl"), "--deadline-ms", "60000"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                address = process.stdout.readline().strip()
                if not re.fullmatch(r"http://\S+/", address):
                    sys.exit(f"the service did not begin; it said {address!r}")
                yield address
            finally:
                process.terminate()


def take(address: str, browser: str, arguments: argparse.Namespace) -> None:
    """Search, open the reasons of one result, and write what is seen."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = launched.new_page(
            viewport={"width": arguments.width, "height": arguments.height},
            device_scale_factor=arguments.scale,
            color_scheme="dark" if arguments.dark else "light",
            reduced_motion="reduce",
        )
        page.goto(f"{address}?{urlencode({'q': arguments.query})}")
        page.wait_for_selector("#learned li")
        shown = page.locator("#learned li").evaluate_all("rows => rows.map(row => row.dataset.id)")
        opened = shown.index(arguments.opened) if arguments.opened in shown else 0
        row = page.locator("#learned li").nth(opened)
        row.locator(".title").click()
        row.locator(".pairs").wait_for()
        page.mouse.move(0, 0)
        page.evaluate("scrollTo(0, 0)")
        page.screenshot(path=arguments.output)
        launched.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("index", type=Path, nargs="?", default=ROOT / "out/demo/index", help="of `tercet demo`")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "docs/images/page.png")
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
    if not arguments.index.is_dir():
        sys.exit(f"{arguments.index} is not there; `tercet demo` makes it")
    with served(arguments.index) as address:
        take(address, browser, arguments)
    print(f"{arguments.output}: {arguments.output.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
