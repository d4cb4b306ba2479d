"""Texts without blanks: Japanese words and character n-grams."""

from __future__ import annotations

import copy
import json
import re
import sys
from unicodedata import normalize

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet._installed import install_command
from tercet.cli.main import cli
from tercet.errors import DamagedBundleError, MissingExtraError, ParameterError
from tercet.store.codec import decode, encode
from tercet.text import Analyzer, Vectorizer
from tercet.text import japanese as japanese_words


@pytest.fixture(scope="module")
def japanese() -> Analyzer:
    pytest.importorskip("fugashi")
    pytest.importorskip("unidic_lite")
    return Analyzer(tokenizer="japanese")


class TestWords:
    def test_is_the_default_and_saved_as_before(self):
        assert Analyzer() == Analyzer(tokenizer="words")
        assert encode(Analyzer(tokenizer="words"))[0] == {
            "lowercase": True,
            "pattern": r"(?u)\b\w\w+\b",
            "stop_words": None,
            "stemmer": None,
            "ngrams": [1, 1],
            "html": True,
        }
        assert decode(Analyzer, {**encode(Analyzer())[0], "tokenizer": "words"}) == Analyzer()

    def test_an_unknown_cut_is_refused(self):
        with pytest.raises(
            ParameterError, match=r"The 'tokenizer' parameter of Analyzer must be one of 'words', 'japanese'"
        ):
            Analyzer(tokenizer="klingon")
        with pytest.raises(DamagedBundleError, match="tokenizer"):
            decode(Analyzer, {**encode(Analyzer())[0], "tokenizer": 3})


class TestCharacters:
    @pytest.mark.parametrize(
        ("text", "terms"),
        [
            ("東京都", ["東京", "京都"]),
            ("東京、京都", ["東京", "京都"]),
            ("禅 寺院", ["禅", "寺院"]),
            ("コーヒー・時々_人々", ["コー", "ーヒ", "ヒー", "時々", "人々"]),
            ("ＡＢｃ ﾃﾞｼﾞ １２", ["ab", "bc", "デジ", "12"]),
            ("、。（）　\n", []),
            ("", []),
        ],
    )
    def test_bigrams_within_runs_of_letters(self, text, terms):
        assert Analyzer(tokenizer="characters")(text) == terms

    def test_ngrams_count_characters(self):
        assert Analyzer(tokenizer="characters").ngrams == (2, 2)
        assert Analyzer(tokenizer="characters", ngrams=(1, 1))("東京 A") == ["東", "京", "a"]
        assert Analyzer(tokenizer="characters", ngrams=(1, 3))("東京") == ["東", "京", "東京"]
        assert Analyzer(tokenizer="characters", ngrams=(3, 3), lowercase=False)("Kyoto 京") == [
            "Kyo",
            "yot",
            "oto",
            "京",
        ]

    @pytest.mark.parametrize(
        ("name", "value"), [("pattern", r"\S+"), ("stemmer", "english"), ("stop_words", "english"), ("stop_words", [])]
    )
    def test_refuses_what_belongs_to_words(self, name, value):
        with pytest.raises(ParameterError, match=rf"The '{name}' parameter .* with tokenizer='characters'"):
            Analyzer(tokenizer="characters", **{name: value})

    def test_round_trip_and_copy(self):
        analyzer = Analyzer(tokenizer="characters", ngrams=(1, 2))
        meta = json.loads(json.dumps(encode(analyzer)[0]))
        assert meta["tokenizer"] == "characters"
        assert decode(Analyzer, meta) == analyzer == copy.deepcopy(analyzer)
        assert analyzer != Analyzer(ngrams=(1, 2))

    def test_a_vectorizer_takes_it(self):
        vectorizer = Vectorizer(analyzer=Analyzer(tokenizer="characters")).fit(["東京都", "京都府"])
        assert vectorizer.words_ == ["京都", "東京", "都府"]

    @settings(deadline=None, max_examples=50)
    @given(st.text(), st.integers(1, 3), st.integers(0, 2))
    def test_every_letter_is_in_a_term_and_every_term_in_the_text(self, text, fewest, more):
        normal = normalize("NFKC", text).lower()
        terms = Analyzer(tokenizer="characters", ngrams=(fewest, fewest + more))(text)
        assert all(term in normal and term.isalnum() for term in terms)
        assert set("".join(terms)) == {letter for letter in normal if letter.isalnum()}
        assert all(len(term) <= fewest + more for term in terms)


