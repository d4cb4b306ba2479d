"""Measures, evaluation, significance, and interleaving."""

from typing import TYPE_CHECKING

from tercet._lazy import lazy_names

if TYPE_CHECKING:
    from tercet.measure.comparing import Comparison as Comparison
    from tercet.measure.comparing import PairContrast as PairContrast
    from tercet.measure.comparing import compare as compare
    from tercet.measure.comparing import compare_evaluations as compare_evaluations
    from tercet.measure.confidence import Confidence as Confidence
    from tercet.measure.evaluation import Evaluation as Evaluation
    from tercet.measure.evaluation import evaluate as evaluate
    from tercet.measure.formulas import measure_block as measure_block
    from tercet.measure.held_out import HeldOut as HeldOut
    from tercet.measure.held_out import HeldOutPreferences as HeldOutPreferences
    from tercet.measure.held_out import HeldOutQueries as HeldOutQueries
    from tercet.measure.held_out import average_precision_of_classes as average_precision_of_classes
    from tercet.measure.interleaving import Duel as Duel
    from tercet.measure.interleaving import Interleaved as Interleaved
    from tercet.measure.interleaving import team_draft as team_draft
    from tercet.measure.letor import Orders as Orders
    from tercet.measure.letor import RowScorer as RowScorer
    from tercet.measure.letor import compare_orders as compare_orders
    from tercet.measure.letor import measure_rows as measure_rows
    from tercet.measure.letor import scorer as scorer
    from tercet.measure.names import Measure as Measure
    from tercet.measure.names import parse_measure as parse_measure
    from tercet.measure.names import parse_measures as parse_measures
    from tercet.measure.significance import PairedTest as PairedTest
    from tercet.measure.significance import holm as holm
    from tercet.measure.significance import paired_test as paired_test
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "tercet.measure.comparing": ("Comparison", "PairContrast", "compare", "compare_evaluations"),
            "tercet.measure.confidence": ("Confidence",),
            "tercet.measure.evaluation": ("Evaluation", "evaluate"),
            "tercet.measure.formulas": ("measure_block",),
            "tercet.measure.held_out": (
                "HeldOut",
                "HeldOutPreferences",
                "HeldOutQueries",
                "average_precision_of_classes",
            ),
            "tercet.measure.interleaving": ("Duel", "Interleaved", "team_draft"),
            "tercet.measure.letor": ("Orders", "RowScorer", "compare_orders", "measure_rows", "scorer"),
            "tercet.measure.names": ("Measure", "parse_measure", "parse_measures"),
            "tercet.measure.significance": ("PairedTest", "holm", "paired_test"),
        },
    )
