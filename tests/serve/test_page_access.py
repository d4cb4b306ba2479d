"""The page for everybody: by keyboard, on a phone, for axe, and whatever documents hold."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import Any

import pytest

from support.browsing import DOCS, HOSTILE, PHONE, WIDE, Served, order, row_of

expect = pytest.importorskip("playwright.sync_api", reason="the page is tested with Playwright").expect
pytestmark = pytest.mark.slow  # a browser


def test_keys_of_an_input_method_are_its_own(open_page: Callable[..., Any], page_service: Served) -> None:
    page = open_page(page_service.at("avocado"))
    order(page)
    page.locator("#q").focus()
    press = """(q, isComposing) => q.dispatchEvent(
      new KeyboardEvent("keydown", { key: "ArrowDown", isComposing, bubbles: true, cancelable: true }))"""
    page.locator("#q").evaluate(press, True)
    expect(page.locator("#q")).to_be_focused()
    page.locator("#q").evaluate("q => q.dispatchEvent(new Event('keydown', { bubbles: true }))")  # filled in
    page.locator("#q").evaluate(press, False)
    expect(page.locator("#learned .title").first).to_be_focused()


def test_the_keyboard_is_enough(open_page: Callable[..., Any], page_service: Served) -> None:
    page = open_page(page_service.at("green avocado"))
    learned, baseline = order(page), order(page, "baseline")

    def focused() -> tuple[str, str]:
        return tuple(page.evaluate("(r => [r.parentNode.id, r.dataset.id])(document.activeElement.closest('li'))"))

    page.keyboard.press("/")
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.press("End")
    page.keyboard.press("/")  # where the box has the focus it is a letter
    expect(page.locator("#q")).to_have_value("green avocado/")
    page.keyboard.press("Backspace")
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
    page.keyboard.press("End")
    assert focused() == ("learned", learned[-1])
    page.keyboard.press("Home")
    assert focused() == ("learned", learned[0])
    page.keyboard.press("Escape")
    expect(page.locator("#q")).to_be_focused()


def test_a_list_is_one_stop_of_the_tab_key(open_page: Callable[..., Any], page_service: Served) -> None:
    page = open_page(page_service.at("green avocado"))
    learned = order(page)
    row_of(page, learned[1]).locator(".title").focus()
    classes = []
    for _ in range(5):
        page.keyboard.press("Tab")
        classes.append(page.evaluate("document.activeElement.closest('li') && document.activeElement.classList[0]"))
    assert classes == ["better", "worse", "away", "grip", None]
    page.keyboard.press("Shift+Tab")
    expect(row_of(page, learned[1]).locator(".grip")).to_be_focused()
    stops = page.locator("#learned .title[tabindex='0']")
    expect(stops).to_have_count(1)


def test_help_tells_all_keys(open_page: Callable[..., Any], page_service: Served) -> None:
    page = open_page(page_service.at("green avocado"))
    row_of(page, order(page)[0]).locator(".title").focus()
    page.keyboard.press("?")
    output = page.get_by_role("dialog", name="How it learns")
    expect(output).to_be_visible()
    assert {"B", "W", "N", "M", "U", "/", "?"} <= set(output.locator("kbd").all_inner_texts())
    page.keyboard.press("b")
    expect(page.locator("#toast")).to_be_hidden()  # keys of the lists rest meanwhile
    page.keyboard.press("Escape")
    expect(output).to_be_hidden()
    page.keyboard.press("/")
    page.keyboard.type("?")
    expect(page.locator("#q")).to_have_value("?")
    expect(output).to_be_hidden()


def test_hostile_text_and_query_are_text(open_page: Callable[..., Any], page_service: Served) -> None:
    query = '<img src=x onerror="window.bad=1"> avocado </title><script>window.bad=1</script>'
    page = open_page(page_service.at(query))
    assert "h" in order(page)
    row = row_of(page, "h")
    assert row.locator(".title").evaluate("e => e.textContent").startswith(HOSTILE[:40])
    assert row.locator(".snippet").evaluate("e => e.textContent").startswith(HOSTILE[:40])
    row.locator(".title").click()
    row.get_by_role("button", name="Read the document").click()
    assert row.locator(".text").evaluate("e => e.textContent") == DOCS["h"]
    if not row.locator(".better").is_visible():
        row = page.locator("#learned li").nth(1)
    row.locator(".better").click()
    expect(page.locator("#toast-undo")).to_be_visible()
    page.locator("#open-history").click()
    expect(page.locator(".entries li").first).to_contain_text(query)
    page.keyboard.press("Escape")
    page.locator("#toast-undo").click()
    expect(page.locator("#toast-text")).to_contain_text("Taken back")
    assert page.title() == f"{query} · Tercet"
    assert page.locator("#q").input_value() == query
    assert page.evaluate("window.bad") is None
    assert page.locator("body img, body script").count() == 0

    page.fill("#q", "<b onclick=alert(1)>zyzzyva</b>")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Nothing found for “<b onclick=alert(1)>zyzzyva</b>”")
    expect(page.locator("#notice")).to_contain_text("“zyzzyva”")
    assert page.locator("body b").count() == 0


def test_a_document_may_have_any_name(open_page: Callable[..., Any], page_service: Served) -> None:
    page = open_page(page_service.at("zebra"))
    assert order(page) == [".."]
    page.locator("#learned .title").click()
    page.locator("#learned").get_by_role("button", name="Read the document").click()
    expect(page.locator("#learned .text")).to_have_text(DOCS[".."], use_inner_text=True)


@pytest.mark.parametrize(("scheme", "size"), [("light", WIDE), ("dark", WIDE), ("light", PHONE), ("dark", PHONE)])
def test_axe_finds_nothing(
    open_page: Callable[..., Any], page_service: Served, scheme: str, size: dict[str, int]
) -> None:
    pytest.importorskip("axe_playwright_python", reason="axe-core comes with axe-playwright-python, which is not here")
    axe = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    page = open_page(page_service.address, color_scheme=scheme, viewport=size)

    def check(state: str) -> None:
        # Colors that are on their way from one to another have any contrast.
        page.evaluate(
            """() => Promise.allSettled(document.getAnimations()
              .filter((one) => one.effect.getComputedTiming().endTime < Infinity).map((one) => one.finished))"""
        )
        page.evaluate(axe)
        rules = {"runOnly": ["color-contrast"]} if scheme == "dark" else {}  # all that differs in the dark
        found = page.evaluate("rules => axe.run(document, rules)", rules)["violations"]
        assert [(v["impact"], v["id"], v["nodes"][0]["html"]) for v in found] == [], state
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{state} is too wide"

    check("start")
    page.locator(".open-help").first.click()
    check("help")
    page.keyboard.press("Escape")
    page.fill("#q", "green avocado zyzzyva")
    page.keyboard.press("Enter")
    second = row_of(page, order(page)[1])
    second.locator(".title").click()
    expect(second.locator(".pairs")).to_be_visible()
    second.get_by_role("button", name="Read the document").click()
    second.locator(".better").click()
    expect(page.locator("#toast-undo")).to_be_visible()
    expect(second.locator(".worse")).to_be_enabled()
    check("reasons and a message")
    page.locator("#open-history").click()
    expect(page.locator(".entries li").first).to_be_visible()
    check("history")
    page.keyboard.press("Escape")
    page.locator("#toast-undo").click()
    expect(page.locator("#toast-text")).to_contain_text("Taken back")
    page.locator("#learned .away").last.click()
    expect(page.locator("#learned .tag").last).to_be_visible()
    check("not relevant")
    page.locator("#toast-undo").click()
    page.fill("#q", "zyzzyva")
    page.keyboard.press("Enter")
    expect(page.locator("#notice")).to_be_visible()
    check("nothing found")


def test_a_phone_shows_one_list_at_a_time(open_page: Callable[..., Any], page_service: Served) -> None:
    page = open_page(page_service.at("green avocado"), viewport=PHONE, has_touch=True)
    order(page)
    expect(page.locator("#baseline")).to_be_hidden()
    page.get_by_role("button", name="BM25").tap()
    expect(page.locator("#baseline")).to_be_visible()
    expect(page.locator("#learned")).to_be_hidden()
    page.get_by_role("button", name="Learned").tap()
    for kind, text in (("worse", "Worse"), ("away", "Not relevant")):
        button = page.locator(f"#learned li >> nth=0 >> .{kind}")
        expect(button).to_contain_text(text)
        assert button.bounding_box()["height"] >= 40, "for a finger"
    page.locator(".open-help").first.tap()
    expect(page.get_by_role("dialog", name="How it learns")).to_be_visible()
