"""The n-th call to the disk fails, once or from then on: what is there is the old or the new, and is said.

One n in seven, and of what makes few calls every one; `support.failing_disk` tries all.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.bundles import posix_only
from support.disk_works import WORKS
from support.failing_disk import every_failure

pytestmark = [pytest.mark.slow, posix_only]


STRIDES = {"serve": 1}


@pytest.mark.parametrize("name", WORKS)
def test_a_disk_that_fails_leaves_the_old_or_the_new_and_the_error_says_which(name: str, tmp_path: Path) -> None:
    assert every_failure(WORKS[name], tmp_path / "disk", STRIDES.get(name, 7)) > 4
