"""Every error Tercet raises on purpose.

::

    TercetError
    ├── InputError          (ValueError)  an argument or a value in it is wrong; says which and where
    │   ├── ParameterError                a constructor parameter is wrong or unknown
    │   ├── FormatError                   a data file is wrong: path, line, what was found, what would be right
    │   └── MissingDataError              a file of a paper's data set is not there; says where it was looked for
    ├── BundleError                       a saved model cannot be read
    │   ├── MissingBundleError            there is none at that path
    │   ├── DamagedBundleError            its bytes are not those that were written
    │   └── VersionError                  it was written by a version this one cannot read
    ├── DivergedError   (ArithmeticError) the weights grew beyond what a float32 holds; says which rate was too high
    ├── MemoryLimitError    (MemoryError) the work would need more memory than allowed; says how much
    ├── DeviceError                       a GPU cannot be used, or failed
    ├── EngineError                       another engine is of another version, full, or holds something else
    │   └── EngineAwayError               it does not answer
    ├── StoreError                        a file of the service cannot be written; nothing was acknowledged
    │   └── StoreInUseError               another service writes it
    └── MissingExtraError   (ImportError) an optional package is needed; says which to install

Anything else that escapes is a defect. Two exceptions are raised on purpose and never escape: `HttpProblem` of the
service, which becomes an answer, and `Passing` of engines, after which a request is tried again.
"""

from __future__ import annotations

from os import PathLike

LONGEST_MESSAGE = 2_000  # characters of what is said of a file; the middle of a longer one is left out


class TercetError(Exception):
    """Base of every error raised on purpose."""


class InputError(TercetError, ValueError):
    """An argument is wrong. The message names it, the first offending position and what would be right."""


class ParameterError(InputError, TypeError):
    """A constructor parameter is wrong or unknown."""


class FormatError(InputError):
    """A data file is wrong.

    Parameters
    ----------
    path : the file
    line : 1-based line number, or None when the file as a whole is meant
    message : what was found and what would be right
    kind : what sort of problem it is, in one word, for lists of many: ``"missing"``, ``"packing"``, ``"encoding"``,
        ``"json"``, ``"id"``, ``"empty-text"``, or ``"format"`` for any other
    """

    def __init__(self, path: str | PathLike[str], line: int | None, message: str, kind: str = "format") -> None:
        if len(message) > LONGEST_MESSAGE:  # a file puts its own words into it
            message = f"{message[: LONGEST_MESSAGE // 2]} … {message[-LONGEST_MESSAGE // 4 :]}"
        self.path = str(path)
        self.line = line
        self.message = message
        self.kind = kind
        where = self.path if line is None else f"{self.path}:{line}"
        super().__init__(f"{where}: {message}")


class MissingDataError(InputError):
    """A file of a data set is not there; says which."""


class BundleError(TercetError):
    """A saved model cannot be read."""


class MissingBundleError(BundleError, FileNotFoundError):
    """There is no saved model at that path."""


class DamagedBundleError(BundleError):
    """The bytes on disk are not those that were written."""


class VersionError(BundleError):
    """The bundle was written in a format this version cannot read."""


class DivergedError(TercetError, ArithmeticError):
    """The weights grew beyond what a float32 holds.

    Examples
    --------
    >>> issubclass(DivergedError, ArithmeticError)  # where it is caught, try a smaller rate
    True
    """


class MemoryLimitError(TercetError, MemoryError):
    """The work would need more memory than allowed."""


class EngineError(TercetError):
    """Another engine, such as a server of Qdrant, is away, full, of a version we do not support, or holds something
    else.
    """


class EngineAwayError(EngineError):
    """Another engine does not answer, also after several attempts."""


class DeviceError(TercetError):
    """A GPU cannot be used here, or failed; says what would be right."""


class StoreError(TercetError):
    """A file of the service cannot be written; nothing was acknowledged."""


class StoreInUseError(StoreError):
    """Another service writes the file; the message names it."""


class MissingExtraError(TercetError, ImportError):
    """An optional package is needed. The message ends with the command that installs it here.

    ``lack`` is the message without that command, for pages that others read.
    """

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        from tercet._installed import install_command

        self.lack = f"{purpose} needs {package} (extra {extra})"
        super().__init__(f"{purpose} needs {package}: {install_command(extra)}")
