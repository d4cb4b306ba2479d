"""FTRLRanker from chunks of a set that is never all in memory."""

from __future__ import annotations

import time
from functools import partial
from itertools import pairwise

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import tercet as tc
from support.forking import changed, kill_while
from support.memory import growth_of
from tercet.data import LetorData, write_letor
from tercet.data.letor import LetorStream
from tercet.errors import InputError, ParameterError

as_given = partial(tc.FTRLRanker, scale_features=False)


def made(n_queries: int, seed: int = 0, n_features: int = 6, dense: bool = True) -> LetorData:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, n_queries)
    X = (rng.random((sizes.sum(), n_features)) * (rng.random((sizes.sum(), n_features)) < 0.6)).astype(np.float32)
    X[0] = 1
    y = rng.integers(0, 3, sizes.sum())
    return LetorData(X if dense else sparse.csr_array(X), y, np.repeat([f"q{q}" for q in range(n_queries)], sizes))


def split_at(data: LetorData, at: list[int]) -> list[LetorData]:
    """Chunks of whole queries that begin at these queries."""
    bounds = [0, *sorted({position for position in at if 0 < position < data.n_queries}), data.n_queries]
    rows = [(data.starts[first], data.starts[last]) for first, last in pairwise(bounds)]
    return [LetorData(data.X[a:b], data.y[a:b], data.qid[a:b]) for a, b in rows]


def bits(ranker: tc.FTRLRanker) -> list[bytes]:
    state = ranker._state
    return [array.tobytes() for array in (ranker.coef_, state.z, state.G, state.w)] + [str(ranker.n_steps_).encode()]


RULES = [
    {},
    {"epochs": 3},
    {"per_feature": False, "epochs": 2},
    {"batch_size": 2, "epochs": 2},
    {"loss": "listnet"},
    {"normalise_pairs": True, "l1": 0.01},
]


@pytest.mark.slow
@given(
    st.integers(3, 25),
    st.integers(0, 10**6),
    st.lists(st.integers(0, 25), max_size=5),
    st.booleans(),
    st.sampled_from(RULES),
)
@settings(max_examples=50, deadline=None)
def test_a_stream_gives_the_bits_of_all_rows_at_once(n_queries, seed, at, dense, rules):
    data = made(n_queries, seed, dense=dense)
    whole = as_given(**{"l1": 0.1} | rules)
    chunks = split_at(data, at)
    try:
        whole.fit(data.X, data.y, data.qid)
    except InputError:
        with pytest.raises(InputError, match="nothing to learn from"):
            as_given(**rules).fit_stream(chunks)
        return
    streamed = as_given(**{"l1": 0.1} | rules).fit_stream(chunks)
    assert bits(streamed) == bits(whole)
    assert streamed.loss_ == pytest.approx(whole.loss_, rel=1e-12)
    partly = as_given(**{"l1": 0.1} | rules)
    for _ in range(partly.epochs):
        for chunk in chunks:
            partly.partial_fit(chunk.X, chunk.y, chunk.qid)
    assert bits(partly) == bits(whole)


@pytest.mark.parametrize("dense", [True, False])
def test_files_and_tuples_are_streams(dense, tmp_path):
    data = made(40, dense=dense)
    write_letor(tmp_path / "train.txt", data)
    whole = as_given(l1=0.1, epochs=2).fit(data.X, data.y, data.qid)
    for chunks in (
        LetorStream(tmp_path / "train.txt", chunk_bytes=300, dense=dense),
        [(chunk.X, chunk.y, chunk.qid) for chunk in split_at(data, [5])],
    ):
        output = []
        ranker = as_given(l1=0.1, epochs=2).fit_stream(chunks, progress=output.append)
        assert bits(ranker) == bits(whole)
        assert [one.n_rows for one in output if one.epoch == 1][-1] == len(data)
        assert np.array_equal(ranker.predict(data.X), whole.predict(data.X))


def test_a_learned_ranker_is_saved_and_learns_on(tmp_path):
    data = made(30)
    as_given(l1=0.1).fit_stream(split_at(data, [10])).save(tmp_path / "m")
    again = tc.load(tmp_path / "m").partial_fit(data.X, data.y, data.qid)
    assert bits(again) == bits(as_given(l1=0.1, epochs=2).fit(data.X, data.y, data.qid))


def test_what_cannot_be_learned_from_is_refused():
    data = made(10)
    wide = made(10, n_features=7)
    for ranker, chunks, error, message in (
        (as_given(shuffle=True), [data], ParameterError, "shuffle=True needs all queries in memory"),
        (as_given(epochs=2), iter([data]), InputError, "an iterator can be used once"),
        (as_given(), [], InputError, "the stream has no chunks"),
        (as_given(), [data, wide], InputError, "chunk 1 has 7 features, those before have 6"),
        (as_given(), [data, split_at(data, [9])[1]], InputError, "begins with query 'q9', in which chunk 0 ends"),
        (as_given(l1=-1), [data], ParameterError, "l1"),
        (as_given(), data, InputError, "chunks is a LetorData; expected an iterable of chunks"),
        (as_given(), (data.X, data.y, data.qid), InputError, "chunk 0 is a ndarray; expected an iterable"),
        (as_given(), [(data.X, data.y)], InputError, "chunk 0 is a tuple; expected an iterable of chunks"),
        (as_given(), {"train": data}, InputError, "chunk 0 is a str; expected an iterable of chunks"),
    ):
        with pytest.raises(error, match=message):
            ranker.fit_stream(chunks)
    assert bits(as_given().fit_stream(iter([data]))) == bits(as_given().fit(data.X, data.y, data.qid))


