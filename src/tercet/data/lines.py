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
from contextvars import ContextVar
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
# Takes what is wrong with a line, which is then left out; without one, a reader raises at the first.
Refused: TypeAlias = Callable[[FormatError], None]
T = TypeVar("T")

GZIP_MAGIC = b"\x1f\x8b"
_BZIP2_MAGIC = re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)")  # of a stream with data, and of an empty one
UTF8_MARK = b"\xef\xbb\xbf"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")

_SAMPLE, _N_SAMPLES, _EDGE = 1 << 16, 32, 1 << 20  # of `sampled_digest`
_ASCII_BLANKS = re.compile(r"[ \t\r\f\v]+")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,6})?", re.ASCII)
_LONGEST_NUMBER = 60
_EXACT = Context(prec=_LONGEST_NUMBER, Emax=MAX_EMAX, Emin=MIN_EMIN)
_BREAKS_A_ROW = re.compile(r"[\t\n\r]")


class DamagedBzip2(Exception):
    """What reading a bzip2 stream raises, which is otherwise an OSError like any other; no text for one cut short."""


PACKING_DAMAGE = (EOFError, gzip.BadGzipFile, zlib.error, DamagedBzip2)


def damage_message(error: BaseException) -> str:
    """Say what is wrong with a gzip or bzip2 stream, given the error that reading it raised."""
    packing = "bzip2" if isinstance(error, DamagedBzip2) else "gzip"
    if isinstance(error, EOFError) or not str(error):
        return f"the {packing} data ends in the middle; the file is truncated, fetch or compress it again"
    return f"the {packing} data is damaged ({error}); fetch or compress the file again"


class _Bzip2File(bz2.BZ2File):
    """Its damage is told from a disk that cannot be read."""

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
    """What is in a packed file, up to so many times its size; a pipe has none, and is read to its end."""

    def __init__(self, packed: gzip.GzipFile | bz2.BZ2File, path: FilePath) -> None:
        self._packed, self._path = packed, path
        status = os.fstat(packed.fileno())
        self._size = status.st_size if stat.S_ISREG(status.st_mode) else None
        self._packing = "bzip2" if isinstance(packed, bz2.BZ2File) else "gzip"

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._packed.seek(offset, whence)

    def tell(self) -> int:
        return self._packed.tell()

    def fileno(self) -> int:
        return self._packed.fileno()

    def readinto(self, buffer: Any) -> int:
        n_read = self._packed.readinto(buffer)
        if self._size is not None:
            limits.check_unpacked(self._path, self._packed.tell(), self._size, self._packing)
        return n_read


@contextmanager
def open_bytes(path: FilePath) -> Iterator[BinaryIO]:
    """Open a file for reading bytes, decompressed when it begins with the magic of gzip or bzip2.

    A missing or unreadable file and a damaged stream raise `FormatError` without a line number.

    Examples
    --------
    >>> import gzip, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "packed")
    ...     _ = file.write_bytes(gzip.compress(b"abc"))
    ...     with open_bytes(file) as stream:
    ...         stream.read()
    b'abc'
    """
    try:
        raw = open(path, "rb")  # noqa: SIM115  (closed below; the two failures need different messages)
    except FileNotFoundError as error:
        raise FormatError(path, None, "there is no such file", "missing") from error
    except IsADirectoryError as error:
        raise FormatError(path, None, "this is a folder; a file is needed", "missing") from error
    except OSError as error:
        raise FormatError(path, None, f"the file cannot be opened: {error.strerror}", "missing") from error
    with watched(raw, path) as raw:
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
    """The name of an encoding of texts, the same however it is spelled; None where there is none of that name.

    Examples
    --------
    >>> codec_name("UTF8"), codec_name("hex"), codec_name("martian")
    ('utf-8', None, None)
    """
    try:
        with suppress(UnicodeError):
            b"x".decode(cast(str, encoding))  # Python looks for no codec where there is nothing to decode
        return codecs.lookup(cast(str, encoding)).name
    except (LookupError, TypeError, ValueError):
        return None


