"""How much memory a piece of a program takes, measured in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# Loading and compiling take more memory than most work, so a program does its work once on little before it measures.
_MEASURED = '''
import sys


class Measured:
    """The most memory that the block had more than there was before it."""

    def __enter__(self):
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # the highest so far is what is there now
        self.before = self.told("VmRSS")
        return self

    def __exit__(self, *error):
        print("grew", self.told("VmHWM") - self.before)

    @staticmethod
    def told(name):
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith(name)) * 1024

'''


_LIMITED = '''
import resource, sys


class Limited:
    """Lets the block have so many bytes more than there are before it; mapped files do not count."""

    def __init__(self, n_bytes):
        self.n_bytes = n_bytes

    def __enter__(self):
        with open("/proc/self/status") as file:
            before = next(int(line.split()[1]) for line in file if line.startswith("VmData")) * 1024
        resource.setrlimit(resource.RLIMIT_DATA, (before + self.n_bytes, resource.RLIM_INFINITY))

    def __exit__(self, *error):
        resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

'''


def fits_within(program: str, *arguments: object) -> bool:
    """Whether the block ``with Limited(n_bytes):`` of a program had enough memory; arguments are ``sys.argv[1:]``."""
    if not os.path.exists("/proc/self/status"):
        pytest.skip("the system does not tell how much memory a process has")
    command = [sys.executable, "-c", _LIMITED + program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0 or "MemoryError" in done.stderr, done.stderr
    return done.returncode == 0


def growth_of(program: str, *arguments: object) -> int:
    """Bytes that the block ``with Measured():`` of a program took; the arguments are ``sys.argv[1:]``."""
    if not os.access("/proc/self/clear_refs", os.W_OK):
        pytest.skip("the system does not let a process set its peak of memory back")
    command = [sys.executable, "-c", _MEASURED + program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split("grew ")[1])
