"""The kernels compile for GPUs of several generations, by NVIDIA's own compiler, on a machine that has none."""

from __future__ import annotations

import ctypes
from importlib.util import find_spec
from pathlib import Path

import pytest

from tercet.gpu.hardware import _SOURCES, kernel_source

PLACES = find_spec("nvidia")
LIBRARIES = sorted(
    path
    for folder in (PLACES.submodule_search_locations or [] if PLACES else [])
    for path in Path(folder).rglob("libnvrtc.so.*")
    if "alt" not in path.name
)

pytestmark = pytest.mark.skipif(not LIBRARIES, reason="NVRTC is not installed (package nvidia-cuda-nvrtc)")


def compiled(source: str, architecture: str) -> tuple[int, str]:
    """What NVRTC returns, and what it says."""
    nvrtc = ctypes.CDLL(str(LIBRARIES[0]))
    program = ctypes.c_void_p()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None) == 0
    try:
        # Of what the files share, each uses a part.
        flags = (f"--gpu-architecture={architecture}", "-std=c++17", "--diag-suppress=177")
        options = (ctypes.c_char_p * len(flags))(*map(str.encode, flags))
        result = nvrtc.nvrtcCompileProgram(program, len(flags), options)
        size = ctypes.c_size_t()
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        return result, log.value.decode()
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("name", sorted({file: name for name, file in _SOURCES.items()}.values()))
def test_kernels_compile_without_a_warning(name, architecture):
    assert compiled(kernel_source(name), architecture) == (0, "")


def test_the_compiler_would_say_what_is_wrong():
    result, log = compiled(kernel_source("diagonal_advance").replace("float z = 0;", "float z = nothing;"), "sm_90")
    assert result != 0
    assert "nothing" in log
