"""Text files: opening, lines with their numbers, progress of reading, JSON, numbers and ids in texts.

Bytes are UTF-8 and nothing else. A file may be packed by gzip or bzip2, whatever its name says, may begin with a byte
order mark and may end its lines in CRLF. Ids are strings and are never trimmed, folded or converted.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import hashlib
import io
import json
import math
import os
import re
import stat
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, TextIO, TypeAlias, TypeVar, cast

from tercet._validate import first_repeated
from tercet.data import limits
from tercet.errors import FormatError, InputError
from tercet.store import open_atomically
from tercet.store.canonical import refuse_deep_nesting

FilePath: TypeAlias = str | PathLike[str]
# Takes the error of a bad line; the reader leaves the line out. Without a callback, a reader raises the first error.
Refused: TypeAlias = Callable[[FormatError], None]
T = TypeVar("T")

GZIP_MAGIC = b"\x1f\x8b"
_BZIP2_MAGIC = re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)")  # header of a stream with data, or of an empty stream
READ_AT_ONCE = 1 << 17
ENCODING_PROBLEM = "encoding"  # kind of a FormatError
UTF8_MARK = b"\xef\xbb\xbf"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")

_SAMPLE, _N_SAMPLES, _EDGE = 1 << 16, 32, 1 << 20  # of `sampled_digest`
_ASCII_BLANKS = re.compile(r"[ \t\r\f\v]+")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,6})?", re.ASCII)
_LONGEST_NUMBER = 60
_EXACT = Context(prec=_LONGEST_NUMBER, Emax=MAX_EMAX, Emin=MIN_EMIN)
_BREAKS_A_ROW = re.compile(r"[\t\n\r]")


class DamagedBzip2(Exception):
    """Damage of a bzip2 stream, as opposed to a disk error; the message of a truncated stream is empty."""


PACKING_DAMAGE = (EOFError, gzip.BadGzipFile, zlib.error, DamagedBzip2)


def damage_message(error: BaseException) -> str:
    """Return the message for an error of a gzip or bzip2 stream."""
    packing = "bzip2" if isinstance(error, DamagedBzip2) else "gzip"
    if isinstance(error, EOFError) or not str(error):
        return f"the {packing} data ends in the middle; the file is truncated, fetch or compress it again"
    return f"the {packing} data is damaged ({error}); fetch or compress the file again"


class _Bzip2File(bz2.BZ2File):
    """Raises `DamagedBzip2` for damage."""

    def readinto(self, buffer: Any) -> int:
        try:
            return super().readinto(buffer)
        except EOFError as error:
            raise DamagedBzip2 from error
        except OSError as error:
            if error.errno is not None:
                raise
            raise DamagedBzip2(str(error)) from error


class Unpacked(io.RawIOBase):
    """Content of a packed file, bounded by a multiple of the size on disk; a pipe is unbounded."""

    def __init__(self, packed: gzip.GzipFile | bz2.BZ2File, path: FilePath) -> None:
        self._packed, self._path = packed, path
        status = os.fstat(packed.fileno())
        self._size = status.st_size if stat.S_ISREG(status.st_mode) else None
        self._packing = "bzip2" if isinstance(packed, bz2.BZ2File) else "gzip"

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        n_read = self._packed.readinto(buffer)
        if self._size is not None:
            limits.check_unpacked(self._path, self._packed.tell(), self._size, self._packing)
        return n_read


@contextmanager
def open_bytes(path: FilePath) -> Iterator[BinaryIO]:
    """Open a file for reading bytes, decompressed after the magic of gzip or bzip2.

    A missing or unreadable file and a damaged stream raise `FormatError` without a line number.
    """
    try:
        raw = open(path, "rb")  # noqa: SIM115  (closed below; the two failures need different messages)
    except FileNotFoundError as error:
        raise FormatError(path, None, "there is no such file", "missing") from error
    except IsADirectoryError as error:
        raise FormatError(path, None, "this is a folder; a file is needed", "missing") from error
    except OSError as error:
        raise FormatError(path, None, f"the file cannot be opened: {error.strerror}", "missing") from error
    with raw:
        magic = raw.peek(10)[:10]
        if magic.startswith(GZIP_MAGIC):
            packed: gzip.GzipFile | bz2.BZ2File = gzip.GzipFile(fileobj=raw, mode="rb")
        elif _BZIP2_MAGIC.match(magic):
            packed = _Bzip2File(raw)
        else:
            yield raw
            return
        with packed:
            try:
                yield cast(BinaryIO, io.BufferedReader(Unpacked(packed, path), READ_AT_ONCE))
            except PACKING_DAMAGE as error:
                raise FormatError(path, None, damage_message(error), "packing") from error


def codec_name(encoding: object) -> str | None:
    """Return the canonical name of a text encoding, or None."""
    try:
        with suppress(UnicodeError):
            b"x".decode(cast(str, encoding))  # decoding no bytes would not look up the codec
        return codecs.lookup(cast(str, encoding)).name
    except (LookupError, TypeError, ValueError):
        return None


def decoding_error(path: FilePath, line: int, byte: int, offset: int, encoding: str, advice: str) -> FormatError:
    """Return the error for a byte outside the encoding; `offset` counts from the file's start."""
    which = f"byte 0x{byte:02x} at offset {offset} is not {encoding}"
    return FormatError(path, line, f"{which}; {advice}", ENCODING_PROBLEM)


