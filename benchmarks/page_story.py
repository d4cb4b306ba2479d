"""The animated picture of the README: one gesture on the page moves a result, other queries change, undo takes it back.

The documents are those of ``tercet demo --serve``. Needs Playwright, Pillow and a Chromium of the system's.
"""

from __future__ import annotations

import argparse
import io
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

from PIL import Image, ImageDraw, ImageFont

from page_screenshot import ROOT, looking, served
from tercet.cli.story import ANSWER, ARTICLES, OTHERS, QUERY
from tercet.search import Index

WIDTH, HEIGHT, BAR = 960, 620, 40
COLORS = 48


class Film:
    """Frames with a caption, and how long each is shown."""

    def __init__(self, page: Any) -> None:
        self._page, self.frames, self.milliseconds = page, [], []
        self._font = ImageFont.load_default(size=20)

    def take(self, caption: str, seconds: float) -> None:
        """Keep what the page shows now."""
        shot = Image.open(io.BytesIO(self._page.screenshot())).convert("RGB")
        frame = Image.new("RGB", (WIDTH, HEIGHT + BAR), "#16324a")
        frame.paste(shot, (0, BAR))
        ImageDraw.Draw(frame).text((16, 9), caption, "white", self._font)
        self.frames.append(frame.quantize(COLORS, dither=Image.Dither.NONE))
        self.milliseconds.append(int(seconds * 1000))

    def save(self, path: Path) -> None:
        first, *others = self.frames
        first.save(path, save_all=True, append_images=others, duration=self.milliseconds, loop=0, optimize=True)


def shoot(page: Any, address: str, film: Film) -> None:
    """Act the story."""

    def ask(query: str) -> None:
        page.goto(f"{address}?{urlencode({'q': query})}")
        page.wait_for_selector("#learned li")

    def row(doc_id: str) -> Any:
        return page.locator(f'#learned li[data-id="{doc_id}"]')

    ask(OTHERS[1])
    film.take(f'"{OTHERS[1]}": the display is not found', 2.2)
    ask(QUERY)
    film.take(f'"{QUERY}": BM25 ranks the answer sixth. One gesture:', 2.2)
    row(ANSWER).locator(".title").focus()
    page.keyboard.press("m")
    for _ in range(len(page.locator("#learned li").all()) - 1):
        page.keyboard.press("ArrowUp")
        page.wait_for_timeout(60)
        film.take(f'"{QUERY}": move it to the top', 0.25)
    page.keyboard.press("Enter")
    page.wait_for_selector("#toast-undo:visible")
    film.take("It stays there, and the page says which words did it", 3.0)
    # Another query, without loading the page anew: what was taught here stays marked.
    page.fill("#q", OTHERS[1])
    page.keyboard.press("Enter")
    row(ANSWER).wait_for()
    film.take(f'"{OTHERS[1]}", which nobody taught, finds it now', 2.5)
    row(ANSWER).locator(".title").click()
    row(ANSWER).locator(".pairs").wait_for()
    row(ANSWER).scroll_into_view_if_needed()
    film.take("Why: the pairs of words that the gesture changed", 3.0)
    page.fill("#q", QUERY)
    page.keyboard.press("Enter")
    page.wait_for_function(f"document.querySelector('#learned li').dataset.id === '{ANSWER}'")
    page.click("#open-history")
    page.locator("#history-body button").first.click()
    page.wait_for_selector("#history-body .inactive")
    page.click("#history .close")
    page.wait_for_function(f"document.querySelector('#learned li').dataset.id !== '{ANSWER}'")
    film.take("Undo takes exactly that back", 2.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "docs/images/story.gif")
    parser.add_argument("--browser", default="/usr/bin/chromium")
    parser.add_argument("--frames", type=Path, help="a folder for the frames, to look at")
    arguments = parser.parse_args()
    look = SimpleNamespace(width=WIDTH, height=HEIGHT, scale=1, dark=False)
    with tempfile.TemporaryDirectory() as folder:
        Index.build(ARTICLES, path=Path(folder) / "help-desk")
        with served(Path(folder) / "help-desk") as address, looking(arguments.browser, look) as page:
            page.set_default_timeout(120_000)
            film = Film(page)
            shoot(page, address, film)
    film.save(arguments.output)
    for number, frame in enumerate(film.frames if arguments.frames else ()):
        frame.save(arguments.frames / f"{number:02d}.png")
    print(f"{arguments.output}: {len(film.frames)} frames, {arguments.output.stat().st_size / 1024:.0f} KB")


if __name__ == "__main__":
    main()
