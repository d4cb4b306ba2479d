"""``tercet fit --parallel``: documents and their translations, from files to hits in the other language."""

from __future__ import annotations

import numpy as np
import pytest

import tercet as tc
from support.commands import ok, run

ENGLISH = ["one", "two", "three", "four", "five", "six"]
GERMAN = ["eins", "zwei", "drei", "vier", "fünf", "sechs"]


@pytest.fixture
def texts(tmp_path):
    drawn = np.random.default_rng(0).integers(0, 6, (120, 4))
    for name, words in (("docs", ENGLISH), ("german", GERMAN)):
        lines = [f"page {i}\t{' '.join(words[number] for number in row)}\n" for i, row in enumerate(drawn)]
        (tmp_path / f"{name}.tsv").write_text("id\ttext\n" + "".join(lines))
    return tmp_path


@pytest.mark.slow
def test_fit_reports_held_out_translations_and_the_index_answers_in_the_other_language(texts):
    docs, model, index = texts / "docs.tsv", texts / "model", texts / "index"
    said = ok("fit", docs, "--parallel", texts / "german.tsv", "-o", model, "--steps", 2000)
    assert "120 translations" in said
    assert "CL-LSI" in said
    systems = tc.load(model).report.systems
    assert max(system.values["RR"][0] for system in systems) > 0.5  # .05 by chance
    ok("index", docs, "--model", model, "-o", index)
    assert "three" in ok("search", index, "drei drei")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("page 200\tdrei\n", "german.tsv: there is no document 'page 200'"),
        ("page 3\tdrei\n", "german.tsv:122: the id 'page 3' is already used at line 5"),
        ("page 3\n", "german.tsv:122"),
    ],
)
def test_a_wrong_row_is_named_by_its_line(texts, line, problem):
    with (texts / "german.tsv").open("a") as file:
        file.write(line)
    result = run("fit", texts / "docs.tsv", "--parallel", texts / "german.tsv", "-o", texts / "model")
    assert result.exit_code == 1
    assert problem in result.output


def test_settings_without_a_use_for_translations_are_refused(texts):
    result = run("fit", texts / "docs.tsv", "--parallel", texts / "german.tsv", "--budget", 5, "-o", texts / "model")
    assert result.exit_code == 1
    assert "leave out --budget" in result.output