def open_lines(
    path: FilePath, refused: Refused | None = None, encoding: str = "utf-8"
) -> Generator[tuple[int, str], None, None]:
    r"""Yield `(line_number, text)` for each line of a text file, without its line end.

    Lines end at ``\n`` or ``\r\n`` only, for other Unicode separators in ids and texts. The error of a line is handed
    to `refused`, and the line is left out.
    """
    if encoding != "utf-8":
        yield from _decoded_lines(path, refused, encoding)
        return
    number, offset = 0, 0
    with open_bytes(path) as stream:
        while raw := raw_line(stream, path, number + 1):
            number += 1
            try:
                text = line_text(raw, path, number, offset)
            except FormatError as problem:
                if refused is None or (number == 1 and raw.startswith(UTF16_MARKS)):
                    raise
                refused(problem)
            else:
                yield number, text
            offset += len(raw)


def _decoded_lines(path: FilePath, refused: Refused | None, encoding: str) -> Generator[tuple[int, str], None, None]:
    """Yield number and text of the lines of a named encoding."""
    number = 0
    with open_bytes(path) as stream, io.TextIOWrapper(stream, encoding, "replace", newline="\n") as texts:
        while True:
            try:
                text = texts.readline(limits.LONGEST_LINE + 1)
            except PACKING_DAMAGE as error:
                raise FormatError(path, number + 1, damage_message(error), "packing") from error
            except UnicodeError as error:
                raise FormatError(path, number + 1, f"this is not {encoding}: {error}", ENCODING_PROBLEM) from error
            if not text:
                return
            number += 1
            if len(text) > limits.LONGEST_LINE:
                raise limits.too_long(path, number, "characters")
            if "\ufffd" in text:
                problem = FormatError(
                    path, number, f"the line is not {encoding}; name another encoding", ENCODING_PROBLEM
                )
                refuse(problem, refused)
                continue
            yield number, text.removesuffix("\n").removesuffix("\r").removeprefix("\ufeff" if number == 1 else "")


def raw_line(stream: BinaryIO, path: FilePath, number: int) -> bytes:
    """Return the bytes of the next line with its end, none at the end of the file; `number` is the line's."""
    try:
        raw = stream.readline(limits.LONGEST_LINE + 1)
    except PACKING_DAMAGE as error:
        raise FormatError(path, number, damage_message(error), "packing") from error
    if len(raw) > limits.LONGEST_LINE:
        raise limits.too_long(path, number)
    return raw


def line_text(raw: bytes, path: FilePath, number: int, offset: int) -> str:
    """Return the text of a line, without its end and the byte order mark; `offset` is the beginning of the line."""
    start = 0
    if number == 1:
        if raw.startswith(UTF16_MARKS):
            advice = "the file is UTF-16; convert it, for instance: iconv -f UTF-16 -t UTF-8"
            raise FormatError(path, 1, advice, ENCODING_PROBLEM)
        start = len(UTF8_MARK) if raw.startswith(UTF8_MARK) else 0
    end = len(raw)
    if raw.endswith(b"\n"):
        end -= 2 if raw.endswith(b"\r\n") else 1
    try:
        return raw[start:end].decode()
    except UnicodeDecodeError as error:
        wrong = start + error.start
        advice = "convert the file, for instance from Latin-1: iconv -f LATIN1 -t UTF-8"
        raise decoding_error(path, number, raw[wrong], offset + wrong, "UTF-8", advice) from error


def refuse(problem: FormatError, refused: Refused | None) -> None:
    """Hand the error of a line to `refused`; without `refused`, raise the error."""
    if refused is None:
        raise problem
    refused(problem)


def parsed_lines(
    path: FilePath, parse: Callable[[str, int], T], refused: Refused | None = None
) -> Generator[tuple[int, T], None, None]:
    """Yield `(line_number, parse(text, line_number))` of each nonblank line; a `FormatError` goes to `refused`."""
    for line, text in open_lines(path, refused):
        if not text.strip():
            continue
        try:
            parsed = parse(text, line)
        except FormatError as error:
            refuse(error, refused)
        else:
            yield line, parsed


