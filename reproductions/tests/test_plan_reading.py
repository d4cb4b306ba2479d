"""Plans are read strictly: every fault is an error that names the file and the key."""

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
        (
            'reader = "mnist"',
            'reader = "csv"',
            "digits.reader is 'csv'; one of '20newsgroups', 'mnist'",
        ),
        ("map = 0.99,", "mpa = 0.99,", "tables[0] (main).rows.printed: 'mpa' is unknown; known: map, error"),
        ("plus_minus = { map", "plus_minus = { density", "rows.plus_minus: 'density' is unknown; known: map, error"),
        (
            '{ model = "sparse" },',
            '{ modle = "sparse" },',
            "rows[2].modle is unknown; known here: model, title",
        ),
        ('ranker = "DenseRanker"', 'ranker = "DenserRanker"', "methods[1] (dense).ranker: 'DenserRanker' is unknown"),
        ("rate = 1.0,", "speed = 1.0,", "methods[1] (dense).parameters: 'speed' is unknown; known: rate"),
        ('key = "dense"', 'key = "identity"', "methods: the key 'identity' is there twice"),
        ('better = "dense"', 'better = "denser"', "claims[0]: 'denser' is unknown"),
        ('better = "dense"', 'better = "sparse"', "claims[0]: 'sparse' is not fitted on 'digits'"),
        (
            '{ model = "full" }',
            '{ model = "full", printed = { map = 0.5 } }',
            "'full' has printed numbers, but the table's kind is 'ours'",
        ),
        ('methods = ["dense", "sparse-fit"]', 'methods = ["identity"]', "'identity' learns from no preferences"),
        (
            'datasets = ["news"]\nmethods = ["dense", "sparse-fit"]',
            'datasets = ["digits"]\nmethods = ["sparse-fit"]',
            "curves[0]: 'sparse-fit' is not fitted on 'digits'",
        ),
        ("at_least = 2.0", "at_least = 2.0\nat_most = 3.0", "targets[0]: give at_least or at_most"),
        (
            'measures = ["map", "density"]',
            'measures = ["map", "speed"]',
            "tables[1]: 'speed' is unknown; known: map",
        ),
        ("seeds = 2", "seeds = 0", "seeds is 0; at least 1 is needed"),
        ("share = 0.5", "share = 5", "quick.share is 5.0; a number above 0 and at most 1 is needed"),
        ('key = "main"', 'key = "../main"', "the key '../main' names files; letters, digits"),
        ('methods = ["dense", "sparse-fit"]', 'methods = ["sparse"]', "curves[0]: 'sparse' is unknown"),
    ],
    "links": [
        ('blend = ["chosen", "rare"]', 'blend = ["chosen"]', "(cfh).blend: 1 models; two are needed"),
        ('blend = ["chosen", "rare"]', 'blend = ["chosen", "slow"]', "'slow' is no model of an earlier method"),
        (
            'blend = ["chosen", "rare"]',
            'blend = ["chosen", "rare"]\nranker = "CosineRanker"',
            "a ranker or blends",
        ),
        *(
            (
                'choose_on = "training"\nearly_stop',
                f'choose_on = "{choose_on}"\nearly_stop',
                "of classes parameters are chosen on 'training', of links also on 'validation'",
            )
            for choose_on in ("cross-validation", "leave-query-out")
        ),
        (
            'choose_on = "training"\n\n[[methods]]\nkey = "ja"',
            'choose_how = "halving"\n\n[[methods]]\nkey = "ja"',
            "LSIRanker does not learn by steps, so nothing can be halved",
        ),
        ("preferences = 200\n", "preferences = 200\nearly_stop = true\n", "QueryExpansion does not learn by steps"),
        (
            "map = { n_frequent = 15,",
            'chosen_by = { method = "tfidf" }\nmap = { n_frequent = 15,',
            "(rare).chosen_by: 'tfidf' is no earlier method that chooses",
        ),
        (
            "share = 0.5\nparameters",
            'chosen_by = { method = "chosen" }\nshare = 0.5\nparameters',
            "(ja).chosen_by: 'chosen' is not fitted on 'kyoto'",
        ),
        ("share = 0.5\nparameters", "share = 0.0\nparameters", "share is a number above 0"),
        (
            "share = 0.5\nparameters",
            "third = true\nshare = 0.5\nparameters",
            "(ja).third: a third objective comes beside a second",
        ),
        (
            "preferences = 200\n",
            'preferences = 200\nnegatives = "hard"\n',
            "(qe).negatives: QueryExpansion does not learn by",
        ),
        ("choose = { rate = [1e-6, 0.1] }", "choose = { rate = [] }", "(chosen).choose: no values of rate"),
        ('reason = "needs what nobody has", ', "", "a row needs a model, or a title and the reason"),
        ('times = "tfidf"', 'times = "ja"', "targets[0]: 'ja' is not fitted on 'wiki'"),
        ('x = "tfidf"\ny = "chosen"', 'x = "tfidf"\ny = "ja"', "precisions[0]: 'ja' is not fitted on 'wiki'"),
    ],
    "features": [
        ('reader = "letor-folds"', 'reader = "pictures"', "datasets.here.reader is 'pictures'"),
        ('choose_on = "cross-validation"', 'choose_on = "training"', "of rows it is 'validation', 'cross-validation'"),
        (
            'choose_on = "cross-validation"',
            "early_stop = true",
            "(crossed).early_stop: for classes and links; its data sets have rows",
        ),
        ('choose_by = "ndcg10"', 'choose_by = "used"', "choose_by: 'used' is unknown"),
        ('name = "AP"', 'name = "Luck"', "measures.map.name: Measure 'Luck' is not known"),
        ('ranker = "RSRanker"', 'ranker = "Oracle"', "methods[2] (rs).ranker: 'Oracle' is unknown"),
        ("choose = { l1 = [0.1, 0.01] }", "choose = { l9 = [1] }", "methods[1] (proximal).choose: 'l9'"),
        ("cv_folds = 3", "seeds = 0", "at least 1 seed"),
        ('worse = ["proximal", "rs"]', 'worse = ["nobody"]', "claims[0]: 'nobody' is unknown"),
        ("at_least = 0.01", "", "targets[0]: give at_least or at_most"),
        ('measures = ["ndcg1", "ndcg10"]', 'measures = ["map"]', "'map' has no cutoff"),
        ('key = "pairs"', 'key = "paired"', "the key 'paired' is there twice"),
        ("printed = { here = 3.42 }", "printed = { her = 3.42 }", "claims[0].printed: 'her' is unknown"),
        ('key = "trade"', 'key = "../trade"', "names files"),
    ],
    "rankrls": [
        ('name = "misordered"', 'name = "mislaid"', "Or one of disagreement, misordered, features used"),
        ('measures = ["disagreement", "seconds"]', 'measures = ["luck"]', "datasets.parses.measures: 'luck'"),
        ('dataset = "here"\nmeasures = ["disagreement"]', 'dataset = "parses"\nmeasures = ["ndcg10"]', "'ndcg10'"),
        ("per_query = 3\ndrawn_as", "drawn_as", "a basis needs at least 1"),
        (
            'key = "rls"\ntitle = "Regressor"\nranker = "RLSRegressor"',
            'key = "rls"\ntitle = "R"\nranker = "Luck"',
            "Luck",
        ),
        ('models = ["basic", "rls"] }', 'models = ["nobody"] }', "scatters[0].series: 'nobody'"),
        ('key = "growth"', 'key = "paired"', "the key 'paired' is there twice"),
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
