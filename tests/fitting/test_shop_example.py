"""The shop of examples/: made from a tiny package list, without apt."""

from __future__ import annotations

import csv
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from support.packages import package_list
from tercet.data import read_table
from tercet.data.click_tables import read_click_log
from tercet.data.judgements import read_judgements

FOLDER = Path(__file__).parents[2] / "examples" / "shop"


def loaded(name):
    """A script as a module; the one of the loop takes that of the shop by its name."""
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def shop():
    return loaded("shop")


@pytest.fixture(scope="module")
def made(shop, tmp_path_factory):
    folder = tmp_path_factory.mktemp("shop")
    (folder / "list").write_text(package_list())
    packages = shop.read_packages(folder / "list")
    assert len(packages) == 144
    for name in ("one", "again"):
        shop.make_shop(packages, folder / name, n_packages=130, n_queries=40, n_lists=300, n_judged=5, seed=3)
    return folder / "one"


def test_the_shop_is_what_the_readers_take_and_the_same_for_the_same_seed(made):
    docs = read_table(made / "products.csv")
    assert len(docs) == 130
    assert docs.text_columns == ("name", "description")
    assert not any("::" in text for text in docs.values())
    log = read_click_log(made / "clicks.csv")
    assert (len(log.impressions), log.is_timed) == (300, True)
    assert {doc_id for impression in log.impressions for doc_id in impression.shown} <= set(docs)
    judged = read_judgements(made / "judged.csv", None, docs)
    assert len(judged.qrels) == 5
    for file in made.iterdir():
        assert file.read_bytes() == (made.parent / "again" / file.name).read_bytes()


def test_untouched_queries_are_in_no_evidence_and_clicks_follow_truth_and_rank(made):
    with (made / "truth.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    untouched = {row["query"] for row in rows if row["clicked_or_judged"] == "0"}
    relevant = {(row["query"], row["sku"]) for row in rows}
    log = read_click_log(made / "clicks.csv").impressions
    assert untouched
    assert not untouched & {impression.query for impression in log}
    assert not untouched & set(read_judgements(made / "judged.csv").qrels)
    clicks = [(rank, (i.query, d) in relevant, d in i.clicked) for i in log for rank, d in enumerate(i.shown)]
    rate = {
        "relevant, above": np.mean([c for rank, r, c in clicks if r and rank < 3]),
        "relevant, below": np.mean([c for rank, r, c in clicks if r and rank > 5]),
        "others": np.mean([c for _, r, c in clicks if not r]),
    }
    assert rate["relevant, above"] > 1.5 * rate["relevant, below"]
    assert rate["relevant, below"] > 2 * rate["others"]


def test_a_list_without_tags_says_what_is_needed(shop, tmp_path):
    (tmp_path / "list").write_text("Package: untagged\nDescription: nothing\n")
    with pytest.raises(SystemExit, match=r"no tagged package was found: .*--packages FILE"):
        shop.read_packages(tmp_path / "list")


@pytest.mark.slow
def test_the_loop_serves_learns_compares_and_draws(shop, made, monkeypatch):
    loop = loaded("loop")
    monkeypatch.setattr(loop, "SETTLE_SECONDS", 0.2)
    monkeypatch.setattr(loop, "FIT_OPTIONS", " --steps 3000")
    loop.Loop(made, attackers=0.2, n_lists=60, seed=0).go(n_rounds=2)
    (course,) = loop.read_courses(made)
    assert course.n_lists[-1] == 120
    assert min(course.untouched + course.asked) > 0
    assert any(impression.clicked for impression in read_click_log(made / "loop-20" / "log").impressions)
    loop.draw([course], made / "loop.png")
    assert (made / "loop.png").read_bytes().startswith(b"\x89PNG")
