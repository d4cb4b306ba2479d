"""The page of the service in a real browser: Chromium, driven by Playwright, against ``tercet serve`` on loopback."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import Any

import pytest

from support.browsing import (
    DOCS,
    HOSTILE,
    Served,
    build_index,
    listed,
    order,
    page_origin,
    row_of,
    shown_number,
    version_of,
)

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)
if BROWSER is None:
    pytest.skip(f"the page is tested in a browser, and none of {', '.join(BROWSERS)} is here", allow_module_level=True)
playwright = pytest.importorskip("playwright.sync_api", reason="the page is tested with Playwright, which is not here")
pytest.importorskip("uvicorn", reason="the page is served by the extra 'serve', which is not installed")

pytestmark = pytest.mark.slow  # a browser
expect = playwright.expect


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Served]]:
    """One for everybody and one with tokens, which begin at the same time."""
    folder = tmp_path_factory.mktemp("page")
    index = build_index(folder / "index")
    tokens = {"TERCET_READ_TOKEN": "reading", "TERCET_WRITE_TOKEN": "writing"}
    both = Served(index, folder / "journal.jsonl"), Served(index, folder / "guarded.jsonl", **tokens)
    for service in both:
        service.launch()
    for service in both:
        service.wait()
    yield both
    for service in both:
        service.stop()


@pytest.fixture(scope="module")
def served(services: tuple[Served, Served]) -> Served:
    return services[0]


@pytest.fixture(scope="module")
def guarded(services: tuple[Served, Served]) -> Served:
    return services[1]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens pages that may not fail: no error, no refusal by the policy, nothing from elsewhere."""
    contexts: list[Any] = []
    wrong: list[str] = []

    def open_one(address: str, **options: Any) -> Any:
        options = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce"} | options
        contexts.append(browser.new_context(**options))
        contexts[-1].set_default_timeout(15_000)
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


# -- the whole way ----------------------------------------------------------------------------------------------------


def test_prefer_moves_a_result_and_lasts(open_page: Callable[..., Any], served: Served) -> None:
    page = open_page(served.address)
    expect(page.get_by_role("heading", name="Two rankings")).to_be_visible()
    page.keyboard.type("green avocado")
    page.keyboard.press("Enter")
    before = order(page)
    assert page.url == f"{served.address}?q=green+avocado"
    plain = order(page, "baseline")
    assert set(plain) < set(before), "guacamole is found only by what was learned"
    assert "new" in row_of(page, "d").locator(".moved").inner_text()

    better, worse = before[2], before[1]
    row_of(page, better).locator(".prefer").click()
    expect(page.locator("#toast-text")).to_contain_text("You preferred")
    after = order(page)
    assert after.index(better) < after.index(worse)
    said = f"It went from rank 3 to rank {after.index(better) + 1}, the other one"
    expect(page.locator("#toast-text")).to_contain_text(said)
    assert order(page, "baseline") == plain
    learned = version_of(page)
    expect(page.get_by_role("status")).to_contain_text("moved from 3 to")

    page.reload()
    assert order(page) == after
    served.kill()
    served.launch()
    served.wait()
    page.reload()
    assert order(page) == after
    assert version_of(page) == learned

    page.locator("#open-history").click()
    first = page.locator(".entries li").first
    expect(first).to_contain_text("for “green avocado”")
    first.get_by_role("button", name="Undo").click()
    expect(first).to_contain_text(f"{learned} undone")
    page.keyboard.press("Escape")
    assert order(page) == before
    assert version_of(page) != learned


def test_undo_of_the_message_and_by_key(open_page: Callable[..., Any], served: Served) -> None:
    page = open_page(served.at("avocado"))
    before = order(page)
    for undo in (lambda: page.locator("#toast-undo").click(), lambda: page.keyboard.press("u")):
        row_of(page, before[1]).locator(".title").focus()
        page.keyboard.press("p")
        expect(page.locator("#toast-undo")).to_be_visible()
        assert order(page)[:2] == [before[1], before[0]]
        undo()
        expect(page.locator("#toast-text")).to_contain_text("undone")
        assert order(page) == before
        assert row_of(page, before[1]).evaluate("row => row.contains(document.activeElement)"), "the focus is kept"


