"""Checking a whole data set: every problem with its file and line, where a reader stops at the first."""

from tercet.data.checking.by_kind import check
from tercet.data.checking.findings import CheckReport, Finding

__all__ = ["CheckReport", "Finding", "check"]