def decoding_error(path: FilePath, line: int, byte: int, offset: int, encoding: str, advice: str) -> FormatError:
    """Build the error for a byte that is not of the encoding; `offset` counts from the file's start."""
    which = f"byte 0x{byte:02x} at offset {offset} is not {encoding}"
    return FormatError(path, line, f"{which}; {advice}", "encoding")


def open_lines(path: FilePath, refused: Refused | None = None) -> Generator[tuple[int, str], None, None]:
    r"""Yield `(line_number, text)` for each line of a UTF-8 file, without its line end, as it is read.

    Lines end at ``\n`` or ``\r\n`` only, so that other Unicode separators stay inside ids and texts. A line that is
    not UTF-8 is handed to `refused`, if there is one, and left out.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "ids.txt")
    ...     _ = file.write_bytes(b"007\r\n1e5")
    ...     list(open_lines(file))
    [(1, '007'), (2, '1e5')]
    """
    number, offset = 0, 0
    with open_bytes(path) as stream:
        while True:
            raw = raw_line(stream, path, number + 1)
            if not raw:
                return
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


def raw_line(stream: BinaryIO, path: FilePath, number: int) -> bytes:
    """The bytes of the next line with its end, none at the end of the file; `number` is the line's."""
    try:
        raw = stream.readline(limits.LONGEST_LINE + 1)
    except PACKING_DAMAGE as error:
        raise FormatError(path, number, damage_message(error), "packing") from error
    if len(raw) > limits.LONGEST_LINE:
        raise limits.too_long(path, number)
    return raw


def line_text(raw: bytes, path: FilePath, number: int, offset: int) -> str:
    """The text of a line, without its line end and the file's byte order mark; `offset` is where the line begins."""
    start = 0
    if number == 1:
        if raw.startswith(UTF16_MARKS):
            advice = "the file is UTF-16; convert it, for instance: iconv -f UTF-16 -t UTF-8"
            raise FormatError(path, 1, advice, "encoding")
        start = len(UTF8_MARK) if raw.startswith(UTF8_MARK) else 0
    end = len(raw)
    if raw.endswith(b"\n"):
        end -= 2 if raw.endswith(b"\r\n") else 1
    try:
        return raw[start:end].decode("utf-8")
    except UnicodeDecodeError as error:
        wrong = start + error.start
        advice = "convert the file, for instance from Latin-1: iconv -f LATIN1 -t UTF-8"
        raise decoding_error(path, number, raw[wrong], offset + wrong, "UTF-8", advice) from error


def refuse(problem: FormatError, refused: Refused | None) -> None:
    """Hand what is wrong with a line to `refused`, or raise it where there is none."""
    if refused is None:
        raise problem
    refused(problem)


def parsed_lines(
    path: FilePath,
    parse: Callable[[str, int], T],
    refused: Refused | None = None,
    lines: Iterable[tuple[int, str]] | None = None,
) -> Generator[tuple[int, T], None, None]:
    """Yield `(line_number, parse(text, line_number))` for each line that is not blank.

    A `FormatError` of `parse`, too, is handed to `refused`, if there is one. `lines` are those of a file that is not
    UTF-8.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "numbers")
    ...     _ = file.write_text("1\\n\\nx\\n3\\n")
    ...     list(parsed_lines(file, lambda text, line: parse_int(text, "f", line, "number"), print))
    f:3: number 'x'; a whole number is needed
    [(1, 1), (4, 3)]
    """
    for line, text in open_lines(path, refused) if lines is None else lines:
        if not text.strip():
            continue
        try:
            parsed = parse(text, line)
        except FormatError as error:
            refuse(error, refused)
        else:
            yield line, parsed


