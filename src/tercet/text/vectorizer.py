"""From words to vectors, weighted as tf-idf or as BM25."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tercet._lazy import sparse
from tercet._validate import did_you_mean, is_integer, is_number, wrong_parameter
from tercet.errors import DamagedBundleError, InputError, ParameterError
from tercet.kernels.rows import QueryRow
from tercet.store.codec import decode, encode
from tercet.store.schema import OMIT_DEFAULT, Bounds, Shape
from tercet.store.strings import PackedStrings
from tercet.text.analyzer import Analyzer
from tercet.text.counting import CountedTexts, SumByBlocks, WordCollector, WordCounts, count_words
from tercet.text.estimator import TextEstimator, check_fitted

_PLAIN = Analyzer()
_PARAMETERS = ("weighting", "max_features", "min_df", "max_df", "sublinear_tf", "k1", "b", "idf_power")


class AddedWords(NamedTuple):
    """Words added after fitting, and their document frequencies in the documents that brought them."""

    words: list[str]
    frequency: NDArray[np.int64]  # (n_words,)


@dataclass(frozen=True, kw_only=True, eq=False)
class _SavedVectorizer:
    """Saved parameters and state of a vectorizer; words as bytes and offsets."""

    analyser: Analyzer  # spelled as in earlier files: fingerprints of vectorizers depend on the name
    weighting: str
    max_features: int | None
    min_df: int | float
    max_df: int | float
    sublinear_tf: bool
    k1: int | float
    b: int | float
    idf_power: int | float
    n_docs: Annotated[int, Bounds(least=1)]
    mean_length: Annotated[float, Bounds(above=0)]
    doc_scale: Annotated[float, Bounds(above=0)]
    words: NDArray[np.uint8]
    word_offsets: NDArray[np.int64]
    document_frequency: Annotated[NDArray[np.int64], Shape(None, bounds=Bounds(least=0))]
    n_added: Annotated[int, Bounds(least=0), OMIT_DEFAULT] = 0

    def __post_init__(self) -> None:
        n_words = len(self.word_offsets) - 1
        if len(self.document_frequency) != n_words or self.document_frequency.max(initial=0) > self.n_docs:
            raise InputError(f"'document_frequency' is not a number up to {self.n_docs} for each of {n_words} words")


class Vectorizer(TextEstimator):
    """Turns texts into the rows of a sparse matrix with one column per word, words in alphabetical order.

    Words added by `grow` are last, in the order of first sight.

    ``"tfidf"`` gives queries and documents alike ``tf * (log((1 + n) / (1 + df)) + 1)``, scaled to unit length: the
    numbers
    of scikit-learn's `TfidfVectorizer`. ``"bm25"`` shares BM25 out between the two sides: the inner product of a
    query and
    a document is their BM25 score times a positive factor of the query alone. Documents then have length about 1, and
    queries length 1.

    Parameters
    ----------
    analyzer : splits texts into words; None for ``Analyzer()``
    weighting : ``"tfidf"`` or ``"bm25"``
    max_features : number of words to keep, the most frequent; None for all
    min_df, max_df : fewest and most documents with a word; a float is a share of the documents
    sublinear_tf : for tf-idf, use ``1 + log(count)`` instead of the count
    k1, b : of BM25, the saturation of repeated words and the correction for length
    idf_power : for BM25, the query takes ``idf ** idf_power`` and the document the rest

    Attributes
    ----------
    words_ : the word of each column
    index_ : the column of each word
    n_docs_ : number of documents in fitting
    document_frequency_ : number of these documents with each word, int64 of shape (n_words,); 0 for words of queries
        only
    mean_length_ : mean number of words in a document after analysis, words without a column included
    doc_scale_ : divisor of BM25 document rows; 1 for tf-idf
    n_features_in_ : the number of columns
    n_added_ : the number of words added by `grow`

    Notes
    -----
    Time is linear in the total length of the texts, about that of scikit-learn's vectorizer.

    Examples
    --------
    >>> texts = ["green avocado", "green eyes"]
    >>> vectorizer = Vectorizer(weighting="bm25").fit(texts)
    >>> vectorizer.words_
    ['avocado', 'eyes', 'green']
    >>> Q, D = vectorizer.transform_queries(["avocado"]), vectorizer.transform_docs(texts)
    >>> (Q @ D.T).toarray().round(2)
    array([[0.89, 0.  ]], dtype=float32)
    """

    # What reads documents with columns: `FieldedVectorizer`, a vectorizer itself, which puts itself here.
    _of_columns: ClassVar[type[Vectorizer]]

    words_: list[str]
    index_: dict[str, int]
    n_docs_: int
    document_frequency_: NDArray[np.int64]
    mean_length_: float
    doc_scale_: float
    n_features_in_: int
    n_added_: int = 0
    _kept_idf: tuple[tuple[Any, ...], NDArray[np.float64]] | None = None

    def __init__(
        self,
        *,
        analyzer: Analyzer | None = None,
        weighting: str = "tfidf",
        max_features: int | None = None,
        min_df: int | float = 1,
        max_df: int | float = 1.0,
        sublinear_tf: bool = True,
        k1: float = 0.9,
        b: float = 0.4,
        idf_power: float = 0.5,
    ) -> None:
        self.analyzer = analyzer
        self.weighting = weighting
        self.max_features = max_features
        self.min_df = min_df
        self.max_df = max_df
        self.sublinear_tf = sublinear_tf
        self.k1 = k1
        self.b = b
        self.idf_power = idf_power
        self._check_parameters()

    def fit(self, texts: Iterable[str], y: None = None, *, queries: Iterable[str] = ()) -> Vectorizer:
        """Learn the words and their weights from documents.

        Words of `queries` get a column too: they match no document by themselves, but a ranker can learn related
        document words.
        """
        self.fit_counts(texts, queries)
        return self

    def fit_transform_docs(self, texts: Iterable[str], *, queries: Iterable[str] = ()) -> sparse.csr_array:
        """Fit, and return the rows of the same texts; texts are analyzed once."""
        return self.doc_rows(self.fit_counts(texts, queries))

    def transform_docs(self, texts: Iterable[str]) -> sparse.csr_array:
        """Rows for documents, CSR float32 (n_texts, n_words); empty for a text without known words."""
        return self.doc_rows(self.counts(texts))

    def transform_queries(self, texts: Iterable[str]) -> sparse.csr_array:
        """Rows for queries, CSR float32 (n_texts, n_words); empty for a text without known words."""
        return self.query_rows(self.counts(texts))

    # -- words that come later ----------------------------------------------------------------------------------

    @property
    def can_grow(self) -> bool:
        """True if every word of the fitted documents has a column: then new words get columns, too."""
        keeps_all = self.max_features is None and self.max_df == 1.0 and not is_integer(self.max_df)
        return type(self) is Vectorizer and keeps_all and is_integer(self.min_df) and self.min_df == 1

    def grow(self, texts: Iterable[str]) -> tuple[Vectorizer, sparse.csr_array]:
        """Add columns for the new words of documents, and return the rows of these documents.

        Existing columns and weights stay. The idf of a new word has its frequency in these documents, among as many
        documents as in fitting, and stays.

        Returns
        -------
        A vectorizer with the new words, or itself without new words; and rows as of its `transform_docs`.

        Examples
        --------
        >>> vectorizer = Vectorizer(weighting="bm25").fit(["green avocado", "green eyes"])
        >>> grown, D = vectorizer.grow(["green guava"])
        >>> grown.words_, D.indices.tolist()
        (['avocado', 'eyes', 'green', 'guava'], [2, 3])
        """
        check_fitted(self, "words_")
        column_of: defaultdict[str, int] = defaultdict(None, self.index_)
        column_of.default_factory = column_of.__len__  # a new word gets the next column
        counts = count_words(self._checked(texts), self._analyzer(), column_of.__getitem__)
        n_known = len(self.words_)
        words = list(islice(column_of, n_known, None))
        if not words:
            return self, self.doc_rows(counts)
        _check_encodable(words)
        frequency = np.bincount(counts.column[counts.column >= n_known] - n_known, minlength=len(words))
        grown = self.with_added(AddedWords(words, np.minimum(frequency, self.n_docs_).astype(np.int64)))
        return grown, grown.doc_rows(counts)

    @property
    def added(self) -> AddedWords:
        """Words added by `grow`, with their document frequencies."""
        n_fitted = len(self.words_) - self.n_added_
        return AddedWords(self.words_[n_fitted:], self.document_frequency_[n_fitted:])

    def with_added(self, more: AddedWords) -> Vectorizer:
        """Return the same vectorizer with more words appended."""
        return self._with_words(
            [*self.words_, *more.words],
            np.concatenate([self.document_frequency_, more.frequency]),
            self.n_added_ + len(more.words),
        )

    def as_fitted(self) -> Vectorizer:
        """Return the same vectorizer without the words added by `grow`."""
        if not self.n_added_:
            return self
        n_fitted = len(self.words_) - self.n_added_
        return self._with_words(self.words_[:n_fitted], self.document_frequency_[:n_fitted], 0)

    def _with_words(self, words: list[str], frequency: NDArray[np.int64], n_added: int) -> Vectorizer:
        vectorizer = copy(self)
        vectorizer.remember(words, frequency, self.n_docs_, self.mean_length_, self.doc_scale_, n_added)
        return vectorizer

    # -- reading words ------------------------------------------------------------------------------------------

    def unknown_words(self, text: str) -> list[str]:
        """Return the words of a text without a column, each once, in order and spelling of the text; no stop words."""
        return list(self.query(text)[1])

    def query(self, text: str) -> tuple[QueryRow, tuple[str, ...]]:
        """Return the row of a text as of `transform_queries`, without SciPy, and its `unknown_words`.

        Examples
        --------
        >>> row, unknown = Vectorizer().fit(["green avocado"]).query("green guava")
        >>> row.indices.tolist(), unknown
        ([1], ('guava',))
        """
        check_fitted(self, "words_")
        analyzer, column_of = self._analyzer(), self.index_
        terms = analyzer(text if isinstance(text, str) else next(self._checked([text])))
        times: dict[int, int] = {}
        n_known = 0
        for term in terms:
            if (column := column_of.get(term)) is not None:
                times[column] = times.get(column, 0) + 1
                n_known += 1
        unknown: tuple[str, ...] = ()
        if n_known < len(terms):
            # Stemming keeps the number and the order of words: both lists are parallel.
            typed = zip(analyzer.unstemmed(text), terms, strict=True)
            unknown = tuple(dict.fromkeys([word for word, term in typed if term not in column_of]))
        listed = sorted(times)
        columns = np.array(listed, dtype=np.int32)
        values = self._query_idf()[columns]
        if n_known > len(times):
            counts = np.array([times[column] for column in listed], dtype=np.float64)
            values = self._frequency_weights(counts) * values
        squared = 0.0
        for value in values.tolist():  # the order of the columns, as in a matrix of queries
            squared += value * value
        if squared:
            values /= math.sqrt(squared)
        return QueryRow(np.array([0, columns.size]), columns, values.astype(np.float32), len(self.words_)), unknown

    def spelt_like(self, word: str) -> str:
        """Return the end of a message about an unknown word, with the most similar known word."""
        return did_you_mean(word, (candidate for candidate in self.words_ if candidate[:1] == word[:1]))

    def described(self, column: int, value: float | None = None) -> str:
        """Return the word of a column."""
        return self.words_[column]

    def stop_words_in(self, text: str) -> list[str]:
        """Return the stop words of a text, each once, in order.

        Examples
        --------
        >>> Vectorizer(analyzer=Analyzer(stop_words="english")).stop_words_in("The best of the avocados")
        ['the', 'of']
        """
        analyze = self._analyzer()
        if analyze.stop_words is None or analyze.tokenizer != "words":
            return []
        analyze = replace(analyze, stemmer=None, ngrams=(1, 1))
        remaining = set(analyze(text))
        return [word for word in dict.fromkeys(replace(analyze, stop_words=None)(text)) if word not in remaining]

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the learned state as JSON values and arrays.

        Examples
        --------
        >>> vectorizer = Vectorizer().fit(["green avocado", "green eyes"])
        >>> Vectorizer.from_state(*vectorizer.to_state()).words_
        ['avocado', 'eyes', 'green']
        """
        check_fitted(self, "words_")
        parameters = {name: getattr(self, name) for name in _PARAMETERS}
        learned = {name: getattr(self, f"{name}_") for name in ("n_docs", "mean_length", "doc_scale")}
        words = PackedStrings.pack(self.words_)
        saved = _SavedVectorizer(
            analyser=self._analyzer(),
            **parameters,
            **learned,
            words=words.letters,
            word_offsets=words.starts,
            document_frequency=self.document_frequency_,
            n_added=self.n_added_,
        )
        return encode(saved)

    @classmethod
    def from_state(cls, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Vectorizer:
        """Return the vectorizer of a state; raise `DamagedBundleError` for a bad state."""
        if cls is Vectorizer and "numbers" in meta:
            return cls._of_columns.from_state(meta, arrays)
        saved = decode(_SavedVectorizer, meta, arrays, where="vectorizer")
        try:
            vectorizer = cls(analyzer=saved.analyser, **{name: getattr(saved, name) for name in _PARAMETERS})
        except ParameterError as error:
            raise DamagedBundleError(f"saved vectorizer: {error}") from error
        words = _saved_words(PackedStrings(saved.words, saved.word_offsets), saved.n_added)
        frequency = saved.document_frequency.copy()
        vectorizer.remember(words, frequency, saved.n_docs, saved.mean_length, saved.doc_scale, saved.n_added)
        return vectorizer

    def fit_counts(self, texts: Iterable[str], queries: Iterable[str] = ()) -> WordCounts:
        """Fit, and return the word counts of the same texts, for `doc_rows`."""
        self._check_parameters()
        collector = WordCollector()
        counted = texts.words(self._analyzer()) if isinstance(texts, CountedTexts) else None
        counts = self.count(collector, texts) if counted is None else collector.take(*counted)
        columns = self.settle(collector, queries)
        counts = counts.moved(columns)
        self.settle_scale([counts])
        return counts

    def count(self, collector: WordCollector, texts: Iterable[str], only_words: bool = False) -> WordCounts:
        """Count the words of texts; with ``only_words`` texts such as queries only add words."""
        return (collector.see if only_words else collector.count)(self._checked(texts), self._analyzer())

    def adopt(self, other: Vectorizer, counts: WordCounts) -> Vectorizer:
        """Take the words of a vectorizer fitted on texts with these counts; weights are learned anew."""
        self.remember(other.words_, other.document_frequency_, other.n_docs_, other.mean_length_, 1.0, other.n_added_)
        self.settle_scale([counts])
        return self

    def settle(self, collector: WordCollector, queries: Iterable[str] = ()) -> NDArray[np.int64]:
        """Choose words from the words of all documents, and learn their weights; `settle_scale` comes next.

        Parameters
        ----------
        collector : with the counts of all documents
        queries : texts whose words get columns, too

        Returns
        -------
        The column of each of the collector's words, by its number; -1 for words without a column.
        """
        self._check_parameters()
        if collector.n_texts == 0:
            raise InputError("texts is empty; fitting needs at least one text")
        n_in_docs = len(collector.texts_with)
        if not n_in_docs:
            raise InputError(f"fitting needs words, but {self._analyzer()} found none in the {collector.n_texts} texts")
        numbers = collector.numbers
        self.count(collector, queries, only_words=True)
        words = sorted(islice(numbers, n_in_docs))
        number = np.array([numbers[word] for word in words])
        frequency = collector.texts_with[number]
        selected = self._kept(frequency, collector.times[number], collector.n_texts)
        frequency_of = {words[i]: int(frequency[i]) for i in selected}
        frequency_of |= dict.fromkeys(islice(numbers, n_in_docs, None), 0)
        chosen = sorted(frequency_of)
        _check_encodable(chosen)
        column = dict(zip(chosen, range(len(chosen)), strict=True))
        frequencies = np.array([frequency_of[word] for word in chosen], dtype=np.int64)
        self.remember(chosen, frequencies, collector.n_texts, collector.n_words / collector.n_texts, 1.0)
        return np.array([column.get(word, -1) for word in numbers], dtype=np.int32)

    def settle_scale(self, counts: Iterable[WordCounts]) -> None:
        """Learn the divisor of BM25 rows, from the counts of all documents by column."""
        if self.weighting == "bm25":
            lengths = SumByBlocks()
            for block in counts:
                lengths.add(_row_lengths(self._bm25_rows(block)))
            self.doc_scale_ = lengths.total / self.n_docs_

    def _kept(self, frequency: NDArray[np.int64], totals: NDArray[np.float64], n_docs: int) -> NDArray[np.int64]:
        """Return the columns kept by min_df, max_df and max_features, in order."""
        fewest = self.min_df if is_integer(self.min_df) else self.min_df * n_docs
        most = self.max_df if is_integer(self.max_df) else self.max_df * n_docs
        selected = np.flatnonzero((frequency >= fewest) & (frequency <= most))
        if len(selected) == 0:
            raise InputError(
                f"min_df={self.min_df!r} and max_df={self.max_df!r} leave no word: words occur in "
                f"{frequency.min()} to {frequency.max()} of the {n_docs} texts"
            )
        if self.max_features is not None and len(selected) > self.max_features:
            # The default sort is not stable; the same sort as in scikit-learn is needed for the same ties.
            selected = np.sort(selected[(-totals[selected]).argsort()[: self.max_features]])
        return selected

    def remember(
        self,
        words: list[str],
        frequency: NDArray[np.int64],
        n_docs: int,
        mean_length: float,
        doc_scale: float,
        n_added: int = 0,
    ) -> None:
        """Take words and their statistics as learned."""
        self.n_added_ = n_added
        self.words_ = words
        self.index_ = dict(zip(words, range(len(words)), strict=True))
        self.document_frequency_ = frequency
        self.n_docs_ = n_docs
        self.mean_length_ = mean_length
        self.doc_scale_ = doc_scale
        self.n_features_in_ = len(words)

    def counts(self, texts: Iterable[str]) -> WordCounts:
        """Return the word counts of texts, for `doc_rows` and `query_rows`."""
        check_fitted(self, "words_")
        column_of = self.index_.get
        if isinstance(texts, CountedTexts) and (counted := texts.words(self._analyzer())) is not None:
            words, counts = counted
            return counts.moved(np.array([column_of(word, -1) for word in words], dtype=np.int64))
        return count_words(self._checked(texts), self._analyzer(), lambda term: column_of(term, -1))

    def _checked(self, texts: Iterable[str]) -> Iterator[str]:
        if isinstance(texts, (str, bytes, Mapping)):
            hint = "list(texts.values())" if isinstance(texts, Mapping) else "[text]"
            raise InputError(f"texts must be a sequence of strings, found {type(texts).__name__}; pass {hint}")
        for number, text in enumerate(texts):
            if not isinstance(text, str):
                raise InputError(f"texts[{number}] must be a string, found {type(text).__name__}")
            yield text

    def _analyzer(self) -> Analyzer:
        return _PLAIN if self.analyzer is None else self.analyzer

    @property
    def idf_(self) -> NDArray[np.float64]:
        """Inverse document frequency of each word, by the weighting."""
        check_fitted(self, "words_")
        return self._idf(self.document_frequency_)

    def _idf(self, df: NDArray[np.int64]) -> NDArray[np.float64]:
        n = self.n_docs_
        if self.weighting == "tfidf":
            return np.log((1 + n) / (1 + df)) + 1
        return np.log1p((n - df + 0.5) / (df + 0.5))

    def _frequency_weights(self, times: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weights of words by their number of occurrences in a query."""
        return np.log(times) + 1 if self.weighting == "tfidf" and self.sublinear_tf else times

    def _query_idf(self) -> NDArray[np.float64]:
        """Return the share of the idf that queries take, of each word; kept from query to query."""
        settings = self.weighting, self.idf_power, self.document_frequency_
        if self._kept_idf is None or any(a is not b for a, b in zip(settings, self._kept_idf[0], strict=True)):
            power = self.idf_power if self.weighting == "bm25" else 1.0
            self._kept_idf = settings, self._idf(self.document_frequency_) ** power
        return self._kept_idf[1]

    def query_rows(self, counts: WordCounts) -> sparse.csr_array:
        """Return the rows of `transform_queries` for counts by column."""
        rows = counts.rows(len(self.words_))
        rows.data = self._frequency_weights(rows.data) * self._query_idf()[rows.indices]
        return _finished(_unit_rows(rows))

    def doc_rows(self, counts: WordCounts) -> sparse.csr_array:
        """Return the rows of `transform_docs` for counts by column."""
        return _finished(self._bm25_rows(counts)) if self.weighting == "bm25" else self.query_rows(counts)

    def _bm25_rows(self, counts: WordCounts) -> sparse.csr_array:
        rows = counts.rows(len(self.words_))
        held_back = self.k1 * (1 - self.b + self.b * counts.n_words / self.mean_length_)
        rows.data *= (self.k1 + 1) / (rows.data + np.repeat(held_back, np.diff(rows.indptr)))
        idf = self._idf(self.document_frequency_) ** (1 - self.idf_power)
        rows.data *= idf[rows.indices] / self.doc_scale_
        return rows

    def _check_parameters(self) -> None:
        def wrong(name: str, allowed: str) -> ParameterError:
            return wrong_parameter("Vectorizer", name, allowed, getattr(self, name))

        if self.analyzer is not None and not isinstance(self.analyzer, Analyzer):
            raise wrong("analyzer", "None or an Analyzer")
        if self.weighting not in ("tfidf", "bm25"):
            raise wrong("weighting", "'tfidf' or 'bm25'")
        if self.max_features is not None and not is_integer(self.max_features, 1):
            raise wrong("max_features", "None or an integer from 1")
        if not isinstance(self.sublinear_tf, bool):
            raise wrong("sublinear_tf", "True or False")
        for name in ("min_df", "max_df"):
            limit = getattr(self, name)
            if not (limit >= 1 if is_integer(limit) else is_number(limit, 0, 1)):
                raise wrong(name, "an integer from 1 or a float from 0 to 1")
        for name, most in (("k1", np.inf), ("b", 1), ("idf_power", 1)):
            if not is_number(getattr(self, name), 0, most):
                raise wrong(name, "a number from 0" if most == np.inf else f"a number from 0 to {most}")


def _row_lengths(rows: sparse.csr_array) -> NDArray[np.float64]:
    row_of_entry = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    return np.sqrt(np.bincount(row_of_entry, weights=rows.data**2, minlength=rows.shape[0]))


def _unit_rows(rows: sparse.csr_array) -> sparse.csr_array:
    """Divide each row by its length, in place; an empty row has no entry to divide."""
    rows.data /= np.repeat(_row_lengths(rows), np.diff(rows.indptr))
    return rows


def _finished(rows: sparse.csr_array) -> sparse.csr_array:
    """The same rows in float32."""
    # Not astype: astype copies and checks for duplicates.
    finished = sparse.csr_array((rows.data.astype(np.float32), rows.indices, rows.indptr), shape=rows.shape)
    finished.has_canonical_format = True
    return finished


def _check_encodable(words: list[str]) -> None:
    """Refuse words that could not be saved after training."""
    try:
        "".join(words).encode("utf-8")
    except UnicodeEncodeError as error:
        broken = next(word for word in words if any("\ud800" <= letter <= "\udfff" for letter in word))
        raise InputError(
            f"the word {broken!a} holds half a surrogate pair, which is not text; "
            "clean texts with text.encode('utf-8', 'replace').decode('utf-8')"
        ) from error


def _saved_words(packed: PackedStrings, n_added: int) -> list[str]:
    """Return the words of a saved vectorizer, all different, fitted words in alphabetical order."""
    packed.check("vectorizer: words")
    words = packed.many(np.arange(len(packed)))
    if not words or not words[0]:
        raise DamagedBundleError("vectorizer: words have an empty word, or there are none")
    if n_added and (n_added >= len(words) or len(set(words)) < len(words) or not all(words)):
        raise DamagedBundleError(f"vectorizer: {n_added} of {len(words)} words are said to be new, and cannot be")
    for number, (before, word) in enumerate(pairwise(words[: len(words) - n_added])):
        if word <= before:
            raise DamagedBundleError(
                f"vectorizer: words must be in alphabetical order without duplicates, found {before!r} and then "
                f"{word!r} at word {number + 1}"
            )
    return words