def test_undo_waits_for_a_preference_that_is_on_its_way(open_page: Callable[..., Any], served: Served) -> None:
    page = open_page(served.at("avocado"))
    before = order(page)
    row_of(page, before[1]).locator(".prefer").click()
    expect(page.locator("#toast-undo")).to_be_visible()
    held: list[Any] = []
    page.route("**/prefer", lambda route: held.append(route))
    row_of(page, before[2]).locator(".prefer").click()
    expect(page.locator("#learned[aria-busy=true]")).to_be_attached()
    page.locator("#toast-undo").click()
    expect(page.locator("#toast-undo")).to_be_visible()
    held[0].abort()
    expect(page.locator("#toast-text")).to_contain_text("not taken")
    row_of(page, before[1]).locator(".title").focus()
    page.keyboard.press("u")
    expect(page.locator("#toast-text")).to_contain_text("undone")
    assert order(page) == before


def test_the_focus_stays_in_a_row_whose_reasons_are_renewed(open_page: Callable[..., Any], served: Served) -> None:
    page = open_page(served.at("avocado"))
    second = row_of(page, order(page)[1])
    second.locator(".title").click()
    read = second.get_by_role("button", name="Read the document")
    read.focus()
    caption = second.locator("caption").inner_text()
    page.keyboard.press("p")
    expect(page.locator("#toast-undo")).to_be_visible()
    expect(second.locator("caption")).not_to_have_text(caption)
    expect(second.locator(".title")).to_be_focused()
    page.locator("#toast-undo").click()
    expect(page.locator("#toast-text")).to_contain_text("undone")


@pytest.mark.parametrize(("motion", "moves"), [("no-preference", True), ("reduce", False)])
def test_rows_move_unless_told_not_to(open_page: Callable[..., Any], served: Served, motion: str, moves: bool) -> None:
    page = open_page(served.at("avocado"), reduced_motion=motion)
    page.evaluate(
        """() => { const animate = Element.prototype.animate; window.moved = [];
        Element.prototype.animate = function (frames, timing) {
          if (frames[0].transform) window.moved.push(this.dataset.id); return animate.call(this, frames, timing); } }"""
    )
    first, second, *_ = order(page)
    row_of(page, second).locator(".prefer").click()
    expect(page.locator("#toast-undo")).to_be_visible()
    assert set(page.evaluate("window.moved")) == ({first, second} if moves else set())
    assert row_of(page, second).evaluate("row => row.contains(document.activeElement)"), "its button is gone"
    page.locator("#toast-undo").click()
    expect(page.locator("#toast-text")).to_contain_text("undone")


# -- reasons and neighbours -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("system", ["learned", "baseline"])
def test_reasons_sum_to_the_score_shown(open_page: Callable[..., Any], served: Served, system: str) -> None:
    page = open_page(served.at("green avocado"))
    for doc_id in order(page, system):
        row = row_of(page, doc_id, system)
        row.locator(".title").click()
        expect(row.locator(".pairs")).to_be_visible()
        parts = [shown_number(text) for text in row.locator("tbody .number").all_inner_texts()]
        total = shown_number(row.locator("tfoot .number").inner_text())
        assert total == shown_number(row.locator(".score").inner_text().removeprefix("score").strip())
        assert sum(parts) == pytest.approx(total, abs=0.0005 * (len(parts) + 1))
        row.locator(".title").click()
        expect(row.locator(".reasons")).to_be_hidden()
    if system == "learned":
        row = row_of(page, "e/é ?#")
        row.locator(".title").click()
        less = row.locator("tr", has_text="oil").first
        expect(less.locator(".fill.bad")).to_have_count(1)
        expect(less.locator(".number")).to_contain_text("\N{MINUS SIGN}")
        row.get_by_role("button", name="Against the one above").click()
        expect(row.locator("caption")).to_contain_text("lead over the one above: \N{MINUS SIGN}")
        row.get_by_role("button", name="Read the document").click()
        expect(row.locator(".text")).to_have_text(DOCS["e/é ?#"], use_inner_text=True)


