"""Sources, early stopping, callbacks, checkpoints and resuming."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tercet as tc
from support.forking import changed, kill_while
from support.learners import Killed, judged, kill_at, same_bits
from support.random_data import random_preferences, random_texts
from support.sources import TopSource
from tercet import Preferences
from tercet.errors import BundleError, InputError, ParameterError
from tercet.learn.loop import CHUNK
from tercet.learn.sources import BLOCK, ArraySource

N_STEPS = 3 * CHUNK + 100


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    Q, D = random_texts(rng, 50, 30), random_texts(rng, 60, 30)
    return Q, D, random_preferences(rng, N_STEPS, 50, 60)


def sources(kind, data):
    Q, D, prefs = data
    return {
        "array": lambda: prefs,
        "shuffled": lambda: ArraySource(prefs, shuffle=True, random_state=3),
        "sampled": lambda: tc.learn.SampledSource(judged(Q, D), 2 * BLOCK + 77, random_state=4),
        "top": lambda: TopSource(judged(Q, D), Q, D, 3 * BLOCK),
    }[kind]()


def held_out(data):
    Q, D, _ = data
    prefs = random_preferences(np.random.default_rng(9), 200, 50, 60)

    def validation(weights):
        margins = weights.score_rows(Q[prefs.query], D[prefs.better]) - weights.score_rows(
            Q[prefs.query], D[prefs.worse]
        )
        return float((margins > 0).mean())

    return validation


# -- checkpoints -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["array", "shuffled", "sampled", "top"])
@pytest.mark.parametrize("validated", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        tc.DenseRanker,
        tc.DiagonalRanker,
        lambda: tc.LowRankRanker(n_components=4),
        lambda: tc.LowRankRanker(n_components=4, start="lsi", learn_documents=False, rate=1.0),
        lambda: tc.SparseRanker(l1=1e-4, refit=False),
    ],
)
def test_a_resumed_run_has_the_bits_of_an_unbroken_one(make, validated, kind, data, tmp_path):
    check_resuming(make, validated, kind, data, tmp_path)


def check_resuming(make, validated, kind, data, tmp_path):
    Q, D, _ = data
    validation = held_out(data) if validated else None
    whole = make().set_params(patience=None, validate_every=3000).fit(Q, sources(kind, data), D, validation)
    for stop in (5000, 9000):
        with pytest.raises(Killed):
            make().set_params(patience=None, validate_every=3000).fit(
                Q,
                sources(kind, data),
                D,
                validation,
                [tc.Checkpoint(tmp_path / "c", every=2000), kill_at(stop)],
            )
    resumed = make().set_params(patience=None, validate_every=3000)
    resumed.fit(Q, sources(kind, data), D, validation, [tc.Checkpoint(tmp_path / "c", every=2000)])
    assert same_bits(whole.weights_, resumed.weights_)
    assert resumed.n_steps_ == whole.n_steps_
    assert resumed.history_[0].step > 2000, "nothing was resumed"


def test_a_finished_run_is_not_run_again(data, tmp_path):
    Q, D, prefs = data
    first = tc.DenseRanker().fit(Q, prefs, D, callbacks=[tc.Checkpoint(tmp_path / "c")])
    again = tc.DenseRanker().fit(Q, prefs, D, callbacks=[tc.Checkpoint(tmp_path / "c")])
    assert same_bits(first.weights_, again.weights_)
    assert again.history_ == []


@pytest.mark.parametrize("change", ["preferences", "rate", "data", "seed"])
def test_a_checkpoint_of_another_run_is_refused(change, data, tmp_path):
    Q, D, prefs = data
    ranker = tc.LowRankRanker(n_components=3)
    ranker.fit(Q, prefs, D, callbacks=[tc.Checkpoint(tmp_path / "c")])
    if change == "preferences":
        prefs = prefs[::-1]
    elif change == "rate":
        ranker.set_params(rate=0.05)
    elif change == "seed":
        ranker.set_params(random_state=1)
    else:
        Q = Q * np.float32(0.5)
    with pytest.raises(InputError, match="checkpoint of another run"):
        ranker.fit(Q, prefs, D, callbacks=[tc.Checkpoint(tmp_path / "c")])


def test_a_checkpoint_that_cannot_be_written_is_refused_before_the_first_step(data, tmp_path):
    Q, D, prefs = data
    (tmp_path / "notes.txt").write_text("not ours")
    output = []
    with pytest.raises(BundleError, match="not a Tercet bundle"):
        tc.DenseRanker().fit(Q, prefs, D, callbacks=[tc.Checkpoint(tmp_path), output.append])
    assert not output


@pytest.mark.parametrize("make", [tc.DenseRanker, tc.PrunedRanker, partial(tc.SparseRanker, refit=False)])
def test_a_run_by_numbers_of_numpy_is_that_by_plain_ones(make, data, tmp_path):
    Q, D, prefs = data
    plain = {"epochs": 2, "random_state": 3, "shuffle": True, "validate_every": 5000, "patience": 2}
    ranker = make(**plain).fit(Q, prefs, D, callbacks=[tc.Checkpoint(tmp_path / "kept")])
    numbers = {name: np.bool_(value) if value is True else np.int64(value) for name, value in plain.items()}
    again = make(**numbers).fit(Q, prefs, D, callbacks=[tc.Checkpoint(tmp_path / "kept")])
    assert same_bits(again.weights_, ranker.weights_)


def test_one_checkpoint_serves_one_run_after_another(data, tmp_path):
    Q, D, prefs = data
    writes = []

    class Noting(tc.Checkpoint):
        def write(self, run):
            super().write(run)
            writes.append(run.done)

    checkpoint = Noting(tmp_path / "c", every=1)
    ranker = tc.DenseRanker(epochs=3, shuffle=True)
    ranker.fit(Q, prefs, D, callbacks=[checkpoint])
    first, writes[:] = list(writes), []
    for file in (tmp_path / "c").iterdir():
        file.unlink()
    ranker.fit(Q, prefs, D, callbacks=[checkpoint])
    assert len(first) > 1
    assert writes == first


def test_a_damaged_checkpoint_is_an_error_not_a_fresh_start(data, tmp_path):
    Q, D, prefs = data
    tc.DenseRanker().fit(Q, prefs, D, callbacks=[tc.Checkpoint(tmp_path / "c")])
    arrays = next((tmp_path / "c").glob("arrays-*"))
    arrays.write_bytes(arrays.read_bytes()[:-1])
    with pytest.raises(BundleError):
        tc.DenseRanker().fit(Q, prefs, D, callbacks=[tc.Checkpoint(tmp_path / "c")])


def learned_from_many(folder: Path, pause: float = 0.0) -> tc.LowRankRanker:
    rng = np.random.default_rng(0)
    Q, D = random_texts(rng, 50, 30), random_texts(rng, 60, 30)
    prefs = random_preferences(rng, 40 * CHUNK, 50, 60)
    checkpoint = tc.Checkpoint(folder, every=1 if pause else 10**9)
    ranker = tc.LowRankRanker(n_components=4, random_state=2)
    return ranker.fit(Q, prefs, D, callbacks=[checkpoint, lambda event: time.sleep(pause)])


@pytest.mark.slow
def test_a_process_killed_for_real_resumes_to_the_same_bits(tmp_path):
    whole = learned_from_many(tmp_path / "whole")
    broken = tmp_path / "broken"
    for _ in range(2):
        kill_while(lambda: learned_from_many(broken, pause=0.02), changed(broken / "manifest.json"), after=0.05)
    resumed = learned_from_many(broken)
    assert resumed.history_[0].step > CHUNK
    assert same_bits(resumed.weights_, whole.weights_)


# -- validation, early stopping, callbacks -------------------------------------------------------------------------


def test_early_stopping_keeps_the_best_weights(data):
    Q, D, prefs = data
    values = iter([0.1, 0.5, 0.7, 0.6, 0.6, 0.65, 0.9])
    seen = []

    def validation(weights):
        seen.append((next(values), weights))
        return seen[-1][0]

    ranker = tc.DenseRanker(validate_every=1000, patience=2).fit(Q, prefs, D, validation)
    assert [value for value, _ in seen] == [0.1, 0.5, 0.7, 0.6, 0.6, 0.65]
    assert same_bits(ranker.weights_, seen[2][1])
    assert ranker.n_steps_ == 2000
    assert [e.validation for e in ranker.history_ if e.validation is not None] == [0.5, 0.7, 0.6, 0.6, 0.65]


def test_the_start_is_kept_when_learning_never_helps(data):
    Q, D, prefs = data
    values = iter([0.9, 0.5, 0.4, 0.3, 0.2])
    ranker = tc.DenseRanker(validate_every=1000, patience=3).fit(Q, prefs, D, lambda weights: next(values))
    np.testing.assert_array_equal(ranker.weights_.sparse.toarray(), np.eye(30))
    assert ranker.n_steps_ == 0


@pytest.mark.parametrize(("every", "n_validations"), [(100_000, 2), (CHUNK, 5), (N_STEPS, 2)])
def test_what_a_source_teaches_before_an_end_it_does_not_tell_is_validated(every, n_validations, data):
    Q, D, prefs = data
    source, output = OnePass(prefs), []

    def validation(weights):
        output.append(weights)
        return float(len(output))  # always better, so the last state is the best

    ranker = tc.DenseRanker(validate_every=every).fit(Q, source, D, validation)
    assert ranker.n_steps_ == N_STEPS
    assert same_bits(ranker.weights_, tc.DenseRanker().fit(Q, prefs, D).weights_)
    assert len(output) == n_validations  # nowhere twice


class OnePass(ArraySource):
    """Ends without having said when."""

    def __init__(self, prefs):
        super().__init__(prefs)
        self.n_steps = None

    def draw(self, step, weights):
        return super().draw(step, weights) if step < len(self.prefs) else Preferences([], [], [])


def test_several_passes_need_to_know_where_one_ends(data):
    Q, D, prefs = data
    with pytest.raises(ParameterError, match="epochs=2 needs to know where a pass ends"):
        tc.DenseRanker(epochs=2).fit(Q, OnePass(prefs), D)


def test_validation_must_be_a_finite_number(data):
    Q, D, prefs = data
    with pytest.raises(InputError, match="validation returned nan at step 0"):
        tc.DenseRanker().fit(Q, prefs, D, lambda weights: float("nan"))


def test_callbacks_are_told_and_can_stop(data):
    Q, D, prefs = data
    output = []
    ranker = tc.DenseRanker().fit(
        Q, prefs, D, callbacks=[lambda event: output.append(event.step), lambda event: event.step >= 2 * CHUNK]
    )
    assert [e.step for e in ranker.history_] == [CHUNK, 2 * CHUNK]
    assert output == [CHUNK, 2 * CHUNK]
    event = ranker.history_[-1]
    assert event.total == N_STEPS
    assert 0 < event.violation_rate <= 1
    assert event.loss > 0
    assert same_bits(event.weights(), ranker.weights_)


@pytest.mark.parametrize(("answer", "stops"), [(np.True_, True), (np.False_, False), (1, False), (None, False)])
def test_a_truth_value_of_numpy_stops_as_well_and_nothing_else_does(answer, stops, data):
    Q, D, prefs = data
    ranker = tc.DiagonalRanker().fit(Q, prefs, D, callbacks=[lambda event: answer])
    assert ranker.n_steps_ == (CHUNK if stops else N_STEPS)


def test_validation_and_chunks_do_not_change_the_result(data):
    Q, D, prefs = data
    plain = tc.LowRankRanker(n_components=3).fit(Q, prefs, D)
    counter = iter(range(10**6))  # always better, so the last state is the best
    watched = tc.LowRankRanker(n_components=3, validate_every=777).fit(Q, prefs, D, lambda w: float(next(counter)))
    assert same_bits(plain.weights_, watched.weights_)


# -- sources --------------------------------------------------------------------------------------------------------


@given(step=st.integers(0, 4 * BLOCK), other=st.integers(0, 4 * BLOCK))
def test_a_draw_depends_on_the_step_alone(step, other):
    sampled = tc.learn.SampledSource.from_labels([0, 0, 1, 1, 2], 100, random_state=1)
    first = sampled.draw(step, lambda: None)
    sampled.draw(other, lambda: None)
    fresh = tc.learn.SampledSource.from_labels([0, 0, 1, 1, 2], 100, random_state=1)
    assert fresh.draw(step, lambda: None) == first


def test_a_shuffled_epoch_is_a_permutation_and_changes_with_the_epoch(data):
    _, _, prefs = data
    source = ArraySource(prefs, shuffle=True, random_state=1)

    def epoch(number):
        rows, step = [], number * len(prefs)
        while step < (number + 1) * len(prefs):
            chunk = source.draw(step, lambda: None)
            rows += list(zip(chunk.query.tolist(), chunk.better.tolist(), chunk.worse.tolist(), strict=True))
            step += len(chunk)
        return rows

    given_rows = list(zip(prefs.query.tolist(), prefs.better.tolist(), prefs.worse.tolist(), strict=True))
    assert sorted(epoch(0)) == sorted(epoch(1)) == sorted(given_rows)
    assert epoch(0) != epoch(1)
    assert epoch(0) != given_rows


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda s, Q, D: tc.learn.SampledSource(s, 0), "n_steps must be an integer from 1; got 0"),
        (lambda s, Q, D: tc.Checkpoint("c", every=0), "every must be an integer from 1; got 0"),
        (lambda s, Q, D: tc.Checkpoint("c", every="5"), "every must be an integer from 1; got '5'"),
    ],
)
def test_sources_refuse_what_makes_no_sense(make, message, data):
    Q, D, _ = data
    with pytest.raises(InputError, match=message):
        make(judged(Q, D), Q, D)


# -- progress ---------------------------------------------------------------------------------------------------------


def test_progress_as_plain_lines(data, capfd, monkeypatch):
    Q, D, prefs = data
    monkeypatch.setattr("tercet.learn.progress.SHOW_AFTER_SECONDS", 0.0)
    tc.DenseRanker(verbose=True).fit(Q, prefs, D, held_out(data))
    shown = capfd.readouterr().err
    for fact in ("DenseRanker", "steps/s", "violations", "loss", "validation", "left"):
        assert fact in shown


SLOW_SCRIPT = """
import time, numpy as np, tercet as tc
from scipy import sparse
X = sparse.eye_array(50, format="csr", dtype=np.float32)
prefs = tc.Preferences.from_labels(np.arange(50) % 5, 40_000)
tc.DiagonalRanker().fit(X, prefs, callbacks=[lambda event: time.sleep(0.2)])
"""


@pytest.mark.slow
def test_progress_on_a_terminal():
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "200", "TERM": "xterm"}
    process = subprocess.Popen([sys.executable, "-c", SLOW_SCRIPT], stderr=theirs, env=environment)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # the other end closes when the process ends
        while piece := os.read(ours, 65536):
            shown += piece
    os.close(ours)
    assert process.wait(timeout=60) == 0
    for fact in (b"DiagonalRanker", b"/s  viol ", b"%", b"left"):
        assert fact in shown


@pytest.mark.parametrize("verbose", [None, False])
def test_silent_when_asked_or_when_not_a_terminal(verbose, data, capfd, monkeypatch):
    Q, D, prefs = data
    monkeypatch.setattr("tercet.learn.progress.SHOW_AFTER_SECONDS", 0.0)
    tc.DenseRanker(verbose=verbose).fit(Q, prefs, D)
    out, err = capfd.readouterr()
    assert out == err == ""