def within_a_line(lines: Iterable[tuple[int, str]], most: int) -> list[tuple[int, str]]:
    """Return the first lines, at least one, bounded by a number of lines and by the longest line allowed."""
    first: list[tuple[int, str]] = []
    length = 0
    for number, text in islice(lines, most):
        length += len(text)
        if first and length > limits.LONGEST_LINE:
            break
        first.append((number, text))
    return first


def split_columns(text: str) -> list[str]:
    """Split at runs of ASCII blanks, as the TREC tools do; beyond `limits.MOST_VALUES` columns the rest is one."""
    if text.isascii():
        return text.split(maxsplit=limits.MOST_VALUES)
    stripped = text.strip(" \t\r\f\v")
    return _ASCII_BLANKS.split(stripped, maxsplit=limits.MOST_VALUES) if stripped else []


def parse_float(text: str, path: FilePath, line: int, what: str) -> float:
    """Parse a finite decimal number; `what` names the number in the error."""
    try:
        value = float(text)
    except ValueError as error:
        raise FormatError(path, line, f"{what} {text!r}; a number is needed") from error
    if "_" in text or not text.isascii():  # float() accepts 1_000 and ١; other tools do not
        raise FormatError(path, line, f"{what} {text!r}; a number in plain digits is needed")
    if not math.isfinite(value):
        raise FormatError(path, line, f"{what} {text!r}; a finite number is needed")
    return value


def parse_int(text: str, path: FilePath, line: int, what: str) -> int:
    """Parse a whole number of 64 bits; `what` names the number in the error."""
    try:
        value = int(text)
    except ValueError as error:
        raise FormatError(path, line, f"{what} {text[:40]!r}; a whole number is needed") from error
    if "_" in text or not text.isascii():
        raise FormatError(path, line, f"{what} {text!r}; a whole number in plain digits is needed")
    if not -(1 << 63) <= value < 1 << 63:
        raise FormatError(path, line, f"{what} {text}; a whole number within 64 bits is needed")
    return value


def id_problem(identifier: object) -> str | None:
    """Return the reason against a value as an id, or None."""
    if not isinstance(identifier, str):
        if type(identifier) in (int, float):
            return f'is the number {identifier}; a number would lose digits, write it in quotes: "{identifier}"'
        return f"is {identifier!r}; a string is needed"
    if not identifier:
        return "is empty; every id needs at least one character"
    if _BREAKS_A_ROW.search(identifier):
        return f"{identifier!r} holds a tab or a line break, which would break a row of a file"
    if identifier[0] == "\ufeff":
        return f"{identifier!r} begins with a byte order mark; were two files joined?"
    return surrogate_problem(identifier)


def surrogate_problem(text: str) -> str | None:
    """Return a message about half a surrogate pair, which UTF-8 cannot write, or None."""
    if text.isascii():  # the fast path: ASCII text has no surrogates
        return None
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        return f"holds half a surrogate pair, \\u{ord(text[error.start]):04x}, which is no character"
    return None


def number_of(identifier: str) -> str | None:
    """Return the number that an id reads as, in normal form, or None."""
    if len(identifier) > _LONGEST_NUMBER or _NUMBER.fullmatch(identifier) is None:
        return None
    value = Decimal(identifier)
    return str(_EXACT.normalize(value)) if value else "0"


def look_alikes(ids: Iterable[str]) -> list[tuple[str, str]]:
    """Return pairs of different ids that read as the same number: the first id with each later id."""
    first: dict[str, str] = {}
    pairs = []
    for identifier in ids:
        number = number_of(identifier)
        if number is not None and first.setdefault(number, identifier) != identifier:
            pairs.append((first[number], identifier))
    return pairs


