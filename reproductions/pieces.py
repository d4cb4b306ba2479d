"""What there is to do of a plan: its pieces, in what order, and which wait for which."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from reproductions.cost_jobs import cost_jobs
from reproductions.plan import Plan

Key = tuple[str, str, int]  # data set, method, seed


@dataclass(frozen=True)
class MethodPiece:
    """One method on one task of a data set with one seed."""

    dataset: str
    method: str
    seed: int
    fold: int = 0

    @property
    def key(self) -> Key:
        return self.dataset, self.method, self.seed


@dataclass(frozen=True)
class CurvePiece:
    """The curve of one method on one data set."""

    dataset: str
    method: str
    curves: str


@dataclass(frozen=True)
class CostPiece:
    """One point of a cost study, by its number; nothing else may run beside it."""

    number: int
    dataset = ""


Piece = MethodPiece | CurvePiece | CostPiece


def pieces_of(plan: Plan, n_tasks: Mapping[str, int], seeds: int | None, costs: bool) -> list[Piece]:
    """All pieces, first those behind the paper's own tables and figures, then those of ours, then cost studies.

    Within the first two, seeds come one after the other, and with each of them slow methods last.

    Parameters
    ----------
    n_tasks : tasks of each data set that is there
    seeds : instead of the plan's number
    costs : whether cost studies are done, too
    """
    number = {method.key: place for place, method in enumerate(plan.methods)}
    pieces: list[MethodPiece | CurvePiece] = [
        MethodPiece(dataset, method.key, seed, fold)
        for method in plan.methods
        for dataset in plan.datasets_of(method)
        if dataset in n_tasks
        for seed in range(plan.n_seeds(method, seeds))
        for fold in range(n_tasks[dataset])
    ]
    pieces += [
        CurvePiece(dataset, key, curves.key)
        for curves in plan.curves
        for dataset in curves.datasets
        if dataset in n_tasks
        for key in curves.methods
    ]
    papers, datasets = papers_own(plan), list(n_tasks)

    def place(piece: MethodPiece | CurvePiece) -> tuple[int, ...]:
        fold = piece.fold if isinstance(piece, MethodPiece) else len(pieces)  # curves after all methods
        late = isinstance(piece, CurvePiece)
        return *urgency(plan, piece, papers), datasets.index(piece.dataset), late, number[piece.method], fold

    return [*sorted(pieces, key=place), *(CostPiece(point) for point, _ in enumerate(cost_jobs(plan)) if costs)]


def urgency(plan: Plan, piece: Piece, papers: set[str]) -> tuple[int, int, int]:
    """The lower, the earlier; among pieces of the same urgency the order is free."""
    if isinstance(piece, CostPiece):
        return 2, piece.number, 0
    seed = piece.seed if isinstance(piece, MethodPiece) else 0
    return piece.method not in papers, seed, plan.method(piece.method).last


def papers_own(plan: Plan) -> set[str]:
    """Keys of the methods behind what the paper shows; all others are behind tables and figures of ours only."""
    shown = {row.model for table in plan.tables if table.kind == "paper" for row in table.rows if row.model}
    shown |= {words.model for words in plan.words}
    shown |= {model for precisions in plan.precisions for model in (precisions.x, precisions.y)}
    shown |= {model for cutoffs in plan.cutoffs for model in cutoffs.models}
    keys = {plan.method_of(model).key for model in shown} | {key for curves in plan.curves for key in curves.methods}
    for method in reversed(plan.methods):  # what a method needs comes before it
        if method.key in keys:
            keys |= {plan.method_of(model).key for model in method.blend}
            keys |= set() if method.chosen_by is None else {method.chosen_by.method}
    return keys


# -- what waits for what ----------------------------------------------------------------------------------------------


def needs(plan: Plan, piece: Piece) -> list[Key]:
    """Pieces that choose or search for parameters of this one. With rows each chooses for itself."""
    if isinstance(piece, CostPiece) or plan.datasets[piece.dataset].task == "rows":
        return []
    method = plan.method(piece.method)
    # A curve is as a later seed, but for methods that have nothing but a curve.
    is_later = piece.seed > 0 if isinstance(piece, MethodPiece) else plan.n_seeds(method) > 0
    keys = [(piece.dataset, method.key, 0)] if is_later and (method.choose or method.reuse) else []
    if method.chosen_by is not None:
        keys.append((method.chosen_by.dataset or piece.dataset, method.chosen_by.method, 0))
    return keys


def components(plan: Plan, piece: Piece) -> list[Key]:
    """The pieces that a blend is made of; none for other methods."""
    if not isinstance(piece, MethodPiece):
        return []
    return [(piece.dataset, plan.method_of(model).key, piece.seed) for model in plan.method(piece.method).blend]


def waits_for(plan: Plan, piece: Piece) -> list[Key]:
    """Pieces that must have ended in one way or the other."""
    first = [(piece.dataset, piece.method, 0)] if isinstance(piece, CurvePiece) else []
    return needs(plan, piece) + components(plan, piece) + first


def blends_of(plan: Plan, key: Key) -> Iterator[Key]:
    """The blends that a piece is a component of."""
    dataset, method, seed = key
    own = {model.key for model in plan.method(method).all_models()}
    for blend in plan.methods:
        if own & set(blend.blend) and dataset in plan.datasets_of(blend):
            yield dataset, blend.key, seed
