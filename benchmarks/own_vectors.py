"""Own vectors beside words on NFCorpus: static vectors of the wheel ``wordllama``, as they are, by a map, with words.

Vectors are the mean of the token vectors that the wheel ships (256 numbers), made unit length; nothing is downloaded.
A map, and its weight beside words, are learned and chosen on training queries alone; development queries are looked at
once. ``pip install wordllama``.
"""

from __future__ import annotations

# Before anything numerical is imported.
import one_thread  # noqa: F401

# isort: split

import argparse
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file
from tercet.fitting.texts import JudgementRows

import tercet as tc
from common import Clock, machine_facts, parse_arguments, print_facts, print_table, write_json
from tercet.data import read_beir
from tercet.data.own_vectors import OwnVectors
from tercet.fitting.hybrid import SETTINGS
from tercet.learn.vector_map import MapSetting, learned_map, vector_map
from tercet.measure import HeldOutQueries, paired_test

QUICK_STEPS = 2_000


class StaticVectors:
    """Texts as the mean of the vectors of their tokens."""

    def __init__(self) -> None:
        from tokenizers import Tokenizer

        spec = find_spec("wordllama")
        if spec is None or spec.origin is None:
            raise SystemExit("the wheel wordllama is not installed; it ships the vectors")
        folder = Path(spec.origin).parent
        self._tokens = Tokenizer.from_file(str(folder / "tokenizers/l2_supercat_tokenizer_config.json"))
        self._tokens.no_padding()
        self._tokens.no_truncation()
        self._vectors = load_file(folder / "weights/l2_supercat_256.safetensors")["embedding.weight"].astype(np.float32)

    def of(self, texts: dict[str, str]) -> OwnVectors:
        matrix = np.zeros((len(texts), self._vectors.shape[1]), dtype=np.float32)
        for row, encoded in enumerate(self._tokens.encode_batch(list(texts.values()), add_special_tokens=False)):
            if encoded.ids:
                matrix[row] = self._vectors[encoded.ids].mean(axis=0)
        lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
        return OwnVectors(tuple(texts), matrix / np.where(lengths > 0, lengths, 1))


def main() -> None:
    arguments = parse_arguments(__doc__)
    texts = read_beir(arguments.data_home / "nfcorpus")
    docs = tc.as_documents(texts.docs)
    static = StaticVectors()
    unstemmed = docs.columns.get("unstemmed", [None] * len(docs))
    whole = {doc_id: text or docs[doc_id] for doc_id, text in zip(docs, unstemmed, strict=True)}
    doc_vectors, query_vectors = static.take(whole), static.take(dict(texts.queries))
    train, dev = texts.qrels["train"], texts.qrels["dev"]
    steps = {"n_steps": QUICK_STEPS} if arguments.quick else {}
    asked = {qid: texts.queries[qid] for qid in train}
    settings = {"random_state": arguments.seed, "verbose": False, **steps}

    clock, by_words = Clock(), Clock()
    with by_words.running():
        words = tc.fit(docs, asked, train, **settings)
    with clock.running():
        both = tc.fit(docs, asked, train, doc_vectors=doc_vectors, query_vectors=query_vectors, **settings)
    assert words.report is not None
    assert both.report is not None

    asked_of = {qid: texts.queries[qid] for qid in dev}
    rows = {qid: row for row, qid in enumerate(asked_of)}, {doc_id: row for row, doc_id in enumerate(docs)}
    tested = docs.with_vectors(doc_vectors)

    def measured(model: tc.TextModel) -> HeldOutQueries:
        own = query_vectors.take(asked_of) if model.n_dims else None
        Q, D = model.queries(list(asked_of.values()), own), model.docs(tested)
        return HeldOutQueries.from_qrels(dev, Q, D, *rows)

    layout = tc.text.FieldedVectorizer.with_dims(words.doc_vectorizer, doc_vectors.n_dims)
    side_by_side = tc.TextModel(
        layout, layout, vector_map(np.eye(doc_vectors.n_dims, dtype=np.float32), layout.layout_)
    )
    held_out = measured(side_by_side)
    bm25 = tc.TextModel.bm25(list(docs.values()))
    evaluations = {
        "BM25": measured(bm25).evaluate(bm25.weights),
        "own vectors, as they are": held_out.evaluate(side_by_side.weights),
    }
    for setting in SETTINGS[1:]:
        M = mapped(train, asked, docs, doc_vectors, query_vectors, setting, arguments)
        evaluations[f"own vectors, {setting.label}"] = held_out.evaluate(vector_map(M, layout.layout_))
    evaluations["learned words"] = measured(words).evaluate(words.weights)
    evaluations["learned words, own vectors offered"] = measured(both).evaluate(both.weights)
    table = [
        [name, f"{one.mean('nDCG@10'):.4f}", f"{paired_test(one, evaluations['learned words']).difference:+.4f}"]
        for name, one in evaluations.items()
    ]
    facts = machine_facts()
    print_facts(facts)
    print_table("development queries", ["system", "nDCG@10", "against learned words"], table)
    notes = [note for note in both.report.notes if note.startswith("Own vectors")]
    print("\n".join(notes))
    ratio = clock.processor / by_words.processor
    print(f"processor time with vectors offered: {ratio:.2f} of that without ({by_words.processor:.0f} s)")
    write_json(
        arguments.output,
        {"facts": facts, "table": table, "notes": notes, "ratio": ratio, "seconds": by_words.processor},
    )


def mapped(
    train: dict[str, dict[str, int]],
    asked: dict[str, str],
    docs: tc.Documents,
    doc_vectors: OwnVectors,
    query_vectors: OwnVectors,
    setting: MapSetting,
    arguments: argparse.Namespace,
) -> NDArray[np.float32]:
    """The map by itself, from all training judgements."""
    query_rows, doc_rows = ({one: row for row, one in enumerate(ids)} for ids in (asked, docs))
    sampler = JudgementRows.from_qrels(train, query_rows, doc_rows, "nDCG@10").sampler()
    n_steps = QUICK_STEPS if arguments.quick else 100_000
    seed = arguments.seed
    pair = query_vectors.take(asked, "query"), doc_vectors.take(docs)
    return learned_map(*pair, sampler, setting, n_steps=n_steps, random_state=seed)


if __name__ == "__main__":
    main()
