"""The GPU: its properties, compiled kernels, and errors with a remedy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tercet.errors import DeviceError, MemoryLimitError, MissingExtraError

LEAST_CAPABILITY = (7, 0)
_SHARED_BYTES = 48 * 1024  # shared memory of a block by default; more must be requested
_SOURCES = {  # kernel -> its source file
    "lowrank_advance": "lowrank.cu",
    "cosine_advance": "lowrank.cu",
    "latent_vectors": "lowrank.cu",
    "pairs_advance": "pairs.cu",
    "diagonal_advance": "diagonal.cu",
    "expand_queries": "expand.cu",
}
_INCLUDE = '#include "common.cuh"\n'


def kernel_source(name: str) -> str:
    """Read the source file of a kernel with its includes."""
    folder = files("tercet.gpu") / "kernels"
    source = (folder / _SOURCES[name]).read_text(encoding="utf-8")
    return source.replace(_INCLUDE, (folder / "common.cuh").read_text(encoding="utf-8"))


class Gpu:
    """GPU chosen by CuPy, or a substitute that runs the same kernels.

    ``xp`` and ``sparse`` are the modules of arrays and sparse matrices: CuPy's, or a substitute's.
    """

    def __init__(self, xp: Any, sparse: Any) -> None:
        self.xp, self.sparse = xp, sparse
        facts = xp.cuda.runtime.getDeviceProperties(xp.cuda.Device().id)
        self.name: str = facts["name"].decode()
        self.capability: tuple[int, int] = facts["major"], facts["minor"]
        self.n_processors: int = facts["multiProcessorCount"]
        self._copies = xp.cuda.Stream(non_blocking=True)

    def describe(self) -> str:
        """Return name, memory, driver and compiler, for benchmarks."""
        runtime = self.xp.cuda.runtime
        driver, cuda = (
            f"{v // 1000}.{v % 1000 // 10}" for v in (runtime.driverGetVersion(), runtime.runtimeGetVersion())
        )
        total = self.xp.cuda.Device().mem_info[1]
        return (
            f"{self.name}, {total / 2**30:.0f} GiB, compute capability {'.'.join(map(str, self.capability))}, "
            f"driver for CUDA {driver}, CUDA {cuda}, CuPy {self.xp.__version__}"
        )

    def free_bytes(self) -> int:
        """Return free bytes, including CuPy's memory pool."""
        return int(self.xp.cuda.Device().mem_info[0] + self.xp.get_default_memory_pool().free_bytes())

    def check_room(self, needed: int, what: str, instead: str) -> None:
        """Raise MemoryLimitError if ``needed`` bytes are not free."""
        free = self.free_bytes()
        if needed > free:
            raise MemoryLimitError(f"{what} takes {needed:,} bytes on {self.name}; {free:,} are free. {instead}")

    def errors(self) -> AbstractContextManager[None]:
        """Raise GPU failures within the block as errors of Tercet."""
        return gpu_errors()

    @contextmanager
    def copying(self) -> Iterator[None]:
        """Copy arrays while kernels run; kernels started after the block wait for the copies."""
        with self._copies:
            yield
        self.xp.cuda.get_current_stream().wait_event(self._copies.record())

    def free_unused(self) -> None:
        """Free the unused blocks of CuPy's memory pool."""
        self.xp.get_default_memory_pool().free_all_blocks()

    def to_host(self, array: Any) -> NDArray[Any]:
        """Copy an array to host memory."""
        host_array: NDArray[Any] = array.get()
        return host_array

    def launch(self, name: str, n_blocks: int, n_threads: int, shared_bytes: int, args: Sequence[Any]) -> None:
        """Launch a kernel. None is passed as a null pointer; numbers are NumPy scalars of the kernel's types."""
        kernel = self._kernel(name)
        if shared_bytes > _SHARED_BYTES and kernel.max_dynamic_shared_size_bytes < shared_bytes:
            kernel.max_dynamic_shared_size_bytes = shared_bytes
        kernel((n_blocks,), (n_threads,), tuple(np.intp(0) if a is None else a for a in args), shared_mem=shared_bytes)

    @cache  # noqa: B019  # there is one GPU
    def _kernel(self, name: str) -> Any:
        return self.xp.RawModule(code=kernel_source(name), options=("-std=c++17",)).get_function(name)


@cache
def find_gpu() -> Gpu:
    """Find the GPU of this machine.

    Raises
    ------
    MissingExtraError : CuPy is not installed
    DeviceError : the machine has no GPU or no driver, or the GPU is too old
    """
    try:
        import cupy
        import cupyx.scipy.sparse as cupy_sparse
    except ImportError as error:
        raise MissingExtraError("CuPy", "gpu", "learning on a GPU") from error
    try:
        n_gpus = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise DeviceError(f"no GPU can be used: {error}. Install its driver, or learn on the CPU") from error
    if not n_gpus:
        raise DeviceError("this machine has no GPU; learn on the CPU")
    with gpu_errors():
        gpu = Gpu(cupy, cupy_sparse)
    if gpu.capability < LEAST_CAPABILITY:
        raise DeviceError(
            f"{gpu.name} has compute capability {'.'.join(map(str, gpu.capability))}; "
            f"{'.'.join(map(str, LEAST_CAPABILITY))} is needed. Learn on the CPU"
        )
    return gpu


@contextmanager
def gpu_errors() -> Iterator[None]:
    """Raise GPU failures as errors of Tercet."""
    import cupy

    try:
        yield
    except cupy.cuda.memory.OutOfMemoryError as error:
        raise MemoryLimitError(
            f"the GPU has no memory left: {error}. Use fewer words or components, close what else uses the GPU, or "
            "learn on the CPU"
        ) from error
    except (
        cupy.cuda.runtime.CUDARuntimeError,
        cupy.cuda.driver.CUDADriverError,
        cupy.cuda.cublas.CUBLASError,
        cupy.cuda.cusparse.CuSparseError,
    ) as error:
        raise DeviceError(
            f"the GPU failed: {error}. What was learned since the last checkpoint is lost; the process needs to be "
            "started anew to use the GPU again"
        ) from error
    except cupy.cuda.compiler.CompileException as error:
        raise DeviceError(f"the kernels could not be compiled for this GPU: {error}") from error