def test_walking_the_neighbours(open_page: Callable[..., Any], served: Served) -> None:
    page = open_page(served.at("avocado"))
    page.get_by_role("button", name="avocado", exact=True).first.click()
    graph = page.locator("#graph")
    nodes = graph.get_by_role("button", name=re.compile("weight"))
    expect(nodes).to_have_count(3)
    assert [name.split(",")[0] for name in nodes.evaluate_all("all => all.map(n => n.ariaLabel)")] == [
        "guacamole",
        "oil",
        "toast",
    ]
    expect(nodes.first).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(nodes.nth(1)).to_be_focused()
    page.keyboard.press("Enter")
    expect(graph.locator("#graph-title")).to_have_text("oil")
    expect(graph).to_contain_text("Nothing was learned")
    page.keyboard.press("Backspace")
    expect(graph.locator("#graph-title")).to_have_text("avocado")
    nodes.last.click()
    expect(graph.locator("#graph-title")).to_have_text("toast")
    graph.get_by_role("button", name="Search “toast”").click()
    expect(graph).to_be_hidden()
    assert order(page, "baseline") == ["a"]
    page.go_back()
    expect(page.locator("#q")).to_have_value("avocado")
    assert "d" in order(page)


def test_the_graph_keeps_the_focus_when_the_window_changes(open_page: Callable[..., Any], served: Served) -> None:
    page = open_page(served.at("avocado"))
    page.locator("#words button").first.click()
    nodes = page.locator("#graph").get_by_role("button", name=re.compile("weight"))
    expect(nodes.first).to_be_focused()
    page.keyboard.press("ArrowRight")
    width = page.locator("#graph svg").get_attribute("width")
    page.set_viewport_size(PHONE)
    expect(page.locator("#graph svg")).not_to_have_attribute("width", str(width))
    expect(nodes.nth(1)).to_be_focused()


def test_a_word_is_no_neighbour_of_its_own(open_page: Callable[..., Any], served: Served) -> None:
    page = open_page(served.at("avocado"))
    related = [{"word": "mous", "weight": 1.0}, {"word": "mice", "weight": 0.5}]
    found = {"word": "avocado", "known_as": "mous", "related": related, "version": "v0"}
    page.route("**/related?*", lambda route: route.fulfill(json=found))
    page.locator("#words button").first.click()
    nodes = page.locator("#graph").get_by_role("button", name=re.compile("weight"))
    expect(nodes).to_have_count(1)
    expect(nodes).to_have_accessible_name("mice, weight 0.500")


def test_keys_of_an_input_method_are_its_own(open_page: Callable[..., Any], served: Served) -> None:
    page = open_page(served.at("avocado"))
    order(page)
    page.locator("#q").focus()
    press = """(q, isComposing) => q.dispatchEvent(
      new KeyboardEvent("keydown", { key: "ArrowDown", isComposing, bubbles: true, cancelable: true }))"""
    page.locator("#q").evaluate(press, True)
    expect(page.locator("#q")).to_be_focused()
    page.locator("#q").evaluate("q => q.dispatchEvent(new Event('keydown', { bubbles: true }))")  # filled in
    page.locator("#q").evaluate(press, False)
    expect(page.locator("#learned .title").first).to_be_focused()


