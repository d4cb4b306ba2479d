"""Pages that are one file: HTML that escapes what it is given, small SVG charts, and one style sheet for all."""

from tercet.page.charts import bars, curves, intervals
from tercet.page.html import Html, element, join, page
from tercet.page.style import STYLE

__all__ = ["STYLE", "Html", "bars", "curves", "element", "intervals", "join", "page"]
