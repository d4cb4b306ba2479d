"""Documents with columns as vectors, side by side: words of the whole text and of fields, numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any, Final

import numpy as np
from numpy.typing import NDArray

from tercet._lazy import sparse
from tercet.data.documents import Documents
from tercet.data.values import Value
from tercet.errors import DamagedBundleError, InputError
from tercet.kernels.rows import QueryRow
from tercet.store.codec import decode, encode
from tercet.store.schema import Bounds, Shape
from tercet.text.analyzer import Analyzer
from tercet.text.estimator import check_fitted
from tercet.text.numbers import NumberColumn, parse_number
from tercet.text.vectorizer import Vectorizer

ANY_QUERY: Final = "any query"  # name of the column that all queries have


@dataclass(frozen=True)
class ColumnLayout:
    """Columns from left to right: words, the words of each field, numbers, and a column of all queries.

    Queries have words and the column of all queries; documents have words, fields and numbers. A feature is a field,
    with the inner product of the field's words as its value, or a number of the document.
    """

    n_words: Annotated[int, Bounds(least=1)]
    n_fields: Annotated[int, Bounds(least=0)]
    n_numbers: Annotated[int, Bounds(least=0)]

    @property
    def n_features(self) -> int:
        return self.n_fields + self.n_numbers

    @property
    def first_number(self) -> int:
        return self.n_words * (1 + self.n_fields)

    @property
    def any_query(self) -> int:
        return self.first_number + self.n_numbers

    @property
    def n_columns(self) -> int:
        return self.any_query + 1


@dataclass(frozen=True, eq=False)
class _SavedField:
    """Saved statistics of the documents with a field."""

    name: str
    n_docs: Annotated[int, Bounds(least=1)]
    mean_length: Annotated[float, Bounds(above=0)]
    doc_scale: Annotated[float, Bounds(above=0)]
    document_frequency: Annotated[NDArray[np.int64], Shape(None, bounds=Bounds(least=0))]


@dataclass(frozen=True, eq=False)
class _SavedFielded:
    words: Vectorizer
    fields: tuple[_SavedField, ...]
    numbers: tuple[NumberColumn, ...]


class FieldedVectorizer(Vectorizer):
    """Turns documents with columns into rows: words of the whole text, words of each field, and numbers.

    A field has statistics of its own, such as the lengths of titles; the query's share of a word's idf is that of the
    whole text. Numbers are transformed and standardized (`NumberColumn`), with a column that marks missing numbers.
    With a weight for each field and number, a score is an inner product like any other, and is searched, explained and
    saved alike.

    Parameters
    ----------
    fields : columns of text with a match of their own
    features : columns of numbers, perhaps with a transform: ``"price"``, ``"log:downloads"``
    analyzer, weighting : as in `Vectorizer`

    Attributes
    ----------
    plain_ : the vectorizer of the whole text
    fields_ : the vectorizer of each field, over the same words
    numbers_ : the columns of numbers
    layout_ : the layout of the columns
    words_ : a name for each column; ``index_`` and the statistics are of words of the whole text only

    Examples
    --------
    >>> from tercet.data.documents import as_documents
    >>> docs = as_documents({"a": {"title": "Avocado", "text": "green fruit", "price": 2}, "b": {"title": "Kiwi",
    ...                      "text": "green fruit", "price": 1}})
    >>> vectorizer = FieldedVectorizer(fields=["title"], features=["price"]).fit(docs)
    >>> D, Q = vectorizer.transform_docs(docs), vectorizer.transform_queries(["avocado"])
    >>> [vectorizer.described(int(j), x) for j, x in zip(D.indices[:5], D.data[:5])]
    ['avocado', 'fruit', 'green', 'title: avocado', 'price 2']
    >>> [vectorizer.words_[j] for j in Q.indices]
    ['avocado', 'any query']
    """

    plain_: Vectorizer
    fields_: dict[str, Vectorizer]
    numbers_: tuple[NumberColumn, ...]
    layout_: ColumnLayout

    def __init__(
        self,
        *,
        fields: Sequence[str] = (),
        features: Sequence[str] = (),
        analyzer: Analyzer | None = None,
        weighting: str = "bm25",
        k1: float = 0.9,
        b: float = 0.4,
    ) -> None:
        super().__init__(analyzer=analyzer, weighting=weighting, k1=k1, b=b)
        self.fields = fields
        self.features = features
        check_names(fields, features)

    # -- learning -----------------------------------------------------------------------------------------------

    def fit(self, texts: Iterable[str], y: None = None, *, queries: Iterable[str] = ()) -> FieldedVectorizer:
        """Learn words, their weights and the statistics of numbers from `Documents`."""
        self.fit_transform_docs(texts, queries=queries)
        return self

    def fit_transform_docs(self, texts: Iterable[str], *, queries: Iterable[str] = ()) -> sparse.csr_array:
        docs = self._documents(texts)
        columns = {name: _texts_of(docs, name) for name in self.fields}
        plain = Vectorizer(analyzer=self.analyzer, weighting=self.weighting, k1=self.k1, b=self.b)
        # Words of a field outside the text also get a column.
        apart = [column for name, column in columns.items() if name not in docs.text_columns]
        rows = plain.fit_transform_docs(list(docs.values()), queries=chain(queries, *apart))
        fields, blocks = {}, []
        for name, column in columns.items():
            fields[name], block = _learned_field(plain, name, column)
            blocks.append(block)
        ids = list(docs)
        numbers = tuple(
            NumberColumn.learned(name, _column_of(docs, parse_number(name)[0]), ids) for name in self.features
        )
        self._put_together(plain, fields, numbers)
        return self._joined([rows, *blocks], docs)

    def _put_together(
        self, plain: Vectorizer, fields: dict[str, Vectorizer], numbers: tuple[NumberColumn, ...]
    ) -> None:
        self.plain_, self.fields_, self.numbers_ = plain, fields, numbers
        layout = self.layout_ = ColumnLayout(len(plain.words_), len(fields), 2 * len(numbers))
        names = list(plain.words_)
        for name in fields:
            names += [f"{name}: {word}" for word in plain.words_]
        for number in numbers:
            names += [number.name, f"{number.column} missing"]
        frequency = np.zeros(layout.n_columns, dtype=np.int64)
        frequency[: layout.n_words] = plain.document_frequency_
        self.words_ = [*names, ANY_QUERY]
        self.index_ = plain.index_
        self.document_frequency_ = frequency
        self.n_docs_, self.mean_length_, self.doc_scale_ = plain.n_docs_, plain.mean_length_, plain.doc_scale_
        self.n_features_in_ = layout.n_columns

    # -- vectors ------------------------------------------------------------------------------------------------

    def transform_docs(self, texts: Iterable[str]) -> sparse.csr_array:
        """Rows for `Documents`, CSR float32 (n_docs, n_columns)."""
        check_fitted(self, "words_")
        docs = self._documents(texts)
        blocks = [self.plain_.transform_docs(list(docs.values()))]
        blocks += [field.transform_docs(_texts_of(docs, name)) for name, field in self.fields_.items()]
        return self._joined(blocks, docs)

    def _joined(self, blocks: list[sparse.csr_array], docs: Documents) -> sparse.csr_array:
        ids = list(docs)
        values = np.zeros((len(ids), self.layout_.n_numbers + 1), dtype=np.float32)
        for i, number in enumerate(self.numbers_):
            standardized, missing = number.standardized(_column_of(docs, number.column), ids)
            values[:, 2 * i], values[:, 2 * i + 1] = standardized, missing
        if not np.isfinite(values).all():
            row, column = np.argwhere(~np.isfinite(values))[0]
            name = self.numbers_[column // 2].name
            raise InputError(f"{name} of document {ids[row]!r} is beyond what a number of an index can be")
        blocks = [*blocks, sparse.csr_array(values)]
        return sparse.csr_array(sparse.hstack(blocks, format="csr", dtype=np.float32))

    def transform_queries(self, texts: Iterable[str]) -> sparse.csr_array:
        """Return rows of queries: their words, and the column of all queries for a query with a known word."""
        check_fitted(self, "words_")
        words = self.plain_.transform_queries(texts)
        has_words = np.diff(words.indptr) > 0
        between = sparse.csr_array((words.shape[0], self.layout_.any_query - self.layout_.n_words), dtype=np.float32)
        column = sparse.csr_array(has_words.astype(np.float32)[:, None])
        return sparse.csr_array(sparse.hstack([words, between, column], format="csr", dtype=np.float32))

    def query(self, text: str) -> tuple[QueryRow, tuple[str, ...]]:
        words, unknown = self.plain_.query(text)
        more = [self.layout_.any_query] if words.nnz else []
        columns = np.append(words.indices, np.array(more, np.int32))
        values = np.append(words.data, np.ones(len(more), np.float32))
        return QueryRow(np.array([0, columns.size]), columns, values, self.n_features_in_), unknown

    def described(self, column: int, value: float | None = None) -> str:
        """Return the name of a column; with a document's value, a number in its original form."""
        number = column - self.layout_.first_number
        if value is None or not 0 <= number < self.layout_.n_numbers or number % 2:
            return self.words_[column]
        return f"{self.words_[column]} {self.numbers_[number // 2].shown(value)}"

    def _documents(self, docs: Any) -> Documents:
        if not isinstance(docs, Documents):
            columns = [*self.fields, *(parse_number(name)[0] for name in self.features)]
            raise InputError(
                f"documents are scored by {_listed(columns)} besides their texts; they must come with these columns, "
                f"as tc.as_documents gives them, and not as {type(docs).__name__}"
            )
        return docs

    # -- saving -------------------------------------------------------------------------------------------------

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the learned state as JSON values and arrays."""
        check_fitted(self, "words_")
        fields = tuple(
            _SavedField(name, field.n_docs_, field.mean_length_, field.doc_scale_, field.document_frequency_)
            for name, field in self.fields_.items()
        )
        return encode(_SavedFielded(self.plain_, fields, self.numbers_))

    @classmethod
    def from_state(cls, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> FieldedVectorizer:
        """Return the vectorizer of a state; raise `DamagedBundleError` for a bad state."""
        saved = decode(_SavedFielded, meta, arrays, where="vectorizer")
        plain = saved.words
        for field in saved.fields:
            if field.document_frequency.shape != plain.document_frequency_.shape:
                raise DamagedBundleError(f"vectorizer: the field {field.name!r} has other words than the text")
        vectorizer = cls(
            fields=[field.name for field in saved.fields],
            features=[number.name for number in saved.numbers],
            analyzer=plain.analyzer,
            weighting=plain.weighting,
            k1=plain.k1,
            b=plain.b,
        )
        fields = {
            field.name: _field(plain, field.document_frequency.copy(), field.n_docs, field.mean_length, field.doc_scale)
            for field in saved.fields
        }
        vectorizer._put_together(plain, fields, saved.numbers)
        return vectorizer


Vectorizer._of_columns = FieldedVectorizer


def docs_for(vectorizer: Vectorizer, docs: Mapping[str, str]) -> Iterable[str]:
    """Return documents for a vectorizer: with columns for a `FieldedVectorizer`, else their texts."""
    return docs if isinstance(vectorizer, FieldedVectorizer) else list(docs.values())


def check_names(fields: Iterable[str], features: Iterable[str]) -> None:
    """Refuse fields and features with bad or repeated names."""
    for what, names in (("fields", fields), ("features", features)):
        if isinstance(names, str):
            raise InputError(f"{what} is a list of columns; got the string {names!r}, pass [{names!r}]")
        seen = set()
        for name in names:
            if what == "features":
                parse_number(name)
            elif not isinstance(name, str) or not name:
                raise InputError(f"a field is the name of a column of text; got {name!r}")
            if name in seen:
                raise InputError(f"{name!r} is twice among the {what}")
            seen.add(name)


def _learned_field(plain: Vectorizer, name: str, texts: Sequence[str]) -> tuple[Vectorizer, sparse.csr_array]:
    """A field's own statistics over the words of the whole text, and its rows."""
    counts = plain.counts(texts)
    n_docs = int(np.count_nonzero(counts.n_words))
    if not n_docs:
        raise InputError(f"the field {name!r} has no word in any of the {len(texts)} documents")
    columns = counts.column[counts.column >= 0]
    frequency = np.bincount(columns, minlength=len(plain.words_))
    field = _field(plain, frequency, n_docs, float(counts.n_words.sum() / n_docs), 1.0)
    field.settle_scale([counts])
    return field, field.doc_rows(counts)


def _field(
    plain: Vectorizer, frequency: NDArray[np.int64], n_docs: int, mean_length: float, scale: float
) -> Vectorizer:
    field = Vectorizer(analyzer=plain.analyzer, weighting=plain.weighting, k1=plain.k1, b=plain.b)
    field.remember(plain.words_, frequency, n_docs, mean_length, scale)
    return field


def _texts_of(docs: Documents, name: str) -> list[str]:
    """Return the texts of a column, "" for missing ones."""
    texts = []
    for doc_id, value in zip(docs, _column_of(docs, name), strict=True):
        if value is not None and not isinstance(value, str):
            raise InputError(f"document {doc_id!r} has {value!r} for the field {name!r}; expected a text, or nothing")
        texts.append(value or "")
    return texts


def _column_of(docs: Documents, name: str) -> Sequence[Value]:
    if name not in docs.columns:
        column_names = _listed(list(docs.columns)) or "no column"
        raise InputError(f"documents have no column {name!r}; they have {column_names}")
    return docs.columns[name]


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(map(repr, names[:-1])), repr(names[-1])] if len(names) > 1 else map(repr, names))
