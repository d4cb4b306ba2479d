"""Plans are read strictly: an error names the file and the key."""

from __future__ import annotations

import re

import pytest
from reproducing import PLANS

from reproductions.plan_reading import read_plan
from tercet.errors import FormatError

FAULTS = {
    "classes": [
        ("seeds = 2", "seeds = ", "not TOML: Invalid value"),
        ("seeds = 2", "sedes = 2", "sedes is unknown; known here: paper, measures"),
        ('venue = "Nowhere 2000"\n', "", "paper.venue is missing"),
        ("seeds = 2", "seeds = 'two'", "seeds is 'two'; an integer is needed"),
        ("seeds = 2", "seeds = true", "seeds is 'True'; an integer is needed"),
        ('venue = "Nowhere 2000"', "venue = 2000", "paper.venue is '2000'; a string is needed"),
        ("tolerance = 0.02", 'tolerance = "small"', "measures.map.tolerance is 'small'; a number is needed"),
        ('reader = "mnist"', 'reader = "csv"', "digits.reader is 'csv'; one of '20newsgroups', 'mnist'"),
        ("map = 0.99,", "mpa = 0.99,", "tables[0] (main).rows.printed: 'mpa' is unknown; known: map, error"),
        ("plus_minus = { map", "plus_minus = { density", "rows.plus_minus: 'density' is unknown; known: map, error"),
        ('{ model = "sparse" },', '{ modle = "sparse" },', "rows[2].modle is unknown; known here: model, title"),
        ('ranker = "DenseRanker"', 'ranker = "DenserRanker"', "methods[1] (dense).ranker: 'DenserRanker' is unknown"),
        ("rate = 1.0,", "speed = 1.0,", "methods[1] (dense).parameters: 'speed' is unknown; known: rate"),
        ('key = "dense"', 'key = "identity"', "methods: the key 'identity' is there twice"),
        ('better = "dense"', 'better = "denser"', "claims[0]: 'denser' is unknown"),
        ('better = "dense"', 'better = "sparse"', "claims[0]: 'sparse' is not fitted on 'digits'"),
    ],
    "links": [
        ('blend = ["chosen", "rare"]', 'blend = ["chosen", "slow"]', "(cfh).blend: 'slow' is unknown"),
        ('blend = ["chosen", "rare"]', 'blend = ["chosen", "rare"]\nranker = "CosineRanker"', "a ranker or blends"),
        (
            "map = { n_frequent = 15,",
            'chosen_by = { method = "tfidf" }\nmap = { n_frequent = 15,',
            "(rare).chosen_by: 'tfidf' is unknown",
        ),
        ('reason = "needs what nobody has", ', "", "a row needs a model, or a title and the reason"),
    ],
}


@pytest.mark.parametrize(
    ("plan", "old", "new", "message"), [(plan, *fault) for plan, faults in FAULTS.items() for fault in faults]
)
def test_a_wrong_plan_names_file_and_key(tmp_path, plan, old, new, message):
    content = (PLANS / f"{plan}.toml").read_text(encoding="utf-8")
    assert old in content
    path = tmp_path / "wrong.toml"
    path.write_text(content.replace(old, new, 1))
    with pytest.raises(FormatError, match=re.escape(message)) as caught:
        read_plan(path)
    assert str(caught.value).startswith(str(path))
