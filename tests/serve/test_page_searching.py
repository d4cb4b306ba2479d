"""Searching on the page: how to begin, what is told of an answer, and what goes wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from support.browsing import PHONE, READ_TOKEN, TEACH_TOKEN, WIDE, Served, changed, listed, order, row_of

expect = pytest.importorskip("playwright.sync_api", reason="the page is tested with Playwright").expect
pytestmark = pytest.mark.slow  # a browser


def test_the_start_page_says_what_is_searched_and_how_to_begin(
    open_page: Callable[..., Any], page_service: Served
) -> None:
    page = open_page(page_service.address)
    about = {"name": "kitchen", "documents": 7, "baseline_name": "BM25", "examples": ["avocado", "<i>eyes"]}
    page.route("**/collection", lambda route: route.fulfill(json=about))
    page.goto(page_service.address)
    expect(page.locator("#collection")).to_have_text("Searches 7 documents of kitchen")
    assert page.locator("#examples button").all_inner_texts() == ["avocado", "<i>eyes"]
    page.locator("#examples button").first.click()
    assert "a" in order(page)
    assert page.url == page_service.at("avocado")


def test_unknown_words_are_named(open_page: Callable[..., Any], page_service: Served) -> None:
    page = open_page(page_service.at("avocado zyzzyva"))
    order(page)
    expect(page.locator("#facts")).to_contain_text("unknown word: “zyzzyva”")


def test_a_stop_word_is_called_one(open_page: Callable[..., Any], page_service: Served) -> None:
    page = open_page(page_service.address)
    nothing = {"learned": lambda _: [], "baseline": lambda _: []}
    changed(page, stop_words=lambda _: ["the"], unknown=lambda _: [], **nothing)
    page.goto(page_service.at("the"))
    expect(page.locator("#notice")).to_contain_text("“the” is in so many documents that it is not searched for.")


def test_what_is_learned_from_nothing_is_one_list(open_page: Callable[..., Any], page_service: Served) -> None:
    page = open_page(page_service.address)
    changed(page, compared=lambda _: False, baseline=lambda _: [])
    page.goto(page_service.at("green"))
    assert len(order(page)) > 1
    expect(page.locator("#baseline")).to_be_hidden()
    expect(page.locator("#slopes")).to_be_hidden()
    expect(page.locator("#learned-name")).to_have_text("BM25")
    expect(page.locator("#facts")).to_contain_text("Nothing is learned yet")
    expect(page.locator("#learned li .better").nth(1)).to_be_visible()


def test_cards_show_what_documents_carry(open_page: Callable[..., Any], page_service: Served) -> None:
    page = open_page(page_service.address)
    stored_fields = {"price": 1.5, "link": "https://www.example.org/tea/", "bad": "javascript:alert(1)", "html": "<b>x"}
    changed(
        page,
        learned=lambda found: [hit | {"stored_fields": stored_fields} for hit in found["learned"]],
        baseline=lambda found: [hit | {"stored_fields": {}} for hit in found["baseline"]],
    )
    page.goto(page_service.at("green"))
    order(page)
    shown = page.locator("#learned li .stored_fields").first
    expect(shown).to_contain_text("price 1.5")
    expect(shown).to_contain_text("html <b>x")
    [link] = shown.locator("a").all()
    assert (link.inner_text(), link.get_attribute("href")) == ("example.org/tea", "https://www.example.org/tea/")
    expect(page.locator("#baseline li .stored_fields").first).to_be_hidden()


def test_more_and_weaker_results(open_page: Callable[..., Any], page_service: Served) -> None:
    page = open_page(page_service.address)
    sent: list[str] = []

    def answer(route: Any) -> None:
        sent.append(route.request.url.partition("?")[2])
        found = route.fetch().json()
        if "k=10&" in sent[-1] + "&":  # as if there were more than ten
            twins = [found["learned"][0] | {"id": f"t{i}", "rank": i + 1} for i in range(10)]
            found |= {"learned": twins, "left_off": 3}
        route.fulfill(json=found)

    page.route("**/search?*", answer)
    page.goto(page_service.at("green"))
    order(page)
    expect(page.locator("#more button")).to_have_text(["Show 10 more", "Show 3 weaker results"])
    label = page.locator("#learned li .better").nth(1).get_attribute("aria-label")
    assert "(t1)" in label, "results of one title are told apart by their ids"
    assert "(t0)" in label
    page.locator("#more button").first.click()
    expect(page.locator("#more")).to_have_text("No more results.")
    assert sent == ["q=green&k=10&compare=true&facets=true", "q=green&k=20&compare=true&facets=true"]


def test_a_slow_answer_shows_that_it_is_awaited(open_page: Callable[..., Any], page_service: Served) -> None:
    page = open_page(page_service.at("avocado"))
    before = order(page)
    held: list[Any] = []
    page.route("**/search?*", lambda route: held.append(route))
    page.evaluate(  # it captures the event, so that it is before the listener of the page
        """() => { document.querySelector("#search").addEventListener("submit", () => {
          const began = performance.now();
          new MutationObserver(() => { window.waited ??= performance.now() - began; }).observe(document.body,
            { attributes: true, attributeFilter: ["class"] }); }, { capture: true }); }"""
    )
    page.fill("#q", "green")
    page.keyboard.press("Enter")
    expect(page.locator("body.waiting")).to_be_attached()
    assert page.evaluate("window.waited") > 150, "not at once: it would flicker"
    assert listed(page) == before, "what was there stays until the answer is"
    held[0].continue_()
    expect(page.locator("body.waiting")).not_to_be_attached()
    assert "b" in order(page)


def test_an_address_with_a_query_does_not_begin_with_the_welcome(
    open_page: Callable[..., Any], page_service: Served
) -> None:
    page = open_page(page_service.address)
    expect(page.locator("#welcome")).to_be_visible()
    held: list[Any] = []
    page.route("**/search?*", lambda route: held.append(route))
    page.goto(page_service.at("avocado"))
    expect(page.locator("body.waiting")).to_be_attached()
    expect(page.locator("#welcome")).to_be_hidden()
    held[0].continue_()
    assert "d" in order(page)


def test_a_busy_service_is_asked_again(open_page: Callable[..., Any], page_service: Served) -> None:
    page = open_page(page_service.address)
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


def test_a_service_that_is_away_or_refuses(open_page: Callable[..., Any], page_service: Served) -> None:
    page = open_page(page_service.at("avocado"))
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
    row_of(page, before[1]).locator(".better").click()
    expect(page.locator("#toast-text")).to_contain_text("It was not taken. Too many changes. Try again in 7 seconds.")
    assert order(page) == before
    page.fill("#q", "green " * 100)  # a real refusal: more words than a query may have
    page.keyboard.press("Enter")
    expect(page.locator("#notice")).to_contain_text("at most 64")


def test_a_token_is_asked_for_once(open_page: Callable[..., Any], guarded: Served) -> None:
    page = open_page(guarded.at("avocado"))
    dialog = page.get_by_role("dialog", name="This service asks for a token")
    for given in ("wrong", READ_TOKEN):
        expect(dialog).to_contain_text("not accepted" if given == READ_TOKEN else "needed to search")
        dialog.get_by_label("Token").fill(given)
        page.keyboard.press("Enter")
    before = order(page)
    page.reload()
    assert order(page) == before
    row_of(page, before[1]).locator(".better").click()
    expect(dialog).to_contain_text("not accepted for changing what is learned")
    dialog.get_by_label("Token").fill(TEACH_TOKEN)
    page.keyboard.press("Enter")
    expect(page.locator("#toast-undo")).to_be_visible()
    assert order(page)[0] == before[1]
    page.locator("#toast-undo").click()
    expect(page.locator("#toast-text")).to_contain_text("Taken back")
    assert page.evaluate("localStorage.length") == 0
    fresh = open_page(guarded.at("avocado"))  # another session knows nothing of it
    expect(fresh.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    fresh.keyboard.press("Escape")
    expect(fresh.get_by_role("heading", name="A token is needed")).to_be_visible()


def test_frequent_words_are_told_beside_results(open_page: Callable[..., Any], page_service: Served) -> None:
    page = open_page(page_service.address)
    changed(page, stop_words=lambda _: ["fields"])
    page.goto(page_service.at("green fields"))
    order(page)
    expect(page.locator("#facts")).to_contain_text("in most documents, so not searched: “fields”")


def test_cards_of_one_title_are_told_apart(open_page: Callable[..., Any], page_service: Served) -> None:
    page = open_page(page_service.address)
    long = "one and the same title for all of them, longer than a line of the card has room for, even on wide screens"

    def twins(found: Any) -> list[Any]:
        names = ("numpy.sort", "numpy.ma.sort", "https://example.org/a/very/long/address/that/ends/with/a/number/1")
        titles = (long, long, long)
        return [
            found["learned"][0] | {"id": name, "rank": i + 1, "title": title}
            for i, (name, title) in enumerate(zip(names, titles, strict=True))
        ]

    changed(page, learned=twins, baseline=lambda _: [])
    for size in (WIDE, PHONE):
        page.set_viewport_size(size)
        page.goto(page_service.at("green"))
        order(page)
        for name in page.locator("#learned .id").all():
            expect(name).to_be_visible()
            assert name.evaluate("id => id.scrollWidth <= id.clientWidth"), "no part of it is cut off"
        label = page.locator("#learned .worse").first.get_attribute("aria-label")
        assert "(numpy.ma.sort) over" in label
        assert "(numpy.sort)" in label


def test_filters_narrow_the_lists_and_live_in_the_address(open_page: Callable[..., Any], page_service: Served) -> None:
    page = open_page(page_service.at("green"))
    whole = order(page)
    choice = page.get_by_label("shelf")
    assert choice.locator("option").all_inner_texts() == ["any", "books (2)", "fruit (2)"]
    choice.focus()
    choice.select_option("fruit")
    expect(page).to_have_url(re.compile(r"\?q=green&filter=shelf%3Afruit$"))
    expect(page.locator("#learned li")).to_have_count(2)
    assert order(page) == [doc_id for doc_id in whole if doc_id in ("a", "e/é ?#")]
    expect(choice).to_be_focused()
    expect(choice).to_have_value("fruit")
    page.reload()
    expect(page.locator("#learned li")).to_have_count(2)
    choice.select_option("books")
    expect(page.locator("#learned li").first).to_have_attribute("data-id", re.compile("^[bc]$"))
    page.go_back()
    expect(choice).to_have_value("fruit")
    page.get_by_role("button", name="Clear").click()
    expect(choice).to_have_value("")
    assert order(page) == whole
    page.goto(page_service.at("toast") + "&filter=shelf:books")
    expect(page.locator("#notice")).to_contain_text("With these filters, no document has these words")
    page.get_by_role("button", name="Search without filters").click()
    assert "a" in order(page)
    page.goto(page_service.at("green") + "&filter=color:red")
    expect(page.locator("#notice")).to_contain_text("No document has a column 'color'")


def test_what_is_taught_under_a_filter_is_told_by_the_list_shown(
    open_page: Callable[..., Any], page_service: Served
) -> None:
    page = open_page(page_service.at("green") + "&filter=shelf:fruit")
    first, second = order(page)
    row_of(page, second).locator(".better").click()
    expect(page.locator("#toast-text")).to_contain_text("went from rank 2 to 1")
    assert order(page) == [second, first]
    page.locator("#toast-undo").click()
    expect(page.locator("#toast-text")).to_contain_text("Taken back")


def test_a_list_that_models_share_claims_no_order(open_page: Callable[..., Any], page_service: Served) -> None:
    page = open_page(page_service.address)
    changed(page, interleaved=lambda _: True)
    page.goto(page_service.at("green avocado"))
    assert len(order(page)) > 1
    expect(page.locator("#learned-name")).to_have_text("Results")
    for part in ("#baseline", "#slopes", "#learned .score >> nth=0", "#learned .moved >> nth=0"):
        expect(page.locator(part)).to_be_hidden()
    expect(page.locator("#facts")).not_to_contain_text("Learning")
    row = page.locator("#learned li").nth(1)
    row.locator(".better").click()
    expect(page.locator("#toast-undo")).to_be_visible()
    page.locator("#toast-undo").click()
    expect(page.locator("#toast-text")).to_contain_text("Taken back")


def test_what_is_opened_is_a_click_once_for_each_list(open_page: Callable[..., Any], page_service: Served) -> None:
    page = open_page(page_service.address)
    clicks: list[Any] = []

    def note(route: Any) -> None:
        clicks.append(route.request.post_data_json)
        route.fulfill(status=202, json={})

    page.route("**/events", note)
    stored_fields = {"link": f"{page_service.address}openapi.json"}
    changed(
        page,
        query_id=lambda found: f"list of {found['query']}",
        learned=lambda found: [hit | {"stored_fields": stored_fields} for hit in found["learned"]],
        baseline=lambda found: [hit | {"stored_fields": stored_fields} for hit in found["baseline"]],
    )
    page.goto(page_service.at("green"))
    first, second, *_ = order(page)
    for _ in range(3):
        row_of(page, second).locator(".title").click()
    page.locator("#baseline .title").first.click()
    with page.expect_popup():  # no rank of the list that is logged
        page.locator("#baseline .stored_fields a").last.click()
    with page.expect_popup():
        row_of(page, first).locator(".stored_fields a").click()
    page.goto(page_service.at("avocado"))
    row_of(page, order(page)[0]).locator(".title").click()
    expect(page.locator("#learned .pairs")).to_be_visible()
    assert [(click["query_id"], click["doc"]) for click in clicks[:2]] == [
        ("list of green", second),
        ("list of green", first),
    ]
    assert clicks[2]["query_id"] == "list of avocado"


def test_more_of_a_list_has_the_clicks_on_it_and_what_is_looked_at_again_is_not_logged(
    open_page: Callable[..., Any], page_service: Served
) -> None:
    page = open_page(page_service.address)
    clicks: list[Any] = []
    sent: list[str] = []

    def note(route: Any) -> None:
        clicks.append(route.request.post_data_json)
        route.fulfill(status=202, json={})

    def answer(route: Any) -> None:
        sent.append(route.request.url.partition("?")[2])
        found = route.fetch().json()
        route.fulfill(json=found | {"query_id": None if "log=false" in sent[-1] else sent[-1], "left_off": 3})

    page.route("**/events", note)
    page.route("**/search?*", answer)
    page.goto(page_service.at("green"))
    first, second, *_ = order(page)
    row_of(page, second).locator(".title").click()
    page.locator("#more button").first.click()
    expect(page.locator("#results[aria-busy]")).to_have_count(0)
    row_of(page, first).locator(".title").click()
    expect(page.locator("#learned .pairs").first).to_be_visible()
    asked = "q=green&k=10&compare=true&facets=true"
    assert [(click["query_id"], click["doc"]) for click in clicks] == [
        (asked, second),
        (f"{asked}&all=true", second),
        (f"{asked}&all=true", first),
    ]
    row_of(page, second).locator(".better").click()
    expect(page.locator("#toast-undo")).to_be_visible()
    assert sent[2:]
    assert all("log=false" in one for one in sent[2:])
    page.locator("#toast-undo").click()
    expect(page.locator("#toast-text")).to_contain_text("Taken back")
