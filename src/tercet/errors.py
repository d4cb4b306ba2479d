"""Errors that Tercet raises.

::

    TercetError
    ├── InputError          (ValueError)  wrong argument, with its name and the first wrong position
    │   ├── ParameterError                wrong or unknown constructor parameter
    │   ├── FormatError                   wrong data file: path, line, content found, content expected
    │   └── MissingDataError              missing file of a paper's data set, with the paths searched
    ├── BundleError                       unreadable saved model
    │   ├── MissingBundleError            no saved model at the path
    │   ├── DamagedBundleError            changed or missing bytes
    │   └── VersionError                  format of a newer version
    ├── DivergedError   (ArithmeticError) weights beyond float32, with the rate that was too high
    ├── MemoryLimitError    (MemoryError) work that needs more memory than allowed, with the amount
    ├── DeviceError                       missing or failed GPU
    ├── EngineError                       search engine of another version, full, or with foreign content
    │   └── EngineAwayError               no answer from the engine
    ├── StoreError                        unwritable file of the service; nothing was acknowledged
    │   └── StoreInUseError               file held by another service
    └── MissingExtraError   (ImportError) missing optional package, with the command to install

Any other exception is a defect. `HttpProblem` of the service and `Passing` of engines are raised and caught inside.
"""

from __future__ import annotations

from os import PathLike

LONGEST_MESSAGE = 2_000  # characters of a message about a file; the middle of a longer message is left out


class TercetError(Exception):
    """Base of every error of Tercet."""


class InputError(TercetError, ValueError):
    """An argument is wrong. The message names the argument, the first wrong position and the expected value."""


class ParameterError(InputError, TypeError):
    """A constructor parameter is wrong or unknown."""


class FormatError(InputError):
    """A data file is wrong.

    Parameters
    ----------
    path : the file
    line : 1-based line number, or None for the file as a whole
    message : content found and content expected
    kind : kind of problem: ``"missing"``, ``"packing"``, ``"encoding"``, ``"json"``, ``"id"``, ``"empty-text"`` or
        ``"format"``
    """

    def __init__(self, path: str | PathLike[str], line: int | None, message: str, kind: str = "format") -> None:
        if len(message) > LONGEST_MESSAGE:  # text of the file is part of the message
            message = f"{message[: LONGEST_MESSAGE // 2]} … {message[-LONGEST_MESSAGE // 4 :]}"
        self.path = str(path)
        self.line = line
        self.message = message
        self.kind = kind
        where = self.path if line is None else f"{self.path}:{line}"
        super().__init__(f"{where}: {message}")


class MissingDataError(InputError):
    """A file of a data set is missing."""


class BundleError(TercetError):
    """A saved model cannot be read."""


class MissingBundleError(BundleError, FileNotFoundError):
    """No saved model at the path."""


class DamagedBundleError(BundleError):
    """Bytes on disk differ from the bytes written."""


class VersionError(BundleError):
    """A newer version wrote the bundle."""


class DivergedError(TercetError, ArithmeticError):
    """The weights grew beyond the range of float32.

    Examples
    --------
    >>> issubclass(DivergedError, ArithmeticError)  # try a smaller rate
    True
    """


class MemoryLimitError(TercetError, MemoryError):
    """The work would need more memory than allowed."""


class EngineError(TercetError):
    """Another engine, such as a Qdrant server, is full, of an unsupported version, or holds foreign content."""


class EngineAwayError(EngineError):
    """Another engine does not answer after several attempts."""


class DeviceError(TercetError):
    """A GPU is missing or failed."""


class StoreError(TercetError):
    """A file of the service cannot be written; nothing was acknowledged."""


class StoreInUseError(StoreError):
    """Another service, named in the message, writes the file."""


class MissingExtraError(TercetError, ImportError):
    """An optional package is needed. The message ends with the command to install.

    ``lack`` is the message without the command, for public pages.
    """

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        from tercet._installed import install_command

        self.lack = f"{purpose} needs {package} (extra {extra})"
        super().__init__(f"{purpose} needs {package}: {install_command(extra)}")