def within_a_line(lines: Iterable[tuple[int, str]], most: int) -> list[tuple[int, str]]:
    """The first lines, so many at most, of those that together are no longer than one may be; at least one."""
    first: list[tuple[int, str]] = []
    length = 0
    for number, text in islice(lines, most):
        length += len(text)
        if first and length > limits.LONGEST_LINE:
            break
        first.append((number, text))
    return first


def find_line(path: FilePath, matches: Callable[[str], bool]) -> int:
    """Return the number of the first line for which `matches` is true, by reading the file again.

    Used to name the first of two conflicting lines, so that good files pay nothing for it.
    """
    for number, text in open_lines(path):
        if matches(text):
            return number
    raise FormatError(path, None, "the file changed while it was read; read it again")


def split_columns(text: str) -> list[str]:
    """Split at runs of ASCII blanks, as the TREC tools do, so that other Unicode spaces stay inside ids.

    Beyond `limits.MOST_VALUES` columns the rest is one.
    """
    if text.isascii():
        return text.split(maxsplit=limits.MOST_VALUES)
    stripped = text.strip(" \t\r\f\v")
    return _ASCII_BLANKS.split(stripped, maxsplit=limits.MOST_VALUES) if stripped else []


def parse_float(text: str, path: FilePath, line: int, what: str) -> float:
    """Parse a finite decimal number; `what` names it in the error.

    Examples
    --------
    >>> parse_float("0.5", "run.txt", 1, "score")
    0.5
    """
    try:
        value = float(text)
    except ValueError as error:
        raise FormatError(path, line, f"{what} {text!r}; a number is needed") from error
    if "_" in text or not text.isascii():  # float() takes 1_000 and ١; no other tool would
        raise FormatError(path, line, f"{what} {text!r}; a number in plain digits is needed")
    if not math.isfinite(value):
        raise FormatError(path, line, f"{what} {text!r}; a finite number is needed")
    return value


def parse_int(text: str, path: FilePath, line: int, what: str) -> int:
    """Parse a whole number that fits 64 bits; `what` names it in the error.

    Examples
    --------
    >>> parse_int("-1", "qrels.txt", 1, "grade")
    -1
    """
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
    """Say why a value cannot be an id, or None when it can."""
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
    """Say that a string holds half a surrogate pair, which UTF-8 cannot write, or None when it does not."""
    if text.isascii():  # known without looking, as it is of most
        return None
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        return f"holds half a surrogate pair, \\u{ord(text[error.start]):04x}, which is no character"
    return None


def number_of(identifier: str) -> str | None:
    """Return the number that an id reads as, in one form for all ways to write it, or None.

    Examples
    --------
    >>> number_of("007"), number_of("7.0"), number_of("1e5") == number_of("100000"), number_of("d7")
    ('7', '7', True, None)
    """
    if len(identifier) > _LONGEST_NUMBER or _NUMBER.fullmatch(identifier) is None:
        return None
    value = Decimal(identifier)
    return str(_EXACT.normalize(value)) if value else "0"


def look_alikes(ids: Iterable[str]) -> list[tuple[str, str]]:
    """Pairs of different ids that read as the same number: the first id of a number with each later one.

    Examples
    --------
    >>> look_alikes(["007", "d1", "7", "1e5", "7.0"])
    [('007', '7'), ('007', '7.0')]
    """
    first: dict[str, str] = {}
    pairs = []
    for identifier in ids:
        number = number_of(identifier)
        if number is not None and first.setdefault(number, identifier) != identifier:
            pairs.append((first[number], identifier))
    return pairs


