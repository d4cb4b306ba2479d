"""A stand-in for a GPU on a machine without one: the same kernels, compiled by this machine's C++ compiler.

They run as one block of one thread, which takes steps one after the other, as the kernels of a CPU do.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
from scipy import sparse

from tercet.gpu.hardware import Gpu, kernel_source
from tercet.gpu.stepper import GpuExecutor
from tercet.learn.loop import executing_on

COMPILER = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
_TYPES = {np.int32: ctypes.c_int, np.int64: ctypes.c_longlong, np.float64: ctypes.c_double}


@cache
def _built(name: str) -> ctypes.CDLL:
    assert COMPILER is not None
    folder = Path(mkdtemp(prefix="tercet-kernels-"))
    source = folder / f"{name}.cpp"
    source.write_text(kernel_source(name))
    library = folder / f"{name}.so"
    flags = ["-std=c++17", "-O1", "-ffp-contract=off", "-shared", "-fPIC", "-Wall", "-Wno-unknown-pragmas", "-Werror"]
    subprocess.run([COMPILER, *flags, str(source), "-o", str(library)], check=True, capture_output=True, timeout=120)
    return ctypes.CDLL(str(library))


class HostGpu(Gpu):
    """One block of one thread, in this process; ``memory`` is what it says is free."""

    def __init__(self, memory: int = 1 << 40) -> None:
        self.xp, self.sparse = np, sparse
        self.name, self.capability, self.n_processors = "host", (9, 0), 1
        self.memory = memory
        self.launched: list[str] = []

    def describe(self) -> str:
        return "none, kernels run on the CPU"

    def free_bytes(self) -> int:
        return self.memory

    def free_unused(self) -> None:
        return

    def errors(self) -> AbstractContextManager[None]:
        return nullcontext()

    @contextmanager
    def copying(self) -> Iterator[None]:
        yield

    def to_host(self, array: Any) -> Any:
        return np.array(array)

    def launch(self, name: str, n_blocks: int, n_threads: int, shared_bytes: int, args: Any) -> None:
        assert shared_bytes % 16 == 0  # it is an array of float4 to kernels
        self.launched.append(name)
        library = _built(name)
        library.reserve_shared(ctypes.c_longlong(shared_bytes))
        getattr(library, name)(*map(_argument, args))


def on_host_gpu(gpu: HostGpu | None = None, **how: Any) -> AbstractContextManager[None]:
    """Within the block, fits learn on a GPU of this kind; ``how`` are parameters of `GpuExecutor`."""
    return executing_on(GpuExecutor(gpu or HostGpu(), **how))


def _argument(value: Any) -> Any:
    if value is None:
        return ctypes.c_void_p(None)
    if isinstance(value, np.ndarray):
        assert value.flags.c_contiguous
        return ctypes.c_void_p(value.ctypes.data)
    return _TYPES[type(value)](value)