class TestJapanese:
    def test_words_in_base_form_without_marks(self, japanese):
        assert japanese("京都で走った。") == ["京都", "で", "走る", "た"]
        assert japanese("美しかった「寺」、１４２０年　ＡＢＣ Kyoto!") == [
            *("美しい", "た", "寺", "1420", "年", "abc", "kyoto"),
        ]
        assert japanese("") == japanese(" 。\n\n") == []

    def test_case_stop_words_and_ngrams(self, japanese):
        assert Analyzer(tokenizer="japanese", lowercase=False)("Kyoto") == ["Kyoto"]
        assert Analyzer(tokenizer="japanese", stop_words=["の", "KYOTO"])("Kyotoの寺") == ["寺"]
        assert Analyzer(tokenizer="japanese", ngrams=(1, 2))("寺の門") == ["寺", "の", "門", "寺 の", "の 門"]

    def test_lines_are_cut_one_by_one(self, japanese):
        assert japanese("東\n京都") == [*japanese("東"), *japanese("京都")] != japanese("東京都")

    def test_round_trip_and_copy_after_use(self, japanese):
        japanese("寺")
        assert decode(Analyzer, json.loads(json.dumps(encode(japanese)[0]))) == japanese
        assert copy.deepcopy(japanese)("寺の門") == ["寺", "の", "門"]

    @pytest.mark.parametrize(("name", "value"), [("pattern", r"\S+"), ("stemmer", "english")])
    def test_refuses_what_belongs_to_words(self, name, value):
        with pytest.raises(ParameterError, match=rf"The '{name}' parameter .* with tokenizer='japanese'"):
            Analyzer(tokenizer="japanese", **{name: value})

    @pytest.mark.parametrize("package", ["fugashi", "unidic_lite"])
    def test_missing_extra_says_what_to_install(self, monkeypatch, package):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(MissingExtraError, match=re.escape(install_command("ja"))):
            Analyzer(tokenizer="japanese")

    def test_what_the_tagger_cannot_take_separates_words(self, japanese):
        assert japanese("寺\0門\ud800寺") == ["寺", "門", "寺"]

    @pytest.mark.slow
    def test_a_long_line_is_cut_at_marks(self, japanese, monkeypatch):
        line = "京都の寺を見た。" * 3000
        assert len(line) > 2 * japanese_words.LONGEST_PIECE
        assert japanese(line) == japanese("京都の寺を見た。") * 3000
        # Beyond some 100,000 letters without a break the tagger itself would end the process.
        words = japanese("x" * 150_000)
        assert "".join(words) == "x" * 150_000

    @settings(deadline=None, max_examples=50)
    @given(text=st.text(st.one_of(st.characters(), st.sampled_from("京都寺でのを走ったａA1。、 \n"))))
    def test_any_text_gives_words_that_hold_letters(self, japanese, text):
        words = japanese(text)
        assert words == japanese(text)
        assert all(any(map(str.isalnum, word)) and "\n" not in word for word in words)


class TestCommandLine:
    @pytest.fixture
    def folder(self, tmp_path):
        topics = {"寺": "京都の古い寺院と僧侶の歴史", "駅": "電車の駅と路線の運行時刻"}
        for name, text in topics.items():
            (tmp_path / "data" / name).mkdir(parents=True)
            for number in range(12):
                (tmp_path / "data" / name / f"{number}.txt").write_text(f"{text}第{number}番", encoding="utf-8")
        return tmp_path

    @pytest.mark.slow
    def test_fit_takes_the_cut(self, folder):
        model = folder / "model"
        done = CliRunner().invoke(
            cli, ["fit", str(folder / "data"), "-o", str(model), "--language", "characters", "--steps", "100"]
        )
        assert done.exit_code == 0, done.output
        related = CliRunner().invoke(cli, ["explain", str(model), "--word", "京都"])
        assert related.exit_code == 0, related.output

    def test_an_unknown_language_is_refused(self, folder):
        arguments = ["fit", str(folder / "data"), "-o", str(folder / "model"), "--language", "klingon"]
        done = CliRunner().invoke(cli, arguments)
        assert done.exit_code == 1
        assert "The 'stemmer' parameter of Analyzer must be" in done.output