class LookAlikes:
    """Tells of an unknown id which known one it would be, had a program not read it as a number.

    Examples
    --------
    >>> LookAlikes(["007", "d1"]).hint("7")
    "; '007' is: was it read as a number on the way?"
    """

    def __init__(self, ids: Iterable[str]) -> None:
        self._ids = ids
        self._by_number: dict[str, str] | None = None

    def hint(self, identifier: str) -> str:
        """The end of a sentence that says the id is unknown; empty where it is like no other."""
        number = number_of(identifier)
        if number is None:
            return ""
        if self._by_number is None:  # most files have no unknown id, and need no such table
            self._by_number = {}
            for other in self._ids:
                self._by_number.setdefault(number_of(other) or other, other)
        meant = self._by_number.get(number)
        return "" if meant is None else f"; {meant!r} is: was it read as a number on the way?"


def read_id(identifier: object, path: FilePath, line: int, what: str) -> str:
    """Return the id as it is, or raise `FormatError` naming `what` it is the id of."""
    problem = id_problem(identifier)
    if problem is not None:
        raise FormatError(path, line, f"the {what} {problem}", "id")
    return cast(str, identifier)


def writable_id(identifier: object, path: FilePath, what: str, *, blanks: bool = True) -> str:
    """Return the id as it is, or raise `InputError` when a reader could not give it back.

    `blanks=False` is for files whose columns are separated by blanks.
    """
    problem = id_problem(identifier)
    if problem is None and not blanks and cast(str, identifier).split() != [identifier]:
        problem = f"{identifier!r} holds a blank, which separates columns in this format; use another id"
    if problem is not None:
        raise InputError(f"{path}: cannot write: the {what} {problem}")
    return cast(str, identifier)


def sampled_digest(path: FilePath) -> str:
    """A digest of a file's size, its first and last megabyte and 32 places between; reads 4 MB at most.

    Whatever is appended, cut off, written anew or exchanged changes it. A few bytes changed in the middle of a large
    file, at the same length, may not: to notice that, all of it would have to be read before every resumption.
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

    The bytes go to a temporary file in the same folder, which takes the name once it is on disk. If the
    block raises, the temporary file is removed and whatever had the name before is untouched.
    """
    target = Path(os.path.realpath(path))  # through a link: the link stays, what it names is replaced
    if target.exists() and not target.is_file():
        raise InputError(f"{path}: cannot write: this is not an ordinary file")
    try:
        with open_atomically(target) as binary:
            if target.suffix != ".gz":
                yield binary
                return
            # No name and no time inside, so that the same bytes give the same file.
            with gzip.GzipFile(filename="", mode="wb", fileobj=binary, mtime=0) as packed:
                yield cast(BinaryIO, packed)
    except OSError as error:
        raise InputError(f"{path}: cannot write: {error.strerror or error}") from error


@contextmanager
def write_atomically(path: FilePath) -> Iterator[TextIO]:
    """Open a UTF-8 text file for writing, as `write_bytes_atomically` opens one for bytes.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "greeting.txt")
    ...     with write_atomically(file) as stream:
    ...         _ = stream.write("hello")
    ...     file.read_text()
    'hello'
    """
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


# -- progress of reading ----------------------------------------------------------------------------------------------


# Takes a file, how many of its bytes (packed ones, where it is packed) were read, and how many there are.
Watcher: TypeAlias = Callable[[FilePath, int, int], None]
READ_AT_ONCE = 1 << 17

_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watch_reading(watcher: Watcher | None) -> Iterator[None]:
    """Tell `watcher` how far every file that is opened within the block has been read; None tells nobody.

    It is called about every 128 kB with the file, the bytes read and the size of the file, and a last time, with the
    size twice, when the file is closed. A watched file costs a call for each 128 kB, and any other nothing.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "ids.txt")
    ...     _ = file.write_text("007\\n")
    ...     with watch_reading(lambda path, done, size: print(path.name, done, size)):
    ...         with watched(open(file, "rb"), file) as stream:
    ...             _ = stream.read()
    ids.txt 4 4
    ids.txt 4 4
    """
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


