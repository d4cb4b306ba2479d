"""A small model to export, and readers of what engines would read."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import numpy as np
from scipy import sparse

import tercet as tc
from tercet.weights import Identity, Sparse

DOCS = {
    "d1": "ice hockey puck",
    "d2": "baseball bat ball ball",
    "d3": "hockey stick and puck puck",
    "007": "quiet library",
}


def small_model(pairs: dict[tuple[str, str], float], *, weighting: str = "bm25", identity: float = 1.0) -> tc.TextModel:
    words = tc.Vectorizer(weighting=weighting).fit(DOCS.values())
    n = len(words.words_)
    W = sparse.lil_array((n, n), dtype=np.float32)
    for (query_word, doc_word), weight in pairs.items():
        W[words.index_[query_word], words.index_[doc_word]] = weight
    return tc.TextModel(words, words, tc.Weights([Identity(n_terms=n, scale=identity), Sparse(weights=W.tocsr())]))


def split_unescaped(text: str, separator: str) -> list[str]:
    """As Lucene's parser of synonyms cuts a line: at a separator wherever it stands, unless it is escaped."""
    parts, at = [""], 0
    while at < len(text):
        if text.startswith(separator, at):
            parts.append("")
            at += len(separator)
        else:
            size = 2 if text[at] == "\\" else 1
            parts[-1] += text[at : at + size]
            at += size
    return [part.strip() for part in parts]


def read_synonyms(path: Path) -> tuple[list[str], dict[str, list[tuple[str, float | None]]]]:
    """A reader by the rules of Solr's format: comments, backslashes, arrows, commas; then the boost after a bar."""
    comments, found = [], {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            comments.append(line)
            continue
        left, right = split_unescaped(line, "=>")
        [asked] = split_unescaped(left, ",")
        words = []
        for entry in split_unescaped(right, ","):
            word, _, boost = re.sub(r"\\(.)", r"\1", entry).partition("|")
            words.append((word, float(boost) if boost else None))
        found[re.sub(r"\\(.)", r"\1", asked)] = words
    return comments, found


class Messages:
    """A decoder of delimited protobuf messages, by the rules of the wire format."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def next(self) -> dict[int, list]:
        size = self.varint()
        inside = Messages(self.data[self.at : self.at + size])
        assert len(inside.data) == size
        self.at += size
        return inside.fields()

    def fields(self) -> dict[int, list]:
        found: dict[int, list] = {}
        while self.at < len(self.data):
            field, wire = divmod(self.varint(), 8)
            if wire == 0:
                value: object = self.varint()
            elif wire == 1:
                [value] = struct.unpack("<d", self.data[self.at : self.at + 8])
                self.at += 8
            else:
                assert wire == 2
                size = self.varint()
                value = self.data[self.at : self.at + size]
                assert len(value) == size
                self.at += size
            found.setdefault(field, []).append(value)
        return found


def one(fields: dict[int, list], number: int, default: object = 0) -> object:
    [value] = fields.get(number, [default])
    return value


def engine_chain(settings: dict, folder: Path) -> dict:
    """The analyzer that `index_settings` tells Elasticsearch of, by Lucene's factories."""
    analysis = settings["settings"]["analysis"]
    words = analysis["tokenizer"]["tercet_words"]
    filters = []
    for name in analysis["analyzer"]["tercet"]["filter"]:
        output = analysis["filter"].get(name, {"type": name})
        if output["type"] == "stop":
            (folder / "stop.txt").write_text("\n".join(output["stopwords"]), encoding="utf-8")
            filters.append(["stop", {"words": "stop.txt"}])
        elif output["type"] == "snowball":
            filters.append(["snowballPorter", {"language": output["language"]}])
        else:
            filters.append([output["type"], {}])
    tokenizer = [words["type"], {"pattern": words["pattern"], "group": words["group"]}]
    return {"folder": str(folder), "tokenizer": tokenizer, "filter": filters}
