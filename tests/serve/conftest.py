"""A browser, and services of a small index, for the tests of the page; all of them share these."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.browsing import READ_TOKEN, TEACH_TOKEN, Served, build_index, page_origin

PATIENCE_MS = 60_000  # for what a page should do soon: the machine may have more to do than its cores can
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(autouse=True)
def _patient_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers wait until what was taught is learned, however busy the machine is, and that is served at once."""
    monkeypatch.setattr("tercet.serve.service._PUBLISHED_SECONDS", PATIENCE_MS / 1000)
    monkeypatch.setattr("tercet.serve.teacher._PUBLISH_SECONDS", 0.0)


@pytest.fixture(scope="session")
def browser_program() -> str:
    program = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if program is None:
        pytest.skip(f"the page is tested in a browser, and none of {', '.join(_BROWSERS)} is here")
    return program


@pytest.fixture(scope="module")  # while it runs, other tests of this process could have no event loop
def browser(browser_program: str) -> Iterator[Any]:
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="the page is tested with Playwright, which is not here"
    )
    playwright.expect.set_options(timeout=PATIENCE_MS)
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=browser_program, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def services(browser_program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Served]]:
    """One for everybody and one with tokens, which begin at the same time."""
    del browser_program  # without one, they need not begin
    pytest.importorskip("uvicorn", reason="the page is served by the extra 'serve', which is not installed")
    folder = tmp_path_factory.mktemp("page")
    index = build_index(folder / "index")
    tokens = {"TERCET_READ_TOKEN": READ_TOKEN, "TERCET_TEACH_TOKEN": TEACH_TOKEN}
    both = Served(index, folder / "taught.db"), Served(index, folder / "guarded.db", **tokens)
    for service in both:
        service.launch()
    for service in both:
        service.wait()
    yield both
    for service in both:
        service.stop()


@pytest.fixture(scope="session")
def page_service(services: tuple[Served, Served]) -> Served:
    return services[0]


@pytest.fixture(scope="session")
def guarded(services: tuple[Served, Served]) -> Served:
    return services[1]


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens pages that may not fail: no error, no refusal by the policy, nothing from elsewhere."""
    contexts: list[Any] = []
    wrong: list[str] = []

    def open_one(address: str, **options: Any) -> Any:
        options = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce"} | options
        contexts.append(browser.new_context(**options))
        contexts[-1].set_default_timeout(PATIENCE_MS)
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: wrong.append(said.text) if "Content Security Policy" in said.text else None)
        page.on("request", lambda asked: asked.url.startswith(page_origin(address)) or wrong.append(asked.url))
        page.on("dialog", lambda dialog: wrong.append(dialog.message))
        page.goto(address)
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert wrong == []
