"""Learning and ranking on a GPU: ``with tercet.gpu.device("cuda"): ...``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tercet.errors import DeviceError, MissingExtraError, ParameterError
from tercet.gpu.hardware import Gpu, find_gpu
from tercet.gpu.stepper import GpuExecutor
from tercet.learn.loop import current_executor, executing_on

DEVICES = ("cpu", "cuda", "auto")

__all__ = ["DEVICES", "Gpu", "device", "find_gpu"]


@contextmanager
def device(name: str = "cuda", *, strict: bool = False, deterministic: bool = False) -> Iterator[str]:
    """Fit rankers and rank documents on a GPU within the block; yields the name of the GPU, "" without one.

    Parameters
    ----------
    name : {"cuda", "auto", "cpu"}
        "cuda" needs a GPU. "auto" uses a GPU if the machine has one and the work is large enough to repay it. "cpu"
        changes nothing.
    strict : raise an error for a ranker that cannot learn on a GPU, or does not fit into its memory; otherwise the CPU
        learns it. "auto" always leaves such a ranker to the CPU
    deterministic : give the same bits every time, with slower steps

    Examples
    --------
    >>> from scipy import sparse
    >>> from tercet import LowRankRanker, Preferences
    >>> with device("auto"):
    ...     ranker = LowRankRanker(n_components=2).fit(sparse.eye_array(3, format="csr"), Preferences([0], [1], [2]))
    >>> ranker.n_steps_
    1
    """
    if name not in DEVICES:
        raise ParameterError(f"device must be one of {', '.join(map(repr, DEVICES))}; got {name!r}")
    if name != "cpu" and current_executor().in_rounds:
        raise ParameterError(f"device({name!r}) takes all steps on one GPU; a cluster shares them among its workers")
    try:
        gpu = None if name == "cpu" else find_gpu()
    except (DeviceError, MissingExtraError):
        if name == "cuda":
            raise
        gpu = None
    if gpu is None:
        yield ""
        return
    executor = GpuExecutor(gpu, strict=strict, auto=name == "auto", deterministic=deterministic)
    with executing_on(executor), executor.scoring():
        yield gpu.name