class _WatchedFile(io.RawIOBase):
    """A file that tells how far it was read."""

    def __init__(self, raw: io.FileIO, path: FilePath, watcher: Watcher) -> None:
        self._raw, self._path, self._watcher = raw, path, watcher
        self._size, self._done = os.fstat(raw.fileno()).st_size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._done = self._raw.seek(offset, whence)
        return self._done

    def fileno(self) -> int:
        return self._raw.fileno()

    def readinto(self, buffer: Any) -> int:
        n_read = self._raw.readinto(buffer)
        if n_read:
            self._done += n_read
            self._watcher(self._path, self._done, max(self._size, self._done))
        return n_read

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
            size = max(self._size, self._done)
            self._watcher(self._path, size, size)
        super().close()


def watched(stream: io.BufferedReader, path: FilePath) -> io.BufferedReader:
    """The same stream, telling the watcher there is, if any, how far it is read."""
    watcher = _watcher.get()
    if watcher is None:
        return stream
    return io.BufferedReader(_WatchedFile(cast(io.FileIO, stream.detach()), path, watcher), READ_AT_ONCE)


# -- JSON -------------------------------------------------------------------------------------------------------------


Pairs = Callable[[list[tuple[str, Any]]], dict[str, Any]]


def load_json(text: str, pairs: Pairs | None = None) -> Any:
    """A JSON value; `ValueError` also for one that nests too deeply or holds too much.

    Examples
    --------
    >>> load_json("[" * 200)
    Traceback (most recent call last):
    ValueError: nested deeper than 100 levels
    """
    opened = text.count("[") + text.count("{")
    if opened > limits.DEEPEST_JSON:
        refuse_deep_nesting(text, limits.DEEPEST_JSON)
    if len(text) > limits.MOST_VALUES and opened + text.count(",") > limits.MOST_VALUES:
        raise ValueError(f"it has more than {limits.MOST_VALUES:,} elements and keys, by its commas and brackets")
    return json.loads(text, object_pairs_hook=pairs)


def parse_json_object(text: str, path: FilePath, line: int) -> dict[str, Any]:
    """Parse one line that holds one JSON object; a key given twice is an error, since a value would be lost.

    Examples
    --------
    >>> parse_json_object('{"query": "007"}', "prefs.jsonl", 1)
    {'query': '007'}
    """
    repeated: str | None = None

    def gather(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        # Objects are finished innermost first, so what the last call leaves belongs to the outer object.
        nonlocal repeated
        gathered = dict(pairs)
        repeated = None if len(gathered) == len(pairs) else first_repeated(key for key, _ in pairs)
        return gathered

    try:
        record = load_json(text, gather)
    except json.JSONDecodeError as error:
        raise FormatError(path, line, f"column {error.colno}: broken JSON: {error.msg}", "json") from error
    except (ValueError, RecursionError) as error:  # also a number of thousands of digits
        raise FormatError(path, line, f"the JSON cannot be taken in: {error}", "json") from error
    if not isinstance(record, dict):
        raise FormatError(path, line, f"found a JSON {_json_name(record)}; each line holds one object, {{…}}")
    if repeated is not None:
        raise FormatError(path, line, f'the key "{repeated}" occurs twice')
    return record


def json_field(record: dict[str, Any], key: str, path: FilePath, line: int) -> Any:
    """Return a key's value; a missing key is an error that lists the keys there are."""
    if key not in record:
        keys = ", ".join(f'"{name}"' for name in record) or "none"
        raise FormatError(path, line, f'the key "{key}" is missing; found {keys}')
    return record[key]


def json_text(record: dict[str, Any], key: str, path: FilePath, line: int) -> str:
    """Return a key's value, which must be a string of real characters."""
    value = json_field(record, key, path, line)
    if not isinstance(value, str):
        raise FormatError(path, line, f'"{key}" is a JSON {_json_name(value)}; a string is needed')
    problem = surrogate_problem(value)
    if problem is not None:
        raise FormatError(path, line, f'"{key}" {problem}')
    return value


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
