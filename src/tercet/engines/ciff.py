"""The Common Index File Format, which PISA, JASS, Lucene and others read: one protobuf message after the other.

A file is a Header, then a PostingsList for each word, then a DocRecord for each document, each with its length in front
as a varint. Fields, with their numbers:

    Header        version 1, num_postings_lists 2, num_docs 3, total_postings_lists 4, total_docs 5,
                  total_terms_in_collection 6, average_doclength 7 (double), description 8 (string)
    PostingsList  term 1 (string), df 2, cf 3, postings 4 (repeated: docid 1 as a gap, tf 2)
    DocRecord     docid 1, collection_docid 2 (string), doclength 3

Numbers are varints, and fields of zero are left out, as proto3 has it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Final

import numpy as np

from tercet.data.lines import write_bytes_atomically
from tercet.engines.impacts import ImpactRows, Impacts
from tercet.fitting.text_model import TextModel

_VERSION: Final = 1
_VARINT, _DOUBLE, _BYTES = 0, 1, 2  # wire types


def write_ciff(
    path: str | PathLike[str],
    model: TextModel,
    docs: Mapping[str, str],
    *,
    max_terms: int = 256,
    bits: int = 10,
    queries: Iterable[str] | None = None,
    mean_terms: int = 128,
) -> Impacts:
    """Write documents as a CIFF index whose term frequencies are impacts; score with their plain sum.

    Parameters as those of `ImpactRows`. A document's length is the sum of its impacts. Words stand in the order of
    their bytes, documents in that of ``docs``.

    Notes
    -----
    Two passes over the documents; all postings are in memory in between, 16 bytes each.

    Examples
    --------
    >>> import tempfile
    >>> from tercet import TextModel
    >>> docs = {"a": "ice hockey", "b": "green tea"}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_ciff(f"{folder}/index.ciff", TextModel.bm25(docs.values()), docs).n_docs
    2
    """
    rows = ImpactRows(model, docs, max_terms=max_terms, bits=bits, queries=queries, mean_terms=mean_terms)
    all_columns, all_impacts, sizes, lengths, ids = [], [], [], [], []
    for doc_id, columns, impacts in rows:
        all_columns.append(columns.astype(np.int32))
        all_impacts.append(impacts.astype(np.int32))
        sizes.append(columns.size)
        lengths.append(int(impacts.sum()))
        ids.append(doc_id)
    column, impact = np.concatenate(all_columns), np.concatenate(all_impacts)
    doc = np.repeat(np.arange(len(ids), dtype=np.int32), sizes)
    order = np.argsort(column, kind="stable")  # documents stay in order within a word
    column, impact, doc = column[order], impact[order], doc[order]
    used, first = np.unique(column, return_index=True)
    ends = np.append(first[1:], column.size)[: used.size]  # none where no document has a word
    summary = rows.summary()
    description = (
        f"Impacts of a Tercet model, {bits} bits: one is {summary.step:.6g} of a score, off by at most "
        f"{summary.max_error:.6g}. {summary.n_negative} negative impacts were left out."
    )
    # In the order of code points, which is that of UTF-8 bytes, too.
    lists = sorted(zip(used.tolist(), first.tolist(), ends.tolist(), strict=True), key=lambda each: rows.words[each[0]])
    with write_bytes_atomically(path) as file:
        header = (
            _number(1, _VERSION)
            + _number(2, used.size)
            + _number(3, len(ids))
            + _number(4, used.size)
            + _number(5, len(ids))
            + _number(6, sum(lengths))
            + _double(7, sum(lengths) / len(ids))
            + _text(8, description)
        )
        file.write(_delimited(header))
        for word, start, stop in lists:
            gaps = np.diff(doc[start:stop], prepend=np.int32(0))
            file.write(_delimited(_postings(rows.words[word], gaps.tolist(), impact[start:stop].tolist())))
        for number, (doc_id, length) in enumerate(zip(ids, lengths, strict=True)):
            file.write(_delimited(_number(1, number) + _text(2, doc_id) + _number(3, length)))
    return summary


def _postings(word: str, gaps: Iterable[int], impacts: list[int]) -> bytes:
    parts = [_text(1, word), _number(2, len(impacts)), _number(3, sum(impacts))]
    tag = _tag(4, _BYTES)
    for gap, impact in zip(gaps, impacts, strict=True):
        parts.append(tag + _delimited(_number(1, gap) + _number(2, impact)))
    return b"".join(parts)


def varint(value: int) -> bytes:
    """A number in groups of seven bits, lowest first; the top bit says that more follow.

    Examples
    --------
    >>> varint(300).hex()
    'ac02'
    """
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def _tag(field: int, wire: int) -> bytes:
    return varint(field << 3 | wire)


def _delimited(message: bytes) -> bytes:
    return varint(len(message)) + message


def _number(field: int, value: int) -> bytes:
    return _tag(field, _VARINT) + varint(value) if value else b""


def _double(field: int, value: float) -> bytes:
    return _tag(field, _DOUBLE) + struct.pack("<d", value) if value else b""


def _text(field: int, value: str) -> bytes:
    return _tag(field, _BYTES) + _delimited(value.encode("utf-8")) if value else b""
