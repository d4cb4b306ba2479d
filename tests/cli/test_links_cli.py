"""``tercet fit --links``: documents that link to others, from files to a model."""

from __future__ import annotations

import json

import pytest

import tercet as tc
from support.commands import ok, run

KINDS = ("tea: hot drink of leaves", "milk: white drink of cows", "bread: loaf of wheat", "lamp: bulb for desks")
PAGES = [{"id": f"p{i:02}", "title": f"Page {i}", "text": KINDS[i % 4]} for i in range(40)]
LINKS = [(one["id"], PAGES[(i + 4 * j) % 40]["id"]) for i, one in enumerate(PAGES) for j in (1, 2, 3)]


QUICK = ("--steps", 1000)
READ = ("--ranker", "cosine")  # where what is read matters and not what is learned


@pytest.fixture
def pages(tmp_path):
    path = tmp_path / "pages.jsonl"
    path.write_text("".join(json.dumps(page) + "\n" for page in PAGES))
    return path


def write_links(path, pairs, header="source\ttarget\n"):
    path.parent.mkdir(exist_ok=True)
    path.write_text(header + "".join(f"{source}\t{target}\n" for source, target in pairs))
    return path


@pytest.mark.slow
def test_fit_takes_links_and_says_what_it_read(tmp_path, pages):
    links = write_links(tmp_path / "links.tsv", LINKS)
    said = ok("fit", pages, "--links", links, "-o", tmp_path / "model", *QUICK)
    assert f"{links}: CSV separated by tabs; source: source; target: target\n120 links of 40 documents" in said
    assert "AP" in said
    model = tc.load(tmp_path / "model")
    assert model.report.details.data["kind"] == "linked documents"
    texts = {page["id"]: f"{page['title']}\n{page['text']}" for page in PAGES}
    same = tc.fit_linked(texts, LINKS, options={"n_steps": 1000, "verbose": False})
    assert same.report.systems == model.report.systems


@pytest.mark.slow
def test_links_may_be_in_several_files_or_beside_texts(tmp_path, pages):
    files = [write_links(tmp_path / f"{part}.csv", LINKS[part::2]) for part in range(2)]
    said = ok("fit", pages, "--links", files[0], "--links", files[1], "-o", tmp_path / "model", *READ)
    assert "1.csv: CSV separated by tabs; source: source; target: target\n120 links of 40 documents" in said
    own = tmp_path / "own.jsonl"
    records = [{**page, "links": [target for source, target in LINKS if source == page["id"]]} for page in PAGES]
    own.write_text("".join(json.dumps(record) + "\n" for record in records))
    said = ok("fit", own, "--links", own, "-o", tmp_path / "model", "--replace", *READ)
    assert "source: id; target: links\n120 links of 40 documents" in said


@pytest.mark.slow
def test_links_to_unknown_documents_are_refused_or_counted(tmp_path, pages):
    links = write_links(tmp_path / "links.tsv", [*LINKS, ("p01", "elsewhere")])
    result = run("fit", pages, "--links", links, "-o", tmp_path / "model")
    assert result.exit_code == 1
    assert (
        f"{links}:122: document 'elsewhere' is not among the documents (here: --skip-bad N leaves out so many)"
        in result.output
    )
    said = ok("fit", pages, "--links", links, "--skip-bad", 1, "-o", tmp_path / "other", *READ)
    assert "1 bad row is left out" in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--field", "title"], "leave out --field"),
        (["--preferences", "LINKS"], "leave out --preferences"),
    ],
)
def test_options_that_links_have_no_use_for_are_refused(tmp_path, pages, options, message):
    links = write_links(tmp_path / "links.tsv", LINKS)
    options = [str(links) if option == "LINKS" else option for option in options]
    result = run("fit", pages, "--links", links, "-o", tmp_path / "model", *options)
    assert result.exit_code == 1
    assert message in result.output


@pytest.mark.slow
def test_columns_of_links_can_be_named(tmp_path, pages):
    links = write_links(tmp_path / "links.tsv", LINKS, header="page\tnext\n")
    result = run("fit", pages, "--links", links, "-o", tmp_path / "model")
    assert "Which columns hold the source and the target?" in result.output
    named = ["--column", "source=page", "--column", "target=next"]
    assert "120 links" in ok("fit", pages, "--links", links, *named, "-o", tmp_path / "model", *READ)
