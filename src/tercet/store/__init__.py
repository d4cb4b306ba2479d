"""Bundles on disk: a JSON manifest and safetensors arrays. This package knows no class of ours."""

from typing import TYPE_CHECKING

from tercet._lazy import lazy_names

if TYPE_CHECKING:
    from tercet.store.arrays import Verify as Verify
    from tercet.store.arrays import check_verify as check_verify
    from tercet.store.atomic import lock_folder as lock_folder
    from tercet.store.atomic import open_atomically as open_atomically
    from tercet.store.atomic import write_file_atomically as write_file_atomically
    from tercet.store.bundle import MANIFEST_NAME as MANIFEST_NAME
    from tercet.store.bundle import Bundle as Bundle
    from tercet.store.bundle import bundle_kind as bundle_kind
    from tercet.store.bundle import check_destination as check_destination
    from tercet.store.bundle import read_bundle as read_bundle
    from tercet.store.bundle import write_bundle as write_bundle
    from tercet.store.canonical import canonical_bytes as canonical_bytes
    from tercet.store.canonical import check_storable as check_storable
    from tercet.store.fields import take_array as take_array
    from tercet.store.mapping import forget_pages as forget_pages
    from tercet.store.mapping import is_mapped as is_mapped
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "tercet.store.arrays": ("Verify", "check_verify"),
            "tercet.store.atomic": ("lock_folder", "open_atomically", "write_file_atomically"),
            "tercet.store.bundle": (
                "MANIFEST_NAME",
                "Bundle",
                "bundle_kind",
                "check_destination",
                "read_bundle",
                "write_bundle",
            ),
            "tercet.store.canonical": ("canonical_bytes", "check_storable"),
            "tercet.store.fields": ("take_array",),
            "tercet.store.mapping": ("forget_pages", "is_mapped"),
        },
    )
