"""One table, shown as text and HTML."""

from tercet.report.table import Cell, Table


def a_table() -> Table:
    table = Table("Two systems", ["system", "AP"], n_labels=1, marked=1)
    table.rows += [
        [Cell("BM25", "not shown below"), Cell("0.21", "paper 0.2", "good")],
        [Cell("<b>"), Cell("0.3", tone="bad")],
    ]
    return table


def test_details_stand_below_or_beside():
    assert a_table().as_text().splitlines() == [
        "Two systems",
        "system         AP",
        "------  ---------",
        "BM25         0.21",
        "        paper 0.2",
        "<b>           0.3",
    ]
    siblings = Table("", ["system", "AP"], [[Cell("BM25"), Cell("0.21", "[0.1, 0.3]")]])
    assert siblings.as_text(details="inline", ruled=False) == "system  AP\nBM25    0.21 [0.1, 0.3]"


def test_html_is_escaped_and_marked():
    html = a_table().as_html()
    assert '<th scope="row">&lt;b&gt;</th>' in html
    assert '<td class="number">0.21<small class="good">paper 0.2</small>' in html
    assert '<tr class="ours">' in html
    assert '<span class="bad">0.3</span>' in html
    assert 'aria-label="Two systems"' in html


def test_a_table_of_texts():
    assert Table("", ["a", "b"], [[Cell("1"), Cell("x")]]).as_text(ruled=False) == "a  b\n1  x"


def test_a_number_stays_with_its_spread_and_its_unit():
    html = Table("", ["a"], [[Cell("4.04 ± 0.13 %", "paper 1.41 %, better")], [Cell("SSI †")]]).as_html()
    assert "4.04\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}0.13\N{NO-BREAK SPACE}%" in html
    assert "paper 1.41\N{NO-BREAK SPACE}%, better" in html
    assert "SSI\N{NO-BREAK SPACE}†" in html