def test_the_keyboard_is_enough(open_page: Callable[..., Any], served: Served) -> None:
    page = open_page(served.at("green avocado"))
    learned, baseline = order(page), order(page, "baseline")

    def focused() -> tuple[str, str]:
        return tuple(page.evaluate("(r => [r.parentNode.id, r.dataset.id])(document.activeElement.closest('li'))"))

    page.keyboard.press("/")
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert focused() == ("learned", learned[1])
    page.keyboard.press("Enter")
    expect(row_of(page, learned[1]).locator(".pairs")).to_be_visible()
    page.keyboard.press("Escape")
    expect(row_of(page, learned[1]).locator(".pairs")).to_be_hidden()
    same = learned[1] if learned[1] in baseline else baseline[1]
    page.keyboard.press("ArrowLeft")
    assert focused() == ("baseline", same)
    page.keyboard.press("ArrowRight")
    assert focused() == ("learned", same)
    page.keyboard.press("Escape")
    expect(page.locator("#q")).to_be_focused()


# -- what is hostile, and what goes wrong -----------------------------------------------------------------------------


def test_hostile_text_and_query_are_text(open_page: Callable[..., Any], served: Served) -> None:
    query = '<img src=x onerror="window.bad=1"> avocado </title><script>window.bad=1</script>'
    page = open_page(served.at(query))
    assert "h" in order(page)
    row = row_of(page, "h")
    assert row.locator(".title").evaluate("e => e.textContent").startswith(HOSTILE[:40])
    assert row.locator(".snippet").evaluate("e => e.textContent").startswith(HOSTILE[:40])
    row.locator(".title").click()
    row.get_by_role("button", name="Read the document").click()
    assert row.locator(".text").evaluate("e => e.textContent") == DOCS["h"]
    if not row.locator(".prefer").is_visible():
        row = page.locator("#learned li").nth(1)
    row.locator(".prefer").click()
    expect(page.locator("#toast-undo")).to_be_visible()
    page.locator("#open-history").click()
    expect(page.locator(".entries li").first).to_contain_text(query)
    page.keyboard.press("Escape")
    page.locator("#toast-undo").click()
    expect(page.locator("#toast-text")).to_contain_text("undone")
    assert page.title() == f"{query} · Tercet"
    assert page.locator("#q").input_value() == query
    assert page.evaluate("window.bad") is None
    assert page.locator("body img, body script").count() == 0

    page.fill("#q", "<b onclick=alert(1)>zyzzyva</b>")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Nothing found for “<b onclick=alert(1)>zyzzyva</b>”")
    expect(page.locator("#notice")).to_contain_text("“zyzzyva”")
    assert page.locator("body b").count() == 0


def test_a_document_may_have_any_name(open_page: Callable[..., Any], served: Served) -> None:
    page = open_page(served.at("zebra"))
    assert order(page) == [".."]
    page.locator("#learned .title").click()
    page.locator("#learned").get_by_role("button", name="Read the document").click()
    expect(page.locator("#learned .text")).to_have_text(DOCS[".."], use_inner_text=True)


def test_a_history_of_what_is_gone_and_of_much_at_once(open_page: Callable[..., Any], served: Served) -> None:
    page = open_page(served.address)
    none = dict.fromkeys(("query", "better", "worse", "shown", "clicked", "reason", "entries"))
    common = none | {"time": "2026-01-01T00:00:00Z", "client": "me", "active": True}
    versions = [
        common | {"version": "v31", "entry": 31, "kind": "withdraw", "reason": "revoke", "entries": list(range(1, 31))},
        common | {"version": "v30", "entry": 30, "kind": "prefer", "query": "q", "better": "gone", "worse": "b"},
    ]
    page.route("**/versions?*", lambda route: route.fulfill(json={"version": "v31", "total": 31, "versions": versions}))
    page.locator("#open-history").click()
    expect(page.locator(".entries li").nth(1)).to_contain_text("gone over Green eyes for")
    expect(page.locator(".entries li").first).to_contain_text("v1, v2, v3, v4, v5, v6, v7, v8 and 22 others revoked")


def test_unknown_words_are_named(open_page: Callable[..., Any], served: Served) -> None:
    page = open_page(served.at("avocado zyzzyva"))
    order(page)
    expect(page.locator("#facts")).to_contain_text("unknown word: “zyzzyva”")
    assert page.locator("#words button").all_inner_texts() == ["avocado"]


