"""How Sphinx builds the documentation: `make docs`. Neither the build nor a reader's browser needs a network."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

import tercet

DOCS = Path(__file__).parent
OUT = Path(os.environ.get("TERCET_DOCS_OUT", DOCS.parent / "out"))

project = "Tercet"
author = "The Tercet developers"
copyright = author  # sphinx's name for it
version = release = tercet.__version__

sys.path.insert(0, str(DOCS))
extensions = ["generated", "myst_nb"]
default_role = "name"
source_suffix = {".md": "myst-nb"}
exclude_patterns = ["_build", "**/.ipynb_checkpoints"]

# Prose: tables with captions, definition lists, $x$ and anchors down to ### as the code host makes them.
myst_enable_extensions = [
    "attrs_block",
    "attrs_inline",
    "colon_fence",
    "deflist",
    "dollarmath",
    "fieldlist",
    "smartquotes",
]
myst_heading_anchors = 4
html_math_renderer = "mathml"

# A notebook is Markdown with cells (jupytext's md:myst) in docs/notebooks. Its results are kept until it changes.
nb_execution_mode = "cache"
nb_execution_cache_path = str(OUT / "notebooks")
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True

python_use_unqualified_type_names = True
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "sphinx_book_theme"
html_title = "Tercet"
html_static_path = ["_static"]
html_css_files = ["tercet.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_theme_options = {
    "show_toc_level": 2,
    "show_navbar_depth": 1,
    "home_page_in_toc": False,
    "navbar_persistent": [],
    "use_download_button": False,
    "use_fullscreen_button": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}

# Files of the repository that are pages here, too; a page links to the file, so that the link works in both places.
PAGES_OF = {
    "SECURITY.md": "project/security.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changes.md",
    "benchmarks/README.md": "project/benchmarks.md",
}
OUTSIDE = re.compile(rf"\]\(((?:\.\./)+)({'|'.join(map(re.escape, PAGES_OF))})")


def _link_to_pages(app: Sphinx, docname: str, source: list[str]) -> None:
    """A link out of docs/ to a file that is a page leads to the page."""
    up = "../" * docname.count("/")
    source[0] = OUTSIDE.sub(lambda link: f"]({up}{PAGES_OF[link[2]]}", source[0])


def _inline_math(translator: HTML5Translator, node: nodes.math) -> None:
    translator.body.append(latex2mathml.tex2mathml(node.astext(), as_block=False))
    raise nodes.SkipNode


def _displayed_math(translator: HTML5Translator, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="math">{latex2mathml.tex2mathml(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    app.connect("source-read", _link_to_pages)
    # MathML, which browsers draw by themselves: the other renderers load a script from elsewhere.
    app.add_html_math_renderer("mathml", inline_renderers=(_inline_math, None), block_renderers=(_displayed_math, None))
