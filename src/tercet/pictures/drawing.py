"""What all pictures share: the paper, the colours and how a drawing gets into a file."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any, Final

from tercet.errors import InputError, MissingExtraError
from tercet.store import open_atomically

FORMATS: Final = (".png", ".svg", ".pdf")

RED, PALE_RED, BLUE, PALE_BLUE = "#b3382c", "#efc4bd", "#2f6690", "#c9d9e6"
PAPER, INK, GREY = "#fbfbf9", "#2b2b2b", "#8a8a8a"
TITLE_SIZE = 9.5
SETTINGS: Final = {"font.size": 8.5, "axes.edgecolor": GREY, "text.color": INK, "axes.labelcolor": INK}


def import_matplotlib() -> Any:
    """matplotlib, or an error that says how to get it."""
    try:
        import matplotlib
    except ImportError as error:
        raise MissingExtraError("matplotlib", "plot", "drawing a picture") from error
    return matplotlib


def checked_picture(path: str | PathLike[str]) -> Path:
    """A place where a picture can be written; asked before the work, not after it."""
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path} does not say what to draw: a picture's name ends in {', '.join(FORMATS)}")
    if not path.absolute().parent.is_dir():
        raise InputError(f"{path} cannot be written: there is no folder {path.absolute().parent}")
    import_matplotlib()
    return path


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure whole or not at all; nothing in the file says when it was drawn."""
    kind = path.suffix.lower()[1:]
    undated = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
    with import_matplotlib().rc_context({"svg.hashsalt": "tercet"}), open_atomically(path) as file:
        figure.savefig(file, format=kind, metadata=undated)


def say_instead(axes: Any, what: str) -> None:
    """A sentence where there is nothing to draw."""
    axes.set_axis_off()
    axes.text(0.5, 0.5, what, ha="center", va="center", color=GREY)


def shortened(name: str, longest: int) -> str:
    return name if len(name) <= longest else name[: longest - 1] + "…"
