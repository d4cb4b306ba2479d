"""HTML in texts: what is a tag and what is not."""

import html
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tercet as tc
from tercet.store.codec import decode, encode
from tercet.text.counting import CountedTexts
from tercet.text.markup import plain_text

analyze = tc.Analyzer(pattern=r"\w+")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("foo<br>bar<BR/>baz", "foo bar baz"),
        ("<p>un<b>believ</b>able</p><ul><li>one<li>two</ul>", "unbelievable one two"),
        ("<td>1</td><td>2</td><a href=x>Home</a><a href='y>z'>About</a>", "1 2 home about"),
        ("<style>p {color: red}</style><script src=a>if (a<b) c()</script>text", "text"),
        ("seen <!-- hidden <b>too</b> --> again", "seen again"),
        ("<!DOCTYPE html><html><head><title>Tea</title></head><body>R&amp;D caf&eacute;</body>", "tea r d café"),
        ("<p title='a > b' class=it's>quoted", "quoted"),
        ("&lt;b&gt; is bold", "b is bold"),
    ],
)
def test_html_is_no_word(text, words):
    assert analyze(text) == words.split()


@pytest.mark.parametrize(
    "text",
    [
        "a < b and c > d",
        "x<y and y>z",
        "if a <b and c=5 or d> e",
        "std::vector<int> and List<Map>",
        "cp <source> <target>",
        "mail <ann@example.org> or <https://example.org/a>",
        "an open <!-- and an open <script> stay",
        "?lang=en&region=de&copy=1 AT&T &bogus;",
    ],
)
def test_what_only_looks_like_html_keeps_its_words(text):
    assert plain_text(text) == text


@given(st.text())
def test_text_without_tags_and_entities_stays(text):
    text = text.replace("<", "").replace("&", "")
    assert plain_text(text) == text
    assert plain_text(html.escape(text)) == text


names = st.sampled_from(["p", "b", "script", "style", "title", "td", "int", "Map", "!--", "/p", "/b", "/script", "--"])
pieces = st.one_of(
    names, st.sampled_from(["<", ">", '"', "'", "=", "/", " ", "&", ";", "&#", "&lt;", "word"]), st.text()
)


@given(st.lists(pieces).map("".join))
def test_any_text_is_read(text):
    words = tc.Analyzer()(text)
    assert all(isinstance(word, str) for word in words)


@given(st.lists(st.sampled_from(["word", "tea", "x9"]), min_size=1), st.sampled_from(["p", "div", "h1", "td", "SPAN"]))
def test_words_between_tags_are_found(words, name):
    text = "".join(f'<{name} class="a">{word}</{name}>' for word in words)
    assert analyze(text) == words


def test_every_way_to_tokenize_removes_html():
    texts = ["<p>green tea</p>", "tea &amp; cake", "<b>tea</b>"]
    kept = tc.Analyzer(html=False)
    assert kept("<div>tea</div>") == ["div", "tea", "div"]
    for analyzer in (tc.Analyzer(stemmer="english"), kept):
        listed, counted = (tc.Vectorizer(analyzer=analyzer).fit(one) for one in (texts, CountedTexts(texts)))
        assert listed.words_ == counted.words_
        assert ("amp" in listed.words_) == (not analyzer.html)
    assert tc.Analyzer(tokenizer="characters")("<p>東京都</p>") == ["東京", "京都"]


def test_analyzers_saved_before_html_was_removed_keep_it():
    meta, _ = encode(tc.Analyzer())
    assert meta.pop("html")
    assert decode(tc.Analyzer, meta) == tc.Analyzer(html=False)
    assert encode(tc.Analyzer(html=False))[0] == meta
    assert decode(tc.Analyzer, encode(tc.Analyzer())[0]) == tc.Analyzer()


@pytest.mark.slow
@pytest.mark.parametrize("piece", ["<!--", "<script>", '<a "', "<a b='", "<p =", "</p ", "&#", "&amp"])
def test_time_is_linear(piece):
    def seconds(n: int) -> float:
        start = time.process_time()
        plain_text(piece * n)
        return time.process_time() - start

    assert seconds(400_000) < 20 * min(seconds(40_000) for _ in range(3)) + 0.1