class LookAlikes:
    """Finds the known id that reads as the same number as an unknown id."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._ids = ids
        self._by_number: dict[str, str] | None = None

    def hint(self, identifier: str) -> str:
        """Return the end of a sentence about an unknown id; empty without a similar id."""
        number = number_of(identifier)
        if number is None:
            return ""
        if self._by_number is None:  # built at the first unknown id; most files have none
            self._by_number = {}
            for known_id in self._ids:
                self._by_number.setdefault(number_of(known_id) or known_id, known_id)
        meant = self._by_number.get(number)
        return "" if meant is None else f"; {meant!r} is: was it read as a number on the way?"


def read_id(identifier: object, path: FilePath, line: int, what: str) -> str:
    """Return the id unchanged, or raise `FormatError` with `what` as its name."""
    problem = id_problem(identifier)
    if problem is not None:
        raise FormatError(path, line, f"the {what} {problem}", "id")
    return cast(str, identifier)


def writable_id(identifier: object, path: FilePath, what: str, *, blanks: bool = True) -> str:
    """Return the id unchanged, or raise `InputError` for an id that no reader could give back.

    `blanks=False` is for files with columns separated by blanks.
    """
    problem = id_problem(identifier)
    if problem is None and not blanks and cast(str, identifier).split() != [identifier]:
        problem = f"{identifier!r} holds a blank, which separates columns in this format; use another id"
    if problem is not None:
        raise InputError(f"{path}: cannot write: the {what} {problem}")
    return cast(str, identifier)


def sampled_digest(path: FilePath) -> str:
    """Return a digest of a file's size, its first and last megabyte and 32 samples between; reads 4 MB at most.

    A few bytes changed in the middle of a large file, at the same length, may go unnoticed.
    """
    size = os.path.getsize(path)
    digest = hashlib.sha256(str(size).encode())
    between = range(_EDGE, max(_EDGE, size - _EDGE), max(1, (size - 2 * _EDGE) // _N_SAMPLES))
    with open(path, "rb") as file:
        for offset, length in [(0, _EDGE), *((offset, _SAMPLE) for offset in between), (max(0, size - _EDGE), _EDGE)]:
            file.seek(offset)
            digest.update(file.read(length))
    return digest.hexdigest()


@contextmanager
def write_bytes_atomically(path: FilePath) -> Iterator[BinaryIO]:
    """Open a file for writing bytes that appears whole or not at all; gzipped when named ``.gz``.

    The bytes go to a temporary file in the same folder, which takes the name once it is on disk. An error removes the
    temporary file; the old file is untouched.
    """
    target = Path(os.path.realpath(path))  # a link stays a link; its target is replaced
    if target.exists() and not target.is_file():
        raise InputError(f"{path}: cannot write: this is not an ordinary file")
    try:
        with open_atomically(target) as binary:
            if target.suffix != ".gz":
                yield binary
                return
            # The gzip header has no name and no time: the same content gives the same file.
            with gzip.GzipFile(filename="", mode="wb", fileobj=binary, mtime=0) as packed:
                yield cast(BinaryIO, packed)
    except OSError as error:
        raise InputError(f"{path}: cannot write: {error.strerror or error}") from error


@contextmanager
def write_atomically(path: FilePath) -> Iterator[TextIO]:
    """Open a UTF-8 text file for writing, as `write_bytes_atomically` opens a file for bytes."""
    try:
        with write_bytes_atomically(path) as binary:
            text = io.TextIOWrapper(binary, encoding="utf-8", newline="\n")
            try:
                yield text
            finally:
                text.detach()  # flushes, and leaves the file open to be synced
    except UnicodeEncodeError as error:
        near = error.object[max(0, error.start - 20) : error.end + 20]
        raise InputError(f"{path}: cannot write {near!r}: it {surrogate_problem(near)}") from error


# -- JSON -------------------------------------------------------------------------------------------------------------


Pairs = Callable[[list[tuple[str, Any]]], dict[str, Any]]


def load_json(text: str, pairs: Pairs | None = None) -> Any:
    """Parse JSON; `ValueError` also for JSON that nests too deeply or holds too much."""
    opened = text.count("[") + text.count("{")
    if opened > limits.DEEPEST_JSON:
        refuse_deep_nesting(text, limits.DEEPEST_JSON)
    if len(text) > limits.MOST_VALUES and opened + text.count(",") > limits.MOST_VALUES:
        raise ValueError(f"it has more than {limits.MOST_VALUES:,} elements and keys, by its commas and brackets")
    return json.loads(text, object_pairs_hook=pairs)


def parse_json_object(text: str, path: FilePath, line: int) -> dict[str, Any]:
    """Parse a line with one JSON object; a key given twice is an error."""
    repeated: str | None = None

    def gather(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        # The parser finishes inner objects first: the last call is for the outer object.
        nonlocal repeated
        gathered = dict(pairs)
        repeated = None if len(gathered) == len(pairs) else first_repeated(key for key, _ in pairs)
        return gathered

    try:
        record = load_json(text, gather)
    except json.JSONDecodeError as error:
        raise FormatError(path, line, f"column {error.colno}: broken JSON: {error.msg}", "json") from error
    except (ValueError, RecursionError) as error:  # ValueError: also for a number with thousands of digits
        raise FormatError(path, line, f"the JSON cannot be taken in: {error}", "json") from error
    if not isinstance(record, dict):
        raise FormatError(path, line, f"found a JSON {_json_name(record)}; each line holds one object, {{…}}")
    if repeated is not None:
        raise FormatError(path, line, f'the key "{repeated}" occurs twice')
    return record


def _json_name(value: object) -> str:
    names = {
        type(None): "null",
        bool: "truth value",
        str: "string",
        int: "number",
        float: "number",
        list: "array",
        dict: "object",
    }
    return names[type(value)]