# -- checkpoints ------------------------------------------------------------------------------------------------------


class Stop(Exception):
    pass


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["text", "list", "frames"])
@pytest.mark.parametrize("stop", [1, 4, 5, 7])
def test_an_interrupted_stream_goes_on_to_the_same_bits(kind, stop, tmp_path):
    data = made(40)
    parts = split_at(data, [8, 16, 24, 32])
    write_letor(tmp_path / "train.txt", data)
    streams = {
        "text": lambda: LetorStream(tmp_path / "train.txt", chunk_bytes=400),
        "list": lambda: parts,
        "frames": lambda: [
            (pandas.DataFrame(part.X), pandas.Series(part.y), pandas.Series(part.qid)) for part in parts
        ],
    }
    chunks = streams[kind]()
    seen = []

    def interrupt(progress) -> None:
        seen.append(progress)
        if len(seen) == stop:
            raise Stop

    checkpoint = tc.Checkpoint(tmp_path / "c", every=1)
    with pytest.raises(Stop):
        as_given(l1=0.1, epochs=2).fit_stream(chunks, checkpoint=checkpoint, progress=interrupt)
    resumed = []
    ranker = as_given(l1=0.1, epochs=2).fit_stream(chunks, checkpoint=checkpoint, progress=resumed.append)
    assert bits(ranker) == bits(as_given(l1=0.1, epochs=2).fit(data.X, data.y, data.qid))
    assert resumed[0].learned > seen[-1].learned, "what was learned from before is not learned from again"
    output = []
    again = as_given(l1=0.1, epochs=2).fit_stream(chunks, checkpoint=checkpoint, progress=output.append)
    assert bits(again) == bits(ranker)
    assert [one.finished for one in output] == [True], "a finished run has nothing more to learn"


def test_checkpoints_are_as_rare_as_asked_and_only_for_their_own_run(tmp_path):
    data = made(60)
    parts = split_at(data, list(range(0, 60, 5)))
    written = []

    manifest = tmp_path / "c" / "manifest.json"
    checkpoint = tc.Checkpoint(tmp_path / "c", every=10)

    def note(progress) -> None:
        if manifest.exists():
            written.append(manifest.read_bytes())

    as_given(l1=0.1).fit_stream(parts, checkpoint=checkpoint, progress=note)
    assert 2 <= len(set(written)) <= 4
    for ranker, chunks in ((as_given(l1=0.2), parts), (as_given(l1=0.1), split_at(made(60, seed=1), [30]))):
        with pytest.raises(InputError, match="a checkpoint of another run"):
            ranker.fit_stream(chunks, checkpoint=checkpoint)


def test_a_killed_stream_goes_on_to_the_same_bits(tmp_path):
    data = made(400)
    write_letor(tmp_path / "train.txt", data)
    whole = as_given(l1=0.1, epochs=2).fit(data.X, data.y, data.qid)

    def learn(every: int, wait: float) -> tc.FTRLRanker:
        stream = LetorStream(tmp_path / "train.txt", chunk_bytes=2000)
        saved = tc.Checkpoint(tmp_path / "c", every=every)
        return as_given(l1=0.1, epochs=2).fit_stream(stream, checkpoint=saved, progress=lambda _: time.sleep(wait))

    learned = 0
    for after in (0.0, 0.004, 0.02):
        kill_while(lambda: learn(1, 0.01), changed(tmp_path / "c" / "manifest.json"), after)
        now = tc.store.read_bundle(tmp_path / "c").meta["progress"]
        assert now["learned"] > learned
        assert not now["finished"]
        learned = now["learned"]
    assert bits(learn(1000, 0)) == bits(whole)


MEMORY = """
import tercet as tc
from tercet.data.letor import LetorStream
def work(path):
    tc.FTRLRanker(l1=0.1).fit_stream(LetorStream(path, chunk_bytes=1 << 19))
work(sys.argv[1])
with Measured():
    work(sys.argv[2])
"""


@pytest.mark.slow
def test_memory_is_that_of_a_chunk_however_long_the_file(tmp_path):
    rng = np.random.default_rng(0)
    lines = [
        f"{n % 3} qid:{{}} " + " ".join(f"{j}:{value:.3f}" for j, value in enumerate(rng.random(40), start=1)) + "\n"
        for n in range(100)
    ]
    text = "".join(lines)
    for name, n in (("small", 30), ("large", 2_000)):
        with open(tmp_path / name, "w") as file:
            for query in range(n):
                file.write(text.replace("{}", str(query)))
    # All 200,000 rows of 40 features are 32 MB.
    assert growth_of(MEMORY, tmp_path / "small", tmp_path / "large") < 12_000_000
