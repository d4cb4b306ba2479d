"""Bundles on disk: a JSON manifest and safetensors arrays. This room knows no class of ours."""

from __future__ import annotations

from tercet.store.atomic import open_atomically, write_file_atomically
from tercet.store.bundle import Bundle, check_destination, read_bundle, write_bundle
from tercet.store.fields import Fields, take_array

__all__ = [
    "Bundle",
    "Fields",
    "check_destination",
    "open_atomically",
    "read_bundle",
    "take_array",
    "write_bundle",
    "write_file_atomically",
]
