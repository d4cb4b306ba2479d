"""What of the metadata is said when a release is built, and not before: where the project is."""

from __future__ import annotations

import os
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class ProjectAddress(MetadataHookInterface):
    """Takes the project's address from TERCET_URL; without one a build names none, and none is made up."""

    def update(self, metadata: dict[str, Any]) -> None:
        url = os.environ.get("TERCET_URL", "").rstrip("/")
        metadata["urls"] = {"Homepage": url, "Changelog": f"{url}/blob/main/CHANGELOG.md"} if url else {}
