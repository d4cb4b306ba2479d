"""Bundles on disk: a JSON manifest and safetensors arrays. This package knows no class of ours."""

from __future__ import annotations

from tercet.store.arrays import Verify, check_verify
from tercet.store.atomic import lock_folder, open_atomically, write_file_atomically
from tercet.store.bundle import MANIFEST_NAME, Bundle, bundle_kind, check_destination, read_bundle, write_bundle
from tercet.store.canonical import canonical_bytes, check_storable
from tercet.store.fields import take_array
from tercet.store.mapping import forget_pages, is_mapped

__all__ = [
    "MANIFEST_NAME",
    "Bundle",
    "Verify",
    "bundle_kind",
    "canonical_bytes",
    "check_destination",
    "check_storable",
    "check_verify",
    "forget_pages",
    "is_mapped",
    "lock_folder",
    "open_atomically",
    "read_bundle",
    "take_array",
    "write_bundle",
    "write_file_atomically",
]