def changed(page: Any, **members: Any) -> None:
    """Have the service answer with other members than it does."""

    def answer(route: Any) -> None:
        found = route.fetch().json()
        route.fulfill(json=found | {name: make(found) for name, make in members.items()})

    page.route("**/search?*", answer)


def test_the_start_page_says_what_is_searched_and_how_to_begin(open_page: Callable[..., Any], served: Served) -> None:
    page = open_page(served.address)
    about = {"name": "kitchen", "documents": 7, "baseline_name": "BM25", "examples": ["avocado", "<i>eyes"]}
    page.route("**/collection", lambda route: route.fulfill(json=about))
    page.goto(served.address)
    expect(page.locator("#collection")).to_have_text("Searches 7 documents · kitchen")
    assert page.locator("#examples button").all_inner_texts() == ["avocado", "<i>eyes"]
    page.locator("#examples button").first.click()
    assert "a" in order(page)
    assert page.url == served.at("avocado")


def test_what_is_learned_from_nothing_is_one_list(open_page: Callable[..., Any], served: Served) -> None:
    page = open_page(served.address)
    changed(page, compared=lambda _: False, baseline=lambda _: [])
    page.goto(served.at("green"))
    assert len(order(page)) > 1
    expect(page.locator("#baseline")).to_be_hidden()
    expect(page.locator("#slopes")).to_be_hidden()
    expect(page.locator("#learned-title")).to_have_text("BM25")
    expect(page.locator("#facts")).to_contain_text("Nothing is learned yet")
    expect(page.locator("#learned li .prefer").nth(1)).to_be_visible()


def test_cards_show_what_documents_carry(open_page: Callable[..., Any], served: Served) -> None:
    page = open_page(served.address)
    carried = {"price": 1.5, "link": "https://www.example.org/tea/", "bad": "javascript:alert(1)", "html": "<b>x"}
    changed(page, learned=lambda found: [hit | {"carried": carried} for hit in found["learned"]])
    page.goto(served.at("green"))
    order(page)
    shown = page.locator("#learned li .carried").first
    expect(shown).to_contain_text("price 1.5")
    expect(shown).to_contain_text("html <b>x")
    [link] = shown.locator("a").all()
    assert (link.inner_text(), link.get_attribute("href")) == ("example.org/tea", "https://www.example.org/tea/")
    expect(page.locator("#baseline li .carried").first).to_be_hidden()


def test_more_and_weaker_results(open_page: Callable[..., Any], served: Served) -> None:
    page = open_page(served.address)
    sent: list[str] = []

    def answer(route: Any) -> None:
        sent.append(route.request.url.partition("?")[2])
        found = route.fetch().json()
        if "k=10&" in sent[-1] + "&":  # as if there were more than ten
            twins = [found["learned"][0] | {"id": f"t{i}", "rank": i + 1} for i in range(10)]
            found |= {"learned": twins, "left_off": 3}
        route.fulfill(json=found)

    page.route("**/search?*", answer)
    page.goto(served.at("green"))
    order(page)
    expect(page.locator("#more button")).to_have_text(["Show 10 more", "Show 3 weaker results"])
    label = page.locator("#learned li .prefer").nth(1).get_attribute("aria-label")
    assert "(t1)" in label, "results of one title are told apart by their ids"
    assert "(t0)" in label
    page.locator("#more button").first.click()
    expect(page.locator("#more")).to_have_text("No more results.")
    assert sent == ["q=green&k=10", "q=green&k=20"]


def test_a_stop_word_is_called_one(open_page: Callable[..., Any], served: Served) -> None:
    page = open_page(served.address)
    nothing = {"learned": lambda _: [], "baseline": lambda _: []}
    changed(page, stop_words=lambda _: ["the"], unknown=lambda _: [], **nothing)
    page.goto(served.at("the"))
    expect(page.locator("#notice")).to_contain_text("“the” is in so many documents that it is not searched for.")


