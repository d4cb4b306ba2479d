"""Rare options of a fit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tercet._validate import check_integer, is_number
from tercet.errors import InputError
from tercet.fitting.scored_columns import Fields, ScoredColumns
from tercet.fitting.text_model import TextModel
from tercet.text import Analyzer, Vectorizer
from tercet.text.fielded import FieldedVectorizer


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """Options of ``tc.fit`` beyond the evidence.

    Parameters
    ----------
    analyzer : tokenizer and stemmer; by default stems of the guessed language of the documents, unless whole words or
        stems without English stop words are clearly better; pairs of characters for languages without blanks
    vocabulary : text model, such as ``index.model``, whose words and idf the fit keeps, so that the index can serve the
        result; None takes the words of documents and training queries
    fields : columns of text with separate weights, ``{"title": 2.0}``: the expected weight of a match in the field, in
        units of a match in the whole text, to start learning from; or names alone, with weight 1
    features : columns of numbers, as stored or by a transform: ``["price", "log:downloads"]``, see
        docs/guides/fields.md
    n_steps : preferences to draw; default 20 for each judgement, at least 20,000 and at most 3,000,000, as time allows
    budget : approximate seconds; limits the number of steps and folds
    min_sessions : fewest sessions with a query before memory keeps the query; a query of a single person may name the
        person
    memory_only : remember past queries over BM25 within seconds; learn no words, and validate nothing
    verbose : None shows progress on a terminal, True always, False never
    name : name of the data in the report

    Examples
    --------
    >>> FitOptions(budget=30).min_sessions
    2
    """

    analyzer: Analyzer | None = None
    vocabulary: Any = None
    fields: Fields | None = None
    features: Iterable[str] | None = None
    n_steps: int | None = None
    budget: float | None = None
    min_sessions: int = 2
    memory_only: bool = False
    verbose: bool | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise InputError(f"name is what the report calls the data, a string; got {self.name!r}")
        if self.budget is not None and not (is_number(self.budget, 0) and self.budget > 0):
            raise InputError(f"budget is in seconds, a positive number; got {self.budget!r}")
        if self.n_steps is not None:
            check_integer(self.n_steps, "n_steps")
        check_integer(self.min_sessions, "min_sessions")
        if self.words is not None and (self.analyzer is not None or self.columns is not None):
            raise InputError(
                "vocabulary says how texts are tokenized and weighted; leave out analyzer, fields and features"
            )

    @cached_property
    def columns(self) -> ScoredColumns | None:
        """Fields and numbers to score, checked; None without any."""
        if self.fields is None and self.features is None:
            return None
        return ScoredColumns.from_arguments(self.fields, self.features)

    @cached_property
    def words(self) -> Vectorizer | None:
        """The vectorizer of the vocabulary to keep, shared by queries and documents."""
        model = self.vocabulary
        if model is None:
            return None
        if not isinstance(model, TextModel):
            raise InputError(f"vocabulary is a text model, as index.model is; got {type(model).__name__}")
        words = model.doc_vectorizer
        if words is not model.query_vectorizer or isinstance(words, FieldedVectorizer):
            what = "fields or numbers" if isinstance(words, FieldedVectorizer) else "other words for queries"
            raise InputError(
                f"a vocabulary can be kept where queries and documents share it alone; this model has {what}"
            )
        return words
