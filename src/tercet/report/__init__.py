"""What a fitted model says of itself: the report as a value, and as one page of HTML (``tercet.report.page``)."""

from tercet.report.value import Report, SystemResult, changes_between, shown_interval, shown_p

__all__ = ["Report", "SystemResult", "changes_between", "shown_interval", "shown_p"]
