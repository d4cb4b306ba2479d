"""Measures, evaluation, significance and learning curves."""

from tercet.measure.arrays import average_precision_by_class, measure_block
from tercet.measure.curves import CurvePoint, LearningCurve
from tercet.measure.evaluate import Evaluation, evaluate
from tercet.measure.names import Measure, parse_measure, parse_measures
from tercet.measure.significance import PairedTest, holm, paired_test

__all__ = [
    "CurvePoint",
    "Evaluation",
    "LearningCurve",
    "Measure",
    "PairedTest",
    "average_precision_by_class",
    "evaluate",
    "holm",
    "measure_block",
    "paired_test",
    "parse_measure",
    "parse_measures",
]
