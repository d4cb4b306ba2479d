"""Measure names: what parses, what is refused, and that a measure prints as what parses to it."""

from __future__ import annotations

import ir_measures
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tercet.errors import InputError
from tercet.measure import Measure, parse_measure, parse_measures
from tercet.measure.names import SUPPORTED

NAMES = [
    "AP",
    "AP@100",
    "AP(rel=2)@100",
    "nDCG",
    "nDCG@10",
    "nDCG(dcg='exp-log2')@10",
    "P@5",
    "P(rel=3)@5",
    "RR",
    "RR@10",
    "R@20",
    "Success@1",
]


@pytest.mark.parametrize("name", NAMES)
def test_names_read_and_print_as_in_ir_measures(name: str) -> None:
    measure = parse_measure(name)
    theirs = ir_measures.parse_measure(name)
    assert str(measure) == repr(measure) == name == str(theirs)
    assert measure.name == theirs.NAME


@pytest.mark.parametrize(
    ("alias", "measure"),
    [
        ("MAP", Measure("AP")),
        ("MRR@10", Measure("RR", cutoff=10)),
        ("NDCG@3", Measure("nDCG", cutoff=3)),
        ("Precision@3", Measure("P", cutoff=3)),
        ("Recall(rel=2)@3", Measure("R", cutoff=3, rel=2)),
        (" AP ( rel = 2 ) @ 7 ", Measure("AP", cutoff=7, rel=2)),
        ("AP(rel=2,cutoff=7)", Measure("AP", cutoff=7, rel=2)),
        ("AP(rel=1)", Measure("AP")),
        ("NDCG(dcg='log2')@3", Measure("nDCG", cutoff=3)),
        ('nDCG( dcg = "letor" , cutoff=3)', Measure("nDCG", cutoff=3, dcg="letor")),
        ("nDCG(dcg='exp-log2')", Measure("nDCG", dcg="exp-log2")),
        ("RankLoss(rel=2)", Measure("RankLoss", rel=2)),
    ],
)
def test_aliases_and_spellings(alias: str, measure: Measure) -> None:
    assert parse_measure(alias) == measure
    assert hash(parse_measure(alias)) == hash(measure)


@given(
    st.sampled_from(["AP", "nDCG", "P", "RR", "R", "Success", "RankLoss"]),
    st.integers(1, 2000),
    st.integers(1, 5),
    st.sampled_from(["log2", "exp-log2", "letor"]),
)
@settings(deadline=None, max_examples=50)
def test_a_measure_parses_as_itself(name: str, cutoff: int, rel: int, dcg: str) -> None:
    depth = None if name == "RankLoss" else cutoff
    measure = Measure(name, depth, dcg=dcg) if name == "nDCG" else Measure(name, depth, rel)
    assert parse_measure(str(measure)) == measure
    assert parse_measure(measure) is measure


@pytest.mark.parametrize("name", ["Foo@3", "ERR@10", "ap", "if", "7", "Bpref", "MeanAgg", "RankLoss2"])
def test_unknown_names_list_what_is_supported(name: str) -> None:
    with pytest.raises(InputError, match="not known") as caught:
        parse_measure(name)
    assert SUPPORTED in str(caught.value)


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("", "Cannot read"),
        ("AP@", "Cannot read"),
        ("AP@-1", "Cannot read"),
        ("AP@1.5", "Cannot read"),
        ("AP@٣", "Cannot read"),
        ("AP;P@5", "Cannot read"),
        ("AP(2)", "Cannot read '2'"),
        ("AP(judged_only=1)", "Cannot read 'judged_only=1'"),
        ("AP(cutoff=3)@5", "once"),
        ("AP(rel=1,rel=2)", "once"),
        ("AP@0", "'cutoff' of measure AP must be"),
        ("AP(rel=0)", "'rel' of measure AP must be"),
        ("P", "needs a cutoff, as in P@10"),
        ("R(rel=2)", "needs a cutoff"),
        ("Success", "needs a cutoff"),
        ("nDCG(rel=2)@10", "no 'rel'"),
        ("AP(dcg='letor')", "Measure AP has no 'dcg'"),
        ("nDCG(dcg='ln')@10", "'dcg' of nDCG must be one of log2, exp-log2, letor. Got 'ln'"),
        ("nDCG(dcg=2)@10", "Cannot read 'dcg=2'"),
        ("AP(rel='2')@10", "Cannot read \"rel='2'\""),
        ("nDCG(dcg='letor\")@10", "Cannot read"),
        ("nDCG(dcg='letor',dcg='log2')", "once"),
        ("RankLoss@10", "whole ranking"),
    ],
)
def test_wrong_parameters_say_what_is_wrong(name: str, complaint: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_measure(name)
    assert complaint in str(caught.value)


def test_wrong_types_are_refused() -> None:
    with pytest.raises(InputError, match="Got 3"):
        parse_measure(3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="Got True"):
        Measure("AP", cutoff=True)
    with pytest.raises(InputError, match="Got None"):
        Measure("AP", rel=None)  # type: ignore[arg-type]


def test_lists_keep_order_and_drop_repeats() -> None:
    assert parse_measures(["P@5", "MAP", "AP"]) == (Measure("P", cutoff=5), Measure("AP"))
    assert parse_measures("nDCG@10") == (Measure("nDCG", cutoff=10),)
    assert parse_measures(Measure("AP")) == (Measure("AP"),)
    with pytest.raises(InputError, match="At least one"):
        parse_measures([])


def test_only_rank_loss_is_better_when_lower() -> None:
    assert not parse_measure("RankLoss").higher_is_better
    assert all(parse_measure(name).higher_is_better for name in NAMES)
