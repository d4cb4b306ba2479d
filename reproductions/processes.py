"""Who does the pieces of a plan: this process, or several that are started for it, with one thread each."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from importlib import import_module
from multiprocessing.connection import Connection, wait
from typing import Any

from reproductions.piecework import MOST_DATA_SETS, Answer, PieceWorker, Request

_PATIENCE = 5.0  # seconds that a process has to end


@dataclass
class Hand:
    """One who does a request at a time."""

    dataset: str = ""  # of its last request
    request: Request | None = None


class WorkForce(ABC):
    """Hands, each of which does one request at a time."""

    hands: Sequence[Hand]

    def __enter__(self) -> WorkForce:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def idle(self) -> list[Hand]:
        return [hand for hand in self.hands if hand.request is None]

    @property
    def busy(self) -> list[Hand]:
        return [hand for hand in self.hands if hand.request is not None]

    @abstractmethod
    def begin(self, hand: Hand, request: Request) -> None:
        """Have an idle hand begin with a request."""

    @abstractmethod
    def next(self) -> tuple[Request, Answer]:
        """Wait for a request to end."""

    @abstractmethod
    def close(self) -> None:
        """End what is going on."""


class ThisProcess(WorkForce):
    """One hand: this process, held to one thread, so that its bits are those of others."""

    def __init__(self, worker: PieceWorker) -> None:
        self._worker = worker
        self.hands = [Hand()]
        self._limits = ExitStack()
        self._limits.enter_context(import_module("threadpoolctl").threadpool_limits(1))

    def begin(self, hand: Hand, request: Request) -> None:
        hand.request, hand.dataset = request, request.dataset

    def next(self) -> tuple[Request, Answer]:
        [hand] = self.hands
        request, hand.request = hand.request, None
        assert request is not None
        return request, self._worker.do(request)

    def close(self) -> None:
        self._limits.close()


@dataclass
class _ProcessHand(Hand):
    process: Any = None
    pipe: Any = None
    at_hand: list[str] = field(default_factory=list)  # data sets that it has, in the order it used them


class OtherProcesses(WorkForce):
    """Several processes. Each data set is read by one of them, and given to the others when they first need it.

    One that dies takes its request with it, and another is started in its place.
    """

    def __init__(self, worker: PieceWorker, n: int) -> None:
        self._worker = replace(worker, n_kept=MOST_DATA_SETS, n_jobs=n)
        self._context = multiprocessing.get_context("spawn")  # threads of BLAS and of numba do not survive a fork
        self._data: dict[str, bytes] = {}  # as they came through the pipe
        self.hands: list[_ProcessHand] = [_ProcessHand() for _ in range(n)]
        for hand in self.hands:
            self._start(hand)

    def _start(self, hand: _ProcessHand) -> None:
        hand.pipe, theirs = self._context.Pipe()
        hand.process = self._context.Process(target=_serve, args=(theirs, self._worker), daemon=True)
        hand.process.start()
        theirs.close()
        hand.request, hand.dataset, hand.at_hand = None, "", []

    def begin(self, hand: Hand, request: Request) -> None:
        assert isinstance(hand, _ProcessHand)
        hand.request, hand.dataset = request, request.dataset
        try:
            given = request.piece is not None and request.dataset in self._data.keys() - set(hand.at_hand)
            hand.pipe.send((request, given))
            if given:
                hand.pipe.send_bytes(self._data[request.dataset])
            if request.dataset:
                hand.at_hand = [*(name for name in hand.at_hand if name != request.dataset), request.dataset]
                hand.at_hand = hand.at_hand[-MOST_DATA_SETS:]
        except OSError:
            pass  # it has died; waiting for it will tell

    def next(self) -> tuple[Request, Answer]:
        ready = wait([hand.pipe for hand in self.hands if hand.request is not None])
        hand = next(hand for hand in self.hands if hand.pipe in ready)
        request = hand.request
        assert request is not None
        try:
            answer = hand.pipe.recv()
            if isinstance(answer, Answer) and answer.known is not None:
                self._data[request.dataset] = hand.pipe.recv_bytes()
        except (EOFError, OSError):  # the second where it died in the middle of an answer
            hand.process.join(_PATIENCE)
            code = hand.process.exitcode
            self._start(hand)
            who = f"the process that read {request.dataset}" if request.piece is None else "its process"
            return request, Answer(failed=f"{who} ended before it was done ({_ending(code)})")
        if isinstance(answer, str):
            raise RuntimeError(f"a defect in a process, where this was raised:\n{answer}")
        hand.request = None
        return request, answer

    def close(self) -> None:
        for hand in self.hands:
            hand.pipe.close()
            hand.process.terminate()
        for hand in self.hands:
            hand.process.join(_PATIENCE)
            if hand.process.is_alive():
                hand.process.kill()
                hand.process.join()


def _ending(code: int | None) -> str:
    """How a process ended, in words."""
    if code is None or code >= 0:
        return f"exit status {code}"
    return f"killed by signal {-code}" + (", as it is when memory runs out" if -code == signal.SIGKILL else "")


def _serve(pipe: Connection, worker: PieceWorker) -> None:
    """What another process does: one request after the other, until nobody listens any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started it ends it
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import_module("threadpoolctl").threadpool_limits(1)
    import_module("numba").set_num_threads(1)
    while True:
        try:
            request, given = pipe.recv()
            if given:
                worker.keep(request.dataset, pipe.recv())
        except (EOFError, OSError):
            return
        try:
            answer: Answer | str = worker.do(request)
        except Exception:
            answer = traceback.format_exc()
        try:
            pipe.send(answer)
            if isinstance(answer, Answer) and answer.known is not None:
                pipe.send(worker.data[request.dataset])
        except OSError:
            return


def _end_with_parent() -> None:
    """Leave at once when the process that started this one is gone, killed or not: nobody takes an answer any more."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
