"""Terminal story of one teaching action on a small help desk: the ranks before and after, and the words."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from rich.console import Console
from rich.table import Table

from tercet.data import Preferences
from tercet.fitting import TextModel
from tercet.learn.online import OnlineLearner
from tercet.search import Index
from tercet.weights import Sparse, Weights

ARTICLES: Final = {
    "display": "My display hangs\nRestart the graphics driver.",
    "saver": "Change my screen saver\nMy settings, then screen saver. It is shown on the screen when nobody types.",
    "canteen": "Frozen meals in the canteen\nFrozen food is in the left freezer. The microwave is next to it.",
    "film": "Privacy film for a screen\nA film for a laptop screen is in the shop on floor two.",
    "printer": "The printer is out of paper\nPaper is in the cupboard. Open tray two.",
    "password": "Reset my password\nMy account, then password. A code is sent to my phone.",
    "vpn": "Connect from home\nStart the VPN, then sign in with a code.",
    "projector": "Projector in a meeting room\nPlug the cable into the laptop, then choose the source.",
    "badge": "Lost badge\nThe front desk has spare badges for one day.",
    "mail": "My mailbox is full\nMove old mail to the archive, then empty the bin.",
}
QUERY, ANSWER = "my screen is frozen", "display"
OTHERS: Final = ("black screen", "screen frozen after lunch", "frozen laptop")
_ROUNDS: Final = 10


def moved_to_top(index: Index, query: str, doc_id: str) -> TextModel:
    """Return the model of an index after a document was dragged to the top."""
    model = index.model
    assert isinstance(model, TextModel)
    ids = [hit.doc_id for hit in index.search(query, len(index), cutoff=False)]
    passed = ids[: ids.index(doc_id)]
    D = model.docs({listed_id: index.text(listed_id) for listed_id in (doc_id, *passed)})
    learner = OnlineLearner(model.weights)
    n = len(passed)
    learner.learn(
        model.queries([query]), Preferences([0] * n * _ROUNDS, [0] * n * _ROUNDS, [*range(1, n + 1)] * _ROUNDS), D
    )
    return replace(model, weights=Weights([*model.weights.parts, Sparse(weights=learner.matrix())]))


def tell_story(console: Console) -> None:
    """Print the ranks of the answer before and after the action, and the pair of words with the largest effect."""
    before = Index.build(ARTICLES)
    after = before.with_model(moved_to_top(before, QUERY, ANSWER))
    console.print(f'[bold]One gesture.[/] A help desk of {len(ARTICLES)} articles is asked "{QUERY}", and BM25 finds:')
    for rank, hit in enumerate(before.search(QUERY, 6, cutoff=False), 1):
        drag = "   [bold]← you drag this one to the top[/]" if hit.doc_id == ANSWER else ""
        console.print(f"    {rank}. {(hit.text or '').splitlines()[0]}{drag}")
    table = Table("query", "rank before", "now", "moved most by", title_justify="left")
    for query in (QUERY, *OTHERS):
        added: dict[str, list[tuple[str, float]]] = {}
        for word, doc_word, weight in after.explain(query, ANSWER).pairs:
            if word != doc_word:
                added.setdefault(word, []).append((doc_word, weight))
        word, pairs = max(added.items(), key=lambda item: sum(weight for _, weight in item[1]))
        doc_words = ", ".join(doc_word for doc_word, _ in pairs[:2])
        why = f"{word} → {doc_words}, … {sum(weight for _, weight in pairs):+.2f}"
        table.add_row(query, _rank(before, query), _rank(after, query), f"[reverse]{why}[/]")
    console.print("It counts for this query, and for others with its words:")
    console.print(table)
    back = ", ".join(_rank(before.with_model(before.model), query) for query in (QUERY, *OTHERS))
    console.print(f"Undo reverts exactly that: the ranks are {back} again.\n")


def _rank(index: Index, query: str) -> str:
    ids = [hit.doc_id for hit in index.search(query, len(index))]
    return str(ids.index(ANSWER) + 1) if ANSWER in ids else "not found"
