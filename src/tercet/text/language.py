"""Guess the language of texts, and give the analyzer that suits it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import Final

from tercet.text.analyzer import Analyzer

N_TEXTS: Final = 300  # that are looked at
_LETTERS_OF_TEXT: Final = 1000
_FEWEST_WORDS: Final = 20  # fewest function words that identify a language other than English
_LEAST_SHARE: Final = 0.05  # least share of function words; running text has a quarter
_AHEAD: Final = 1.5  # least ratio of the language's function words to English function words
_WITHOUT_BLANKS_FROM: Final = 0.3  # share of the letters

# Chinese, Japanese, Thai, Lao, Khmer and Burmese are written without blanks between words.
_WITHOUT_BLANKS = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
_LETTER = re.compile(r"[^\W\d_]")
_WORD = re.compile(r"[^\W\d_]+")
# Alphabets that one Snowball algorithm stands for.
_ALPHABETS: Final = {
    "arabic": re.compile("[\u0600-\u06ff]"),
    "greek": re.compile("[\u0370-\u03ff]"),
    "hindi": re.compile("[\u0900-\u097f]"),
    "russian": re.compile("[\u0400-\u04ff]"),
    "tamil": re.compile("[\u0b80-\u0bff]"),
}
_FUNCTION_WORDS: Final = {
    "danish": "og i at det er en til på som af for med den ikke de der har et fra eller kan efter ved",
    "dutch": "de het een en van in is op te dat die voor met zijn niet aan er om als ook bij of wordt naar door uit",
    "english": "the of and to in is for that with on be as are this it or by from not an can at which if will you",
    "finnish": "ja on ei se että joka mutta tai myös ovat kun niin sekä hän voi jos kuin mukaan ole tämä oli sen",
    "french": "le la les de des et un une en du est dans pour que qui par sur au avec ne pas ce il ou plus cette sont",
    "german": "der die das und ist in zu den mit von für nicht ein eine auf im des dem als auch wird bei oder sich aus",
    "hungarian": "a az és egy hogy nem is van meg csak ez vagy de azt mint már ki fel kell volt még el ha nincs",
    "italian": "il di che la e un per del della una in con non sono i da le è al dei gli come nel alla si più anche",
    "norwegian": "og i det er en til på som av for med at ikke den de har et fra om kan eller etter ved ble også",
    "portuguese": "o de a que e do da em um para com não uma os no se na por mais as dos como ou ao das são pelo",
    "romanian": "și de la în pe cu o un nu este să din care pentru mai al ce sau ale fi sunt prin fost",
    "spanish": "el la de que y en los del las un por con una para es no se al lo como más o su sus este son si",
    "swedish": "och i att det är en som på för av med den till inte de har ett om kan eller från vid efter också",
    "turkish": "ve bir bu için ile da de olarak çok daha olan ya ne gibi kadar en sonra veya her değil ise göre",
}
_LANGUAGES_OF: Final[dict[str, list[str]]] = {}
for _language, _words in _FUNCTION_WORDS.items():
    for _word in _words.split():
        _LANGUAGES_OF.setdefault(_word, []).append(_language)


def usual_analyzer(texts: Iterable[str]) -> Analyzer:
    """Return the default analyzer: words reduced to the stems of their language, or pairs of characters.

    Pairs of characters are for languages written without blanks, such as Chinese.

    Examples
    --------
    >>> usual_analyzer(["green tea set"]).stemmer, usual_analyzer(["绿茶套装"]).tokenizer
    ('english', 'characters')
    """
    language = guess_language(texts)
    return Analyzer(tokenizer="characters") if language is None else Analyzer(stemmer=language)


def guess_language(texts: Iterable[str]) -> str | None:
    """Return the Snowball algorithm for the first texts, or None for a language written without blanks.

    Texts that show too few function words of any language, such as names of products, count as English.

    Examples
    --------
    >>> guess_language(["Der Drucker ist nicht mit dem Netz verbunden und druckt nicht."] * 5)
    'german'
    >>> guess_language(["green tea set"]), guess_language(["绿茶套装"])
    ('english', None)
    """
    seen: Counter[str] = Counter()
    n_words = n_letters = n_without_blanks = 0
    alphabets: Counter[str] = Counter()
    for text in islice(texts, N_TEXTS):
        sample = (
            text[:_LETTERS_OF_TEXT] if isinstance(text, str) else ""
        )  # the vectorizer raises the error for other types
        n_letters += len(_LETTER.findall(sample))
        n_without_blanks += len(_WITHOUT_BLANKS.findall(sample))
        if not sample.isascii():
            alphabets.update({name: len(letters.findall(sample)) for name, letters in _ALPHABETS.items()})
        words = _WORD.findall(sample.lower())
        n_words += len(words)
        for word in words:
            seen.update(_LANGUAGES_OF.get(word, ()))
    if n_without_blanks > _WITHOUT_BLANKS_FROM * n_letters:
        return None
    alphabet, letters = max(alphabets.items(), key=lambda item: item[1], default=("", 0))
    if 2 * letters > n_letters:
        return alphabet
    language, count = max(seen.items(), key=lambda item: item[1], default=("english", 0))
    return language if count >= max(_FEWEST_WORDS, _LEAST_SHARE * n_words, _AHEAD * seen["english"]) else "english"
