"""What a bundle may hold at most.

The limits bound what a damaged or hostile file can make the reader do. They are checked before any memory is
taken for what a file declares.
"""

from __future__ import annotations

from typing import Final

MAX_MANIFEST_BYTES: Final = 8 * 2**20
MAX_ARRAYS: Final = 4096
MAX_ARRAY_BYTES: Final = 2**40
MAX_DIMENSIONS: Final = 32
MAX_NESTING: Final = 32

# The header of an arrays file repeats the manifest's names and shapes, and adds two offsets to each.
MAX_HEADER_BYTES: Final = 2 * MAX_MANIFEST_BYTES
