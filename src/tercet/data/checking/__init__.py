"""Checking a whole data set: every problem with its file and line, where a reader stops at the first."""

from tercet.data.checking.everything import check
from tercet.data.checking.problems import CheckReport, Problem

__all__ = ["CheckReport", "Problem", "check"]
