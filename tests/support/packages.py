"""A tiny list of Debian packages, as apt-cache dumpavail writes it."""

from __future__ import annotations

import numpy as np

TOPICS = {f"field::topic-{number}": [f"{word}{number}" for word in "abcde"] for number in range(12)}


def package_list() -> str:
    """144 packages with a tag each, of twelve tags, and one without a tag."""
    rng = np.random.default_rng(0)
    entries = []
    for number in range(144):
        tag, words = list(TOPICS.items())[number % 12]
        others = list(TOPICS.values())[(number + 1) % 12]
        described = " ".join([*rng.choice(words, 2, replace=False), *rng.choice(others, 2, replace=False), "tool"])
        entries.append(
            f'Package: pack-{number}\nDescription: A "{described}", and more\nSection: misc\nSize: {number}000\n'
            f"Installed-Size: {number}\nTag: role::program,\n {tag}\n"
        )
    return "\n".join([*entries, "Package: untagged\nDescription: nothing\n"])