def test_a_busy_service_is_asked_again(open_page: Callable[..., Any], served: Served) -> None:
    page = open_page(served.address)
    asked: list[str] = []

    def answer(route: Any) -> None:
        asked.append(route.request.url)
        if len(asked) > 1:
            route.continue_()
            return
        body = '{"type": "about:blank", "title": "Busy", "status": 503, "detail": "too many wait"}'
        route.fulfill(status=503, headers={"Retry-After": "1"}, content_type="application/problem+json", body=body)

    page.route("**/search?*", answer)
    page.fill("#q", "avocado")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="The service is busy")).to_be_visible()
    expect(page.locator("#notice")).to_contain_text("Trying again in 1 second.")
    assert "d" in order(page)
    assert len(asked) == 2


def test_a_service_that_is_away_or_refuses(open_page: Callable[..., Any], served: Served) -> None:
    page = open_page(served.at("avocado"))
    before = order(page)
    page.route("**/search?*", lambda route: route.abort())
    page.fill("#q", "green")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="The service is away")).to_be_visible()
    page.unroute("**/search?*")
    page.get_by_role("button", name="Try again").click()
    assert "b" in order(page)
    page.go_back()
    expect(page.locator("#q")).to_have_value("avocado")
    assert order(page) == before
    refusal = '{"type": "about:blank", "title": "Too many changes", "status": 429, "detail": "too many changes"}'
    headers = {"Retry-After": "7"}
    page.route("**/prefer", lambda route: route.fulfill(status=429, headers=headers, body=refusal))
    row_of(page, before[1]).locator(".prefer").click()
    expect(page.locator("#toast-text")).to_contain_text("not taken. Too many changes. Try again in 7 seconds.")
    assert order(page) == before
    page.fill("#q", "green " * 100)  # a real refusal: more words than a query may have
    page.keyboard.press("Enter")
    expect(page.locator("#notice")).to_contain_text("at most 64")


def test_a_kept_preference_is_not_called_refused(open_page: Callable[..., Any], served: Served) -> None:
    page = open_page(served.at("avocado"))
    before = order(page)
    page.route("**/search?*", lambda route: route.abort())
    row_of(page, before[1]).locator(".prefer").click()
    expect(page.locator("#toast-text")).to_contain_text("It is kept, but the list could not be asked for again.")
    page.unroute("**/search?*")
    page.locator("#toast-undo").click()
    expect(page.locator("#toast-text")).to_contain_text("undone")
    assert order(page) == before


def test_a_partial_answer_says_so(open_page: Callable[..., Any], served: Served) -> None:
    page = open_page(served.address)

    def late(route: Any) -> None:
        answer = route.fetch().json()
        learned = [hit | {"baseline_rank": None, "moved": None} for hit in answer["learned"]]
        route.fulfill(json=answer | {"partial": True, "baseline": [], "learned": learned})

    page.route("**/search?*", late)
    page.fill("#q", "avocado")
    page.keyboard.press("Enter")
    assert "a" in order(page)
    expect(page.locator("#facts")).to_contain_text("the time limit was reached")
    expect(page.locator("#baseline-none")).to_have_text("Left out: the time limit was reached.")
    assert set(page.locator("#learned .moved").all_inner_texts()) == {""}, "there is nothing to compare with"


def test_a_slow_answer_shows_that_it_is_awaited(open_page: Callable[..., Any], served: Served) -> None:
    page = open_page(served.at("avocado"))
    before = order(page)
    held: list[Any] = []
    page.route("**/search?*", lambda route: held.append(route))
    page.evaluate(
        """() => { document.querySelector("#search").addEventListener("submit", () => {
          const began = performance.now();
          new MutationObserver(() => { window.waited ??= performance.now() - began; }).observe(document.body,
            { attributes: true, attributeFilter: ["class"] }); }); }"""
    )
    page.fill("#q", "green")
    page.keyboard.press("Enter")
    expect(page.locator("body.waiting")).to_be_attached()
    assert page.evaluate("window.waited") > 150, "not at once: it would flicker"
    assert listed(page) == before, "what was there stays until the answer is"
    held[0].continue_()
    expect(page.locator("body.waiting")).not_to_be_attached()
    assert "b" in order(page)


