"""Reasons and neighbours on the page."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from support.browsing import DOCS, PHONE, Served, order, row_of, shown_number

expect = pytest.importorskip("playwright.sync_api", reason="the page is tested with Playwright").expect
pytestmark = pytest.mark.slow  # a browser


@pytest.mark.parametrize("system", ["learned", "baseline"])
def test_reasons_sum_to_the_score_shown(open_page: Callable[..., Any], page_service: Served, system: str) -> None:
    page = open_page(page_service.at("green avocado"))
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


def test_walking_the_neighbours(open_page: Callable[..., Any], page_service: Served) -> None:
    page = open_page(page_service.at("avocado"))
    page.locator("#words").get_by_role("button", name="avocado", exact=True).click()
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


def test_the_graph_keeps_the_focus_when_the_window_changes(open_page: Callable[..., Any], page_service: Served) -> None:
    page = open_page(page_service.at("avocado"))
    page.locator("#words button").first.click()
    nodes = page.locator("#graph").get_by_role("button", name=re.compile("weight"))
    expect(nodes.first).to_be_focused()
    page.keyboard.press("ArrowRight")
    width = page.locator("#graph svg").get_attribute("width")
    page.set_viewport_size(PHONE)
    expect(page.locator("#graph svg")).not_to_have_attribute("width", str(width))
    expect(nodes.nth(1)).to_be_focused()


def test_a_word_is_no_neighbour_of_its_own(open_page: Callable[..., Any], page_service: Served) -> None:
    page = open_page(page_service.at("avocado"))
    related = [{"word": "mous", "weight": 1.0}, {"word": "mice", "weight": 0.5}]
    found = {"word": "avocado", "known_as": "mous", "related": related, "version": "v0"}
    page.route("**/related?*", lambda route: route.fulfill(json=found))
    page.locator("#words button").first.click()
    nodes = page.locator("#graph").get_by_role("button", name=re.compile("weight"))
    expect(nodes).to_have_count(1)
    expect(nodes).to_have_accessible_name("mice, weight 0.500")
