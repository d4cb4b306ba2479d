"""Which articles a text mentions by title."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reproductions.readers import find_mentions


def mentioned(text: str, *titles: str) -> list[str]:
    """The titles a text mentions that has a title of its own, "Home Page"."""
    links = find_mentions([text, *[""] * len(titles)], ["Home Page", *titles])
    assert links.dtype == np.int64
    assert set(links[:, 0]) <= {0}
    return [titles[to - 1] for to in links[:, 1]]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("He saw Fuji Musume there", "Fuji Musume (Wisteria Maiden)"),
        ("He saw Fuji\n  Musume, there", "Fuji Musume"),
        ("Sesshu's ink", "Sesshu"),
        ("the Tale of Genji.", "The Tale of Genji"),
        ("the Kyogoku clan (of Omi)", "the Kyogoku clan"),
        ("(Kabuki)", '"Kabuki"'),
        ("a Kabuki Dance here", "\"The 'Kabuki Dance'\" (a dance)"),
        ("at To-ji Temple", "To-ji Temple (Kyoto (city))"),
        ("Mt. Hiei is high", "Mt. Hiei"),
        ("sake brewing control was lifted", "sake brewing control"),
    ],
)
def test_finds(text, title):
    assert mentioned(text, title) == [title]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Sesshus and unSesshu", "Sesshu"),
        ("Sesshu-like", "Sesshu"),
        ("To-ji-machi", "To-ji Temple"),
        ("kyoto KYOTO", "Kyoto"),
        ("He left Kyoto. University followed", "Kyoto University"),
        ("Kyoto, University", "Kyoto University"),
        ("Zen is old", "Zen"),
        ("a kayu bowl", "kayu"),
        ("Together with There", "There"),
        ("100-yen coins 1868", "1868"),
        ("a Home Page", "Home"),
        ("", "Kyoto"),
        ("( )", "( )"),
        ("anything", ""),
    ],
)
def test_does_not_find(text, title):
    assert mentioned(text, title) == []


def test_a_hyphenated_word_is_one_word():
    assert mentioned("Zenrin-ji", "Zenrin") == []
    assert mentioned("Zenrin-ji", "Zenrin-ji") == ["Zenrin-ji"]


def test_the_longest_title_counts_and_covers_its_words():
    titles = ("Kyoto", "Kyoto University", "Kyoto University Library", "University Library Hall", "Library Hall")
    assert mentioned("Kyoto University Library Hall", *titles) == ["Kyoto University Library"]
    assert mentioned("Kyoto University Hall", *titles) == ["Kyoto University"]
    assert mentioned("Kyoto University Library, Kyoto", *titles) == ["Kyoto", "Kyoto University Library"]


def test_shared_titles_link_nothing_and_still_cover():
    titles = ("Matsuo Temple (Kyoto)", "Matsuo Temple (Nara)", "Matsuo", "Matsuo Temple")
    assert mentioned("Matsuo Temple", *titles) == []
    assert mentioned("Matsuo Temple of Matsuo", *titles) == ["Matsuo"]


def test_an_article_does_not_mention_itself_nor_what_its_title_holds():
    links = find_mentions(["Kyoto Tower is in Kyoto City", "Kyoto City and Kyoto City"], ["Kyoto Tower", "Kyoto City"])
    assert links.tolist() == [[0, 1]]
    assert find_mentions(["Kyoto Tower"] * 2, ["Kyoto Tower", "Kyoto"]).tolist() == [[1, 0]]


def test_no_articles_have_no_links():
    assert find_mentions([], []).shape == (0, 2)


TOKENS = st.sampled_from(["Ada", "Bede", "Cato", "Dido", "eel", ","])


def slowly(texts: list[list[str]], titles: list[list[str]]) -> set[tuple[int, int]]:
    """The same by comparing every title at every place."""
    usable = {}
    for at, title in enumerate(titles):
        if len(title) == 1 and (len(title[0]) < 4 or title[0].islower()):
            continue
        usable[tuple(title)] = -1 if titles.count(title) > 1 else at
    links = set()
    for i, text in enumerate(texts):
        at = 0
        while at < len(text):
            here = [title for title in usable if tuple(text[at : at + len(title)]) == title]
            best = max(here, key=len, default=None)
            at += len(best) if best else 1
            if best and usable[best] not in (i, -1):
                links.add((i, usable[best]))
    return links


@settings(deadline=None, max_examples=50)
@given(st.data())
def test_equals_the_slow_way(data):
    n = data.draw(st.integers(1, 6))
    texts = data.draw(st.lists(st.lists(TOKENS, max_size=15), min_size=n, max_size=n))
    words = st.lists(TOKENS.filter(str.isalpha), min_size=1, max_size=3)
    titles = data.draw(st.lists(words, min_size=n, max_size=n))
    found = find_mentions([" ".join(text) for text in texts], [" ".join(title) for title in titles])
    assert list(map(tuple, found.tolist())) == sorted(slowly(texts, titles))
