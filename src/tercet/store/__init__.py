"""Bundles on disk: a JSON manifest and safetensors arrays. This room knows no class of ours."""

from __future__ import annotations

from tercet.store.atomic import write_file_atomically
from tercet.store.bundle import Bundle, read_bundle, write_bundle
from tercet.store.fields import Fields, take_array

__all__ = ["Bundle", "Fields", "read_bundle", "take_array", "write_bundle", "write_file_atomically"]
