"""Teaching on the page: better, worse, not relevant, moving a card, and taking it back."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from support.browsing import PHONE, Served, listed, order, row_of, version_of

expect = pytest.importorskip("playwright.sync_api", reason="the page is tested with Playwright").expect
pytestmark = pytest.mark.slow  # a browser


def test_prefer_moves_a_result_and_lasts(open_page: Callable[..., Any], page_service: Served) -> None:
    page = open_page(page_service.address)
    expect(page.get_by_role("heading", name="Two rankings")).to_be_visible()
    page.keyboard.type("green avocado")
    page.keyboard.press("Enter")
    before = order(page)
    assert page.url == f"{page_service.address}?q=green+avocado"
    plain = order(page, "baseline")
    assert set(plain) < set(before), "guacamole is found only by what was learned"
    assert "new" in row_of(page, "d").locator(".moved").inner_text()

    better, worse = before[2], before[1]
    row_of(page, better).locator(".better").click()
    expect(page.locator("#toast-text")).to_contain_text("You said: “")
    after = order(page)
    assert after.index(better) < after.index(worse)
    expect(page.locator("#toast-text")).to_contain_text("from rank 3 to")
    expect(page.locator("#toast-undo")).to_have_text(re.compile("^Undo: “.*” over “.*”$"))
    assert order(page, "baseline") == plain
    learned = version_of(page)
    expect(page.get_by_role("status")).to_contain_text("moved from 3 to")

    page.reload()
    assert order(page) == after
    page_service.kill()
    page_service.launch()
    page_service.wait()
    page.reload()
    assert order(page) == after
    assert version_of(page) == learned

    page.locator("#open-history").click()
    entries = page.locator(".entries li")
    expect(entries.first).to_contain_text("for “green avocado”")
    taught = entries.count()
    buttons = entries.get_by_role("button", name="Take back")
    for left in reversed(range(buttons.count())):
        buttons.first.click()
        expect(buttons).to_have_count(left)
    expect(entries.first).to_contain_text("taken back")
    expect(entries).to_have_count(taught)  # undoing is told with what was undone, and is no step on
    page.keyboard.press("Escape")
    assert order(page) == before


def test_undo_of_the_message_and_by_key(open_page: Callable[..., Any], page_service: Served) -> None:
    page = open_page(page_service.at("avocado"))
    before = order(page)
    for undo in (lambda: page.locator("#toast-undo").click(), lambda: page.keyboard.press("u")):
        row_of(page, before[1]).locator(".title").focus()
        page.keyboard.press("b")
        expect(page.locator("#toast-undo")).to_be_visible()
        assert order(page)[:2] == [before[1], before[0]]
        undo()
        expect(page.locator("#toast-text")).to_contain_text("Taken back: “")
        expect(page.locator("#toast-text")).to_contain_text("It is at rank 2 again.")
        expect(page.locator("#toast-undo")).to_be_hidden()
        assert order(page) == before
        assert row_of(page, before[1]).evaluate("row => row.contains(document.activeElement)"), "the focus is kept"


def test_undo_waits_for_a_preference_that_is_on_its_way(open_page: Callable[..., Any], page_service: Served) -> None:
    page = open_page(page_service.at("avocado"))
    before = order(page)
    row_of(page, before[1]).locator(".better").click()
    expect(page.locator("#toast-undo")).to_be_visible()
    held: list[Any] = []
    page.route("**/prefer", lambda route: held.append(route))
    row_of(page, before[2]).locator(".better").click()
    expect(page.locator("#learned[aria-busy=true]")).to_be_attached()
    page.locator("#toast-undo").click()
    expect(page.locator("#toast-undo")).to_be_visible()
    held[0].abort()
    expect(page.locator("#toast-text")).to_contain_text("not taken")
    row_of(page, before[1]).locator(".title").focus()
    page.keyboard.press("u")
    expect(page.locator("#toast-text")).to_contain_text("Taken back")
    assert order(page) == before


def test_the_focus_stays_in_a_row_whose_reasons_are_renewed(
    open_page: Callable[..., Any], page_service: Served
) -> None:
    page = open_page(page_service.at("avocado"))
    second = row_of(page, order(page)[1])
    second.locator(".title").click()
    read = second.get_by_role("button", name="Read the document")
    read.focus()
    caption = second.locator("caption").inner_text()
    page.keyboard.press("b")
    expect(page.locator("#toast-undo")).to_be_visible()
    expect(second.locator("caption")).not_to_have_text(caption)
    expect(second.locator(".title")).to_be_focused()
    page.locator("#toast-undo").click()
    expect(page.locator("#toast-text")).to_contain_text("Taken back")


@pytest.mark.parametrize(("motion", "moves"), [("no-preference", True), ("reduce", False)])
def test_rows_move_unless_told_not_to(
    open_page: Callable[..., Any], page_service: Served, motion: str, moves: bool
) -> None:
    page = open_page(page_service.at("avocado"), reduced_motion=motion)
    page.evaluate(
        """() => { const animate = Element.prototype.animate; window.moved = [];
        Element.prototype.animate = function (frames, timing) {
          if (frames[0].transform) window.moved.push(this.dataset.id); return animate.call(this, frames, timing); } }"""
    )
    first, second, *_ = order(page)
    row_of(page, second).locator(".better").click()
    expect(page.locator("#toast-undo")).to_be_visible()
    assert set(page.evaluate("window.moved")) == ({first, second} if moves else set())
    assert row_of(page, second).evaluate("row => row.contains(document.activeElement)"), "its button is gone"
    page.locator("#toast-undo").click()
    expect(page.locator("#toast-text")).to_contain_text("Taken back")


def test_a_kept_preference_is_not_called_refused(open_page: Callable[..., Any], page_service: Served) -> None:
    page = open_page(page_service.at("avocado"))
    before = order(page)
    page.route("**/search?*", lambda route: route.abort())
    row_of(page, before[1]).locator(".better").click()
    expect(page.locator("#toast-text")).to_contain_text("It is kept, but the list could not be asked for again.")
    page.unroute("**/search?*")
    page.locator("#toast-undo").click()
    expect(page.locator("#toast-text")).to_contain_text("Taken back")
    assert order(page) == before


# -- in other ways ----------------------------------------------------------------------------------------------------


def undo(page: Any, before: list[str]) -> None:
    page.locator("#toast-undo").click()
    expect(page.locator("#toast-text")).to_contain_text("Taken back")
    assert order(page) == before


def test_worse_puts_the_next_one_ahead(open_page: Callable[..., Any], page_service: Served) -> None:
    page = open_page(page_service.at("green avocado"))
    before = order(page)
    expect(row_of(page, before[0]).locator(".better")).to_be_hidden()
    expect(row_of(page, before[-1]).locator(".worse")).to_be_hidden()
    row_of(page, before[0]).locator(".worse").click()
    expect(page.locator("#toast-undo")).to_be_visible()
    after = order(page)
    assert after.index(before[1]) < after.index(before[0])
    undo(page, before)


@pytest.mark.parametrize("by", ["button", "key"])
def test_what_is_not_relevant_sinks_and_is_folded(open_page: Callable[..., Any], page_service: Served, by: str) -> None:
    page = open_page(page_service.at("green avocado"))
    before = order(page)
    row = row_of(page, before[0])
    if by == "button":
        row.locator(".away").click()
    else:
        row.locator(".title").focus()
        page.keyboard.press("n")
    expect(page.locator("#toast-text")).to_contain_text("is not relevant.")
    after = order(page)
    assert all(after.index(other) < after.index(before[0]) for other in before[1:4]), "three are better than it"
    expect(row.locator(".tag")).to_have_text("not relevant")
    expect(row.locator(".snippet")).to_be_hidden()
    expect(row.locator(".away")).to_be_hidden()
    undo(page, before)
    expect(row.locator(".snippet")).to_be_visible()


def test_not_relevant_of_the_last_one_teaches_nothing(open_page: Callable[..., Any], page_service: Served) -> None:
    page = open_page(page_service.at("green avocado"))
    before = order(page)
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.method))
    row_of(page, before[-1]).locator(".away").click()
    expect(page.locator("#toast-text")).to_contain_text("so nothing was learned")
    expect(row_of(page, before[-1]).locator(".tag")).to_have_text("not relevant")
    page.keyboard.press("u")
    expect(row_of(page, before[-1]).locator(".tag")).to_be_hidden()
    assert "POST" not in sent
    assert listed(page) == before


def test_not_relevant_is_taken_back_from_the_history_and_from_another_query(
    open_page: Callable[..., Any], page_service: Served
) -> None:
    page = open_page(page_service.at("green avocado"))
    before = order(page)
    row = row_of(page, before[-2])
    row.locator(".away").click()
    expect(page.locator("#toast-text")).to_contain_text("is not relevant.")
    page.locator("#open-history").click()
    page.locator(".entries li button").first.click()
    expect(page.locator("#toast-text")).to_contain_text("Taken back")
    page.locator("#history .close").click()
    expect(row.locator(".tag")).to_be_hidden()
    assert order(page) == before
    row.locator(".away").click()
    expect(page.locator("#toast-text")).to_contain_text("You said: ")
    page.locator("#q").fill("oil")
    page.keyboard.press("Enter")
    order(page)
    page.locator("#learned .title").first.focus()
    page.keyboard.press("u")
    expect(page.locator("#toast-text")).to_contain_text("Taken back")
    page.go_back()
    expect(row).to_be_visible()
    expect(row.locator(".tag")).to_be_hidden()
    assert order(page) == before


def moves_of(page: Any) -> list[dict[str, Any]]:
    """The moves that the page sends."""
    moves: list[dict[str, Any]] = []
    page.on("request", lambda request: request.url.endswith("/move") and moves.append(request.post_data_json))
    return moves


def test_a_card_is_dragged_past_others(open_page: Callable[..., Any], page_service: Served) -> None:
    page = open_page(page_service.at("green avocado"))
    before = order(page)
    moves = moves_of(page)
    grip, goal = row_of(page, before[3]).locator(".grip"), row_of(page, before[1])
    box, target = grip.bounding_box(), goal.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y - 20)
    page.mouse.move(x, target["y"] + 10, steps=4)
    expect(row_of(page, before[3])).to_have_class(re.compile("lifted"))
    page.mouse.up()
    expect(page.locator("#toast-undo")).to_contain_text("and 1 other")
    assert moves[0]["ahead_of"] == [before[2], before[1]], "the nearest first"
    assert moves[0]["behind"] == [before[0]]
    after = order(page)
    assert all(after.index(before[3]) < after.index(other) for other in before[1:3])
    undo(page, before)


def test_a_drag_can_be_given_up(open_page: Callable[..., Any], page_service: Served) -> None:
    page = open_page(page_service.at("green avocado"))
    before = order(page)
    moves = moves_of(page)
    box = row_of(page, before[2]).locator(".grip").bounding_box()
    x, y = box["x"] + 8, box["y"] + 8
    for end in (lambda: page.keyboard.press("Escape"), lambda: page.mouse.move(x, y + 3)):
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x, y - 250, steps=3)
        end()
        page.mouse.up()
        expect(page.locator("#learned .lifted")).to_have_count(0)
    assert listed(page) == before
    assert moves == []


def test_a_finger_drags_by_the_grip(open_page: Callable[..., Any], page_service: Served) -> None:
    page = open_page(page_service.at("green avocado"), viewport=PHONE, has_touch=True)
    before = order(page)
    moves = moves_of(page)
    touch = page.context.new_cdp_session(page)
    box, target = row_of(page, before[1]).locator(".grip").bounding_box(), row_of(page, before[0]).bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
    for share in (0.3, 0.6, 1.0):
        point = {"x": x, "y": y + share * (target["y"] + 5 - y)}
        touch.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [point]})
    expect(row_of(page, before[1])).to_have_class(re.compile("lifted"))
    page.wait_for_timeout(50)  # a frame, in which the others make room
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    expect(page.locator("#toast-undo")).to_be_visible()
    assert (moves[0]["doc"], moves[0]["ahead_of"]) == (before[1], [before[0]])
    undo(page, before)


def test_a_card_is_moved_by_keys(open_page: Callable[..., Any], page_service: Served) -> None:
    page = open_page(page_service.at("green avocado"))
    before = order(page)
    moves = moves_of(page)
    row, said = row_of(page, before[3]), page.get_by_role("status")
    row.locator(".title").focus()
    page.keyboard.press("m")
    expect(said).to_contain_text(f"rank 4 of {len(before)}. Arrow keys move it")
    expect(row.locator(".grip")).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(said).to_contain_text(f"Rank 3 of {len(before)}, above “")
    page.keyboard.press("Escape")
    expect(said).to_contain_text("back where it was")
    assert listed(page) == before
    page.keyboard.press("Enter")  # on the grip, that lifts it, too
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    assert listed(page).index(before[3]) == 1
    page.keyboard.press("Enter")
    expect(page.locator("#toast-undo")).to_be_visible()
    assert moves[0]["ahead_of"] == [before[2], before[1]]
    after = order(page)
    assert all(after.index(before[3]) < after.index(other) for other in before[1:3])
    assert row.evaluate("row => row.contains(document.activeElement)")
    undo(page, before)
    row.locator(".title").focus()
    page.keyboard.press("m")
    page.keyboard.press("ArrowUp")
    page.locator("#q").focus()
    assert listed(page) == before, "it goes back when something else is done"


def test_many_that_are_passed_are_few_pairs(open_page: Callable[..., Any], page_service: Served) -> None:
    page = open_page(page_service.address)

    def search(route: Any) -> None:
        found = route.fetch().json()
        twins = [found["learned"][0] | {"id": f"t{i}", "rank": i + 1, "title": f"T {i}"} for i in range(40)]
        route.fulfill(json=found | {"learned": twins, "version": "v99"})

    taught = {"action": 1, "revision": 1, "version": "v99", "served": True, "effect": None}
    moves = moves_of(page)
    page.route("**/search?*", search)
    page.route("**/move", lambda route: route.fulfill(status=202, json=taught))
    page.goto(page_service.at("green"))
    order(page)
    row_of(page, "t39").locator(".title").focus()
    page.keyboard.press("m")
    page.keyboard.press("Home")
    page.keyboard.press("m")
    expect(page.locator("#toast-text")).to_contain_text("over “T 0” and 38 others")
    [move] = moves
    assert (len(move["ahead_of"]), move["ahead_of"][0], move["ahead_of"][-1], move["behind"]) == (9, "t38", "t0", [])


def test_what_is_refused_is_told_and_goes_back(open_page: Callable[..., Any], page_service: Served) -> None:
    page = open_page(page_service.at("green avocado"))
    before = order(page)
    refusal = {"title": "No", "detail": "visitors do not teach", "type": "urn:tercet:problem:not-teaching"}
    page.route("**/reject", lambda route: route.fulfill(status=403, json=refusal))
    row_of(page, before[0]).locator(".away").click()
    expect(page.locator("#toast-text")).to_contain_text("It was not taken. Visitors do not teach.")
    expect(row_of(page, before[0]).locator(".tag")).to_be_hidden()
    assert listed(page) == before


def test_the_history_names_documents_that_are_gone_and_what_is_in_the_model(
    open_page: Callable[..., Any], page_service: Served
) -> None:
    page = open_page(page_service.address)
    common = {"time": "2026-01-01T00:00:00Z", "token": "ann", "query": "q", "undone": None, "undone_by": None}
    actions = [
        common | {"action": 3, "kind": "move", "pairs": [["d", "b"], ["d", "c"], ["a", "d"]], "in_model": False},
        common | {"action": 2, "kind": "reject", "pairs": [["b", "a"], ["c", "a"]], "in_model": False},
        common | {"action": 1, "kind": "prefer", "pairs": [["gone", "b"]], "in_model": True},
    ]
    page.route("**/taught?*", lambda route: route.fulfill(json={"version": "v9", "total": 31, "actions": actions}))
    page.locator("#open-history").click()
    entries = page.locator(".entries li")
    expect(entries.nth(0)).to_contain_text("Guacamole d over Green eyes b and 1 other for “q”")
    expect(entries.nth(1)).to_contain_text("Green avocado a is not relevant for “q”")
    expect(entries.nth(2)).to_contain_text("gone over Green eyes b for “q”")
    expect(entries.nth(2)).to_contain_text("ann · part of the model")
    expect(entries.get_by_role("button", name="Take back")).to_have_count(2)
    expect(page.locator("#history-body")).to_contain_text("28 earlier actions not shown")


def test_keys_work_from_a_link_with_a_query(open_page: Callable[..., Any], page_service: Served) -> None:
    page = open_page(page_service.at("green avocado"))
    before = order(page)
    page.keyboard.press("ArrowDown")
    expect(row_of(page, before[0]).locator(".title")).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("b")
    expect(page.locator("#toast-undo")).to_be_visible()
    assert order(page)[:2] == [before[1], before[0]]
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("u")
    expect(page.locator("#toast-text")).to_contain_text("Taken back")
    assert order(page) == before
