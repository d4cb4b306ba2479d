"""Notes of a made-up office, and what its people ask: two subjects a note, asked for in other words than written."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np

# A subject: how notes call it, and how people do.
SUBJECTS = [
    ("invoice", "bill", "payment request"),
    ("vacation", "holiday", "days off"),
    ("laptop", "notebook", "computer"),
    ("password", "login", "credentials"),
    ("supplier", "vendor", "wholesaler"),
    ("customer", "client", "buyer"),
    ("salary", "pay", "wages"),
    ("meeting", "appointment", "call"),
    ("contract", "agreement", "terms"),
    ("printer", "copier", "toner"),
    ("travel", "trip", "flight"),
    ("illness", "sick", "doctor"),
    ("warehouse", "depot", "stock"),
    ("discount", "rebate", "cheaper"),
    ("complaint", "unhappy", "angry"),
    ("delivery", "shipment", "parcel"),
    ("hiring", "applicant", "interview"),
    ("training", "course", "workshop"),
    ("insurance", "coverage", "accident"),
    ("website", "homepage", "online"),
]
FILLERS = [
    *("please", "check", "with", "the", "team", "before", "you", "change", "this", "page"),
    *("and", "keep", "the", "list", "of", "open", "points", "up", "to", "date"),
]


class Question(NamedTuple):
    """A text, the same in words of the notes, and the file that answers it."""

    text: str
    rephrased: str
    answer: str


def write_notes(folder: Path, n_notes: int, seed: int = 0) -> dict[str, tuple[int, int]]:
    """Write notes; return the subjects of each by its file name."""
    rng = np.random.default_rng(seed)
    pairs = list(combinations(range(len(SUBJECTS)), 2))
    chosen = [pairs[i] for i in sorted(rng.choice(len(pairs), n_notes, replace=False).tolist())]
    notes = {}
    for first, second in chosen:
        names = SUBJECTS[first][0], SUBJECTS[second][0]
        sentences = []
        for _ in range(4):
            words = [*rng.choice(FILLERS, 8).tolist(), names[0] if rng.random() < 0.6 else names[1]]
            sentences.append(" ".join(rng.permutation(words).tolist()).capitalize() + ".")
        name = f"{names[0]}-{names[1]}.md"
        body = " ".join(sentences)
        (folder / name).write_text(f"# {names[0].capitalize()} and {names[1]}\n\n{body}\n", encoding="utf-8")
        notes[name] = (first, second)
    return notes


def questions(notes: dict[str, tuple[int, int]], n: int, seed: int) -> list[Question]:
    """Draw questions: each names the two subjects of a note, two times in three by a word that the notes lack."""
    rng = np.random.default_rng(seed)
    names = list(notes)
    drawn = []
    for _ in range(n):
        name = names[int(rng.integers(len(names)))]
        words = [SUBJECTS[subject][int(rng.integers(3))] for subject in notes[name]]
        begin = ("where is", "how do I find", "question about", "need", "what about")[int(rng.integers(5))]
        drawn.append(
            Question(
                f"{begin} {' and '.join(rng.permutation(words).tolist())}",
                name.replace("-", " ").removesuffix(".md"),
                name,
            )
        )
    return drawn
