"""Report of a fit, as a value and as a page of HTML (``tercet.report.page``)."""

from tercet.report.value import Report, SystemResult, changes_between, shown_interval, shown_p

__all__ = ["Report", "SystemResult", "changes_between", "shown_interval", "shown_p"]
