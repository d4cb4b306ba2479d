"""Measures, evaluation, significance, and blends chosen by what they measure."""

from tercet.measure.arrays import average_precision_by_class, measure_block
from tercet.measure.blending import Blend, blend
from tercet.measure.comparing import Comparison, PairContrast, compare, compare_evaluations
from tercet.measure.evaluate import Evaluation, evaluate
from tercet.measure.held_out import HeldOutQueries, average_precision_of_classes
from tercet.measure.letor import measure_rows
from tercet.measure.names import Measure, parse_measure, parse_measures
from tercet.measure.orders import Orders, compare_orders
from tercet.measure.significance import PairedTest, bonferroni, holm, paired_test

__all__ = [
    "Blend",
    "Comparison",
    "Evaluation",
    "HeldOutQueries",
    "Measure",
    "Orders",
    "PairContrast",
    "PairedTest",
    "average_precision_by_class",
    "average_precision_of_classes",
    "blend",
    "bonferroni",
    "compare",
    "compare_evaluations",
    "compare_orders",
    "evaluate",
    "holm",
    "measure_block",
    "measure_rows",
    "paired_test",
    "parse_measure",
    "parse_measures",
]
