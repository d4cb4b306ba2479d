"""Reasons and neighbors on the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.browsing import DOCS, Served, order, row_of, shown_number

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