def test_a_token_is_asked_for_once(open_page: Callable[..., Any], guarded: Served) -> None:
    page = open_page(guarded.at("avocado"))
    dialog = page.get_by_role("dialog", name="This service asks for a token")
    for given in ("wrong", "reading"):
        expect(dialog).to_contain_text("not accepted" if given == "reading" else "needed to search")
        dialog.get_by_label("Token").fill(given)
        page.keyboard.press("Enter")
    before = order(page)
    page.reload()
    assert order(page) == before
    row_of(page, before[1]).locator(".prefer").click()
    expect(dialog).to_contain_text("not accepted for changing what is learned")
    dialog.get_by_label("Token").fill("writing")
    page.keyboard.press("Enter")
    expect(page.locator("#toast-undo")).to_be_visible()
    assert order(page)[0] == before[1]
    page.locator("#toast-undo").click()
    expect(page.locator("#toast-text")).to_contain_text("undone")
    assert page.evaluate("localStorage.length") == 0
    fresh = open_page(guarded.at("avocado"))  # another session knows nothing of it
    expect(fresh.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    fresh.keyboard.press("Escape")
    expect(fresh.get_by_role("heading", name="A token is needed")).to_be_visible()


# -- for everybody ----------------------------------------------------------------------------------------------------

WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


@pytest.mark.parametrize(("scheme", "size"), [("light", WIDE), ("dark", WIDE), ("light", PHONE), ("dark", PHONE)])
def test_axe_finds_nothing(open_page: Callable[..., Any], served: Served, scheme: str, size: dict[str, int]) -> None:
    pytest.importorskip("axe_playwright_python", reason="axe-core comes with axe-playwright-python, which is not here")
    axe = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    page = open_page(served.address, color_scheme=scheme, viewport=size)

    def check(state: str) -> None:
        page.evaluate(axe)
        rules = {"runOnly": ["color-contrast"]} if scheme == "dark" else {}  # all that differs in the dark
        found = page.evaluate("rules => axe.run(document, rules)", rules)["violations"]
        assert [(v["impact"], v["id"], v["nodes"][0]["html"]) for v in found] == [], state
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{state} is too wide"

    check("start")
    page.fill("#q", "green avocado zyzzyva")
    page.keyboard.press("Enter")
    second = row_of(page, order(page)[1])
    second.locator(".title").click()
    expect(second.locator(".pairs")).to_be_visible()
    second.get_by_role("button", name="Read the document").click()
    second.locator(".prefer").click()
    expect(page.locator("#toast-undo")).to_be_visible()
    check("reasons and a message")
    page.locator("#words button").first.click()
    expect(page.locator("#graph .node").first).to_be_visible()
    check("graph")
    page.keyboard.press("Escape")
    page.locator("#open-history").click()
    expect(page.locator(".entries li").first).to_be_visible()
    check("history")
    page.keyboard.press("Escape")
    page.locator("#toast-undo").click()
    expect(page.locator("#toast-text")).to_contain_text("undone")
    page.fill("#q", "zyzzyva")
    page.keyboard.press("Enter")
    expect(page.locator("#notice")).to_be_visible()
    check("nothing found")


def test_a_phone_shows_one_list_at_a_time(open_page: Callable[..., Any], served: Served) -> None:
    page = open_page(served.at("green avocado"), viewport=PHONE, has_touch=True)
    order(page)
    expect(page.locator("#baseline")).to_be_hidden()
    page.get_by_role("button", name="BM25").tap()
    expect(page.locator("#baseline")).to_be_visible()
    expect(page.locator("#learned")).to_be_hidden()
