"""MAP of a tied low-rank model against seconds of training on one core: 20 Newsgroups, all test posts as queries.

Draws the picture of the README: python benchmarks/newsgroups_curve.py --data-home DIR -o docs/images/newsgroups.json
writes docs/images/newsgroups.png next to the figures.
"""

from __future__ import annotations

import one_thread  # noqa: F401 # isort: skip

from pathlib import Path
from typing import Any

import tercet as tc
from common import load_newsgroups, machine_facts, parse_arguments, print_facts, print_table, write_json
from tercet.learn import Event
from tercet.measure import average_precision_of_classes

N_STEPS = 600_000
EVERY = 12 * 4096
# Chen et al. 2010, Table II (a): MAP after 100,000 steps.
PAPER = {"Sparse-R, the paper's best": 0.426, "Identity": 0.185}


class Recorder:
    """Keeps the weights and the training seconds every so many steps."""

    def __init__(self) -> None:
        self.found: list[tuple[int, float, tc.Weights]] = []

    def __call__(self, event: Event) -> None:
        if event.step % EVERY == 0 or event.step == event.total or event.step == 4096:
            self.found.append((event.step, event.seconds, event.weights()))


def main() -> None:
    arguments = parse_arguments(__doc__)
    news = load_newsgroups(arguments.data_home)
    n_steps = N_STEPS // 10 if arguments.quick else N_STEPS
    prefs = tc.Preferences.from_labels(news.y, n_steps, random_state=arguments.seed)
    tc.LowRankRanker(tied=True).fit(news.X, prefs[:10])  # compiles
    curves: dict[str, list[dict[str, Any]]] = {}
    for name, scaled in (("low rank", False), ("low rank, documents scaled", True)):
        recorder = Recorder()
        ranker = tc.LowRankRanker(tied=True, scale_documents=scaled, random_state=arguments.seed)
        ranker.fit(news.X, prefs, callbacks=[recorder])
        curves[name] = [
            {
                "steps": step,
                "seconds": seconds,
                "MAP": float(average_precision_of_classes(weights, news.X_test, news.y_test).mean()),
            }
            for step, seconds, weights in recorder.found
        ]
    cosine = tc.CosineRanker().fit(news.X_test).weights_
    start = float(average_precision_of_classes(cosine, news.X_test, news.y_test).mean())
    facts = machine_facts("numpy", "numba", "scipy")
    print_facts(facts)
    for name, points in curves.items():
        rows = [(f"{p['steps']:,}", f"{p['seconds']:.2f}", f"{p['MAP']:.3f}") for p in points]
        print_table(f"{name}, 100 components", ("steps", "seconds", "MAP"), rows)
    print(f"cosine {start:.3f}; paper: " + ", ".join(f"{name} {value:.3f}" for name, value in PAPER.items()))
    write_json(arguments.output, {"facts": facts, "curves": curves, "cosine": start, "paper": PAPER})
    if arguments.output is not None:
        draw(curves, start, arguments.output.with_suffix(".png"))


def draw(curves: dict[str, list[dict[str, Any]]], cosine: float, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7.2, 3.6), dpi=150)
    # The lower curve is named below its line, the upper one above.
    for (name, points), (colour, up) in zip(curves.items(), (("#8a8a8a", -14), ("#b3382c", 7)), strict=True):
        seconds, values = [p["seconds"] for p in points], [p["MAP"] for p in points]
        axes.plot(seconds, values, color=colour, linewidth=2, marker="o", markersize=3)
        axes.annotate(
            f"{name}  {values[-1]:.3f}",
            (seconds[-1], values[-1]),
            xytext=(-2, up),
            textcoords="offset points",
            ha="right",
            color=colour,
        )
    right = max(p["seconds"] for points in curves.values() for p in points)
    for name, value in {"Chen et al. 2010, their best": PAPER["Sparse-R, the paper's best"], "cosine": cosine}.items():
        axes.axhline(value, color="#444444", linewidth=0.8, linestyle=(0, (4, 3)))
        axes.annotate(f"{name}  {value:.3f}", (right, value), xytext=(-2, 4), textcoords="offset points", ha="right")
    axes.set(
        xlabel="seconds of training, one core",
        ylabel="mean average precision",
        ylim=(0.1, 0.75),
        xlim=(0, right * 1.01),
    )
    axes.set_title("20 Newsgroups, all 7,532 test posts as queries", loc="left", fontsize=11)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.tight_layout()
    figure.savefig(path)


if __name__ == "__main__":
    main()
