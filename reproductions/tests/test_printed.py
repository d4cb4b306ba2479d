"""Plans of the four papers: every name is known, and the printed numbers are typed from the papers a second time."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from reproductions.plan import Plan, find_plan, known_papers, quick_plan
from reproductions.rankers import make_ranker


@pytest.fixture(scope="module")
def papers() -> dict[str, Plan]:
    return {name: find_plan(name) for name in known_papers()}


@pytest.mark.parametrize("key", known_papers())
def test_every_name_in_a_plan_is_known(papers, key):
    plan = papers[key]
    models = {model.key: method for method in plan.methods for model in method.all_models()}
    methods = {method.key for method in plan.methods}
    assert len(methods) == len(plan.methods)
    shown = [(row.model, (row.dataset or d,)) for t in plan.tables for row in t.rows for d in t.datasets if row.model]
    shown += [(model, claim.datasets) for claim in plan.claims for model in (claim.better, *claim.worse)]
    shown += [
        (model, (tests.dataset,)) for tests in plan.comparisons for model in (*tests.models, tests.against) if model
    ]
    shown += [(words.model, (words.dataset,)) for words in plan.words]
    shown += [(model, (points.dataset,)) for points in plan.precisions for model in (points.x, points.y)]
    shown += [(model, lines.datasets) for lines in plan.cutoffs for model in lines.models]
    for model, datasets in shown:
        assert {*datasets} <= {*plan.datasets_of(models[model])}, model
    for table in (*plan.tables, *plan.claims, *plan.comparisons, *plan.cutoffs):
        assert {*table.measures} <= {*plan.measures}
    for curves in plan.curves:
        assert {*curves.methods} <= methods
    for method in plan.methods:
        assert {*method.datasets} <= {*plan.datasets}
        assert {*method.blend} <= {*models}
        assert method.chosen_by is None or plan.method(method.chosen_by.method).choose
        for dataset in plan.datasets_of(method) if method.ranker else ():
            make_ranker(method.ranker, method.parameters_for(dataset) | {n: v[0] for n, v in method.choose.items()})
    assert quick_plan(plan).methods


CHEN_2 = """
20ng   Identity 0.185 0.323 0.2    | Diagonal 0.190 0.318 0.2   | SGD FLR 0.258 0.197 1294
20ng   SGD DLR  0.399 0.099 943.1  | Sparse   0.360 0.114 154.2 | Sparse-R 0.426 0.090 154.2
rcv1   Identity 0.380 0.230 0.2    | Diagonal 0.390 0.223 0.2   | SGD FLR 0.451 0.087 717.2
rcv1   SGD DLR  0.453 0.046 360.2  | Sparse   0.463 0.036 105.4 | Sparse-R 0.501 0.029 105.4
mnist  Identity 0.453 0.221 0.018  | Diagonal 0.460 0.318 0.018 | SGD FLR 0.610 0.096 6.796
mnist  SGD DLR  0.654 0.082 6.121  | Sparse   0.654 0.083 4.301 | Sparse-R 0.669 0.075 4.301
"""
CHEN_3 = """
clinton: clinton government health people gay
cpu: mac drive scsi card jon
graphics: graphics tiff image color polygon
handgun: gun weapons handgun militia fbi
hockey: hockey game espn colorado team
motorcycle: bike brake turbo rpi cylinder
religions: god religions bible christian jesus
"""


def test_the_printed_numbers_are_those_of_chen_et_al(papers):
    printed = {}
    for line in CHEN_2.strip().splitlines():
        dataset, _, entries = line.partition(" ")
        for entry in entries.split("|"):
            *title, precision, error, memory = entry.split()
            printed[dataset, " ".join(title)] = (float(precision), float(error), float(memory))
    tables = [table for table in papers["chen2010"].tables if table.kind == "paper"]
    assert [(table.position, *table.datasets) for table in tables] == [
        ("Table II (a)", "20ng"),
        ("Table II (b)", "rcv1"),
        ("Table II (c)", "mnist"),
    ]
    assert [key for key, measure in papers["chen2010"].measures.items() if measure.compare] == ["map", "error"]
    assert printed == {
        (*table.datasets, papers["chen2010"].model(row.model).title): tuple(
            row.printed[name] for name in ("map", "error", "memory")
        )
        for table in tables
        for row in table.rows
        if row.printed
    }
    assert {name: tuple(facts.values()) for name, facts in papers["chen2010"].statistics[0].printed.items()} == {
        "20ng": (11_314, 7_532, 20, 10_000, 10**8),
        "rcv1": (15_564, 518_571, 53, 10_000, 10**8),
        "mnist": (60_000, 10_000, 10, 784, 614_656),
    }
    lines = (line.split(": ") for line in CHEN_3.strip().splitlines())
    assert papers["chen2010"].words[0].printed == {word: tuple(related.split()) for word, related in lines}


def test_the_settings_are_those_of_chen_et_al(papers):
    methods = {method.key: method for method in papers["chen2010"].methods}
    assert {methods[key].preferences for key in ("diagonal", "flr", "dlr", "sparse-fit")} == {100_000}
    assert methods["flr"].parameters == {"rate": 0.01, "schedule": "constant"}
    assert methods["dlr"].parameters == {"rate": 200.0, "schedule": "inverse-sqrt"}
    assert methods["diagonal"].parameters == methods["flr"].parameters
    sparse = methods["sparse-fit"].parameters_for("20ng")
    start = sparse["refit_start"]
    assert (sparse["rate"], sparse["schedule"], sparse["shrink_every"], start) == (200.0, "inverse-sqrt", 100, "sparse")
    for dataset, memory, n_words in (("20ng", 154.2, 10_000), ("rcv1", 105.4, 10_000), ("mnist", 4.301, 784)):
        printed = (memory * 2**20 - 8 * (n_words + 1)) / 16 / n_words**2
        for key in ("sparse-fit", "sparse-identity-fit"):
            assert methods[key].parameters_for(dataset)["density"] == pytest.approx(printed, abs=0.0005)


def test_a_parameter_may_be_a_ranker(papers):
    [method] = [method for method in papers["chen2010"].methods if method.key == "on-low-rank-fit"]
    first = make_ranker(method.ranker, method.parameters, seed=3).low_rank
    assert (type(first).__name__, first.epochs, first.random_state, first.verbose) == ("LowRankRanker", 5, 3, False)


PRINTED = {
    "table-1": """1.62 .329 .163|1.62 .330 .163|4.79 .158 .098|1.28 .346 .170|1.41 .355 .177|.41 .477 .212|.41 .461 .213
        |.40 .462 .209|.53 .425 .197|.41 .506 .225|.30 .517 .229""",
    "table-2": """.842 .432 .193|.842 .432 .193|.721 .433 .193|.200 .503 .220|.178 .536 .233|.172 .541 .232
        |.158 .547 .239|2.98 .239 .127|1.75 .301 .152|1.37 .335 .164|.525 .466 .207|.370 .474 .211|.347 .485 .215
        |.149 .559 .249|.119 .614 .263""",
    "table-3": ".407 .506 .225|.401 .503 .225",
    "table-4": """.407 .506 .225|.387 .514 .225|.380 .510 .226|.302 .517 .229|.374 .495 .221|.310 .514 .228""",
    "table-5-k5": "21.6 .047 .023|14.2 .049 .023|4.80 .161 .079|4.37 .166 .083",
    "table-5-k10": "14.0 .083 .035|9.73 .089 .037|3.10 .2138 .095|2.91 .229 .100",
    "table-5-k20": "9.14 .128 .054|6.36 .133 .059|1.87 .287 .126|1.80 .302 .130",
    "table-6": "12.86 .128 .035|8.95 .133 .051|3.02 .261 .113|2.02 .315 .135",
    "table-9": """4.78 .319 .259|8.27 .115 .103|4.83 .290 .243|7.54 .169 .150|3.71 .300 .253|9.29 .190 .161
        |3.31 .275 .212|1.72 .399 .325|.96 .438 .351|.75 .493 .377|.63 .524 .386""",
    "table-10": "4.16 .346 .311|4.21 .338 .280|3.24 .365 .309|1.53 .443 .367|.78 .499 .380|.60 .527 .391",
}


@pytest.mark.parametrize("key", PRINTED)
def test_printed_numbers_are_those_of_the_paper(papers, key):
    [table] = [table for table in papers["ssi"].tables if table.key == key]
    typed = [tuple(map(float, row.split())) for row in PRINTED[key].split("|")]
    rows = [row.printed for row in table.rows if "error" in row.printed]
    assert [pytest.approx((100 * row["error"], row["map"], row["p10"])) for row in rows] == typed


# The ± of MAP and P@10, in thousandths.
PRINTED_ERRORS = {
    "table-1": "10 6|10 6|6 5|11 7|9 7|11 7|10 7|10 7|11 7|12 7|11 7",
    "table-2": "12 7|12 7|12 7|12 7|12 8|12 8|12 8|9 5|10 6|10 7|11 7|12 7|11 7|12 7|12 8",
    "table-3": "12 7|10 6",
    "table-4": "12 7|12 7|12 8|12 7|12 7|12 7",
    "table-5-k5": "4 .7|4 .7|7 3|7 3",
    "table-5-k10": "6 1|6 1|.9 4|9 4",
    "table-5-k20": "7 2|7 2|10 5|10 5",
    "table-6": "8 3|8 3|10 4|11 5",
    "table-9": "9 8|5 5|8 8|7 7|8 8|7 7|9 8|9 9|9 9|9 9|9 9",
    "table-10": "9 9|9 8|9 9|9 9|9 9|9 9",
}


@pytest.mark.parametrize("key", PRINTED_ERRORS)
def test_printed_standard_errors_are_those_of_the_paper(papers, key):
    [table] = [table for table in papers["ssi"].tables if table.key == key]
    rows = [row.plus_minus for row in table.rows if "error" in row.printed]
    typed = [tuple(map(float, row.split())) for row in PRINTED_ERRORS[key].split("|")]
    assert [pytest.approx((1000 * row["map"], 1000 * row["p10"])) for row in rows] == typed


PRINTED_PARAMS = {
    "table-1": "0|2|1000D|200D+1|D|D²|1000D|100D|10D|200D|400D",
    "table-2": "0|2|200 × 30k + 1|50D|100 × 100k|100 × 60k|200 × 30k|1M|3M|6M|1M+1|3M+1|6M+1|300 × 30k|300 × 30k",
    "table-5-k5": "0|200D+1|200D|400D",
    "table-5-k10": "0|200D+1|200D|400D",
    "table-5-k20": "0|200D+1|200D|400D",
    "table-6": "0|200 × 30k+1|400 × 30k|500 × 30k",
}


@pytest.mark.parametrize("key", PRINTED_PARAMS)
def test_printed_parameters_are_those_of_the_paper(papers, key):
    [table] = [table for table in papers["ssi"].tables if table.key == key]
    assert [row.params for row in table.rows if "error" in row.printed] == PRINTED_PARAMS[key].split("|")


def test_low_rank_rows_have_the_setting_of_the_paper_but_for_the_start(papers):
    rows = {
        row.model
        for table in papers["ssi"].tables
        for row in table.rows
        if row.model and row.printed and "wiki" in table.datasets[0]
    }
    low_rank = [
        papers["ssi"].method_of(key) for key in sorted(rows) if papers["ssi"].method_of(key).ranker == "LowRankRanker"
    ]
    ours = [method for method in low_rank if "start" not in method.parameters]
    assert len(ours) > 15
    for method in ours:
        assert method.early_stop
        assert method.seeds is None
        assert method.parameters["spread"] == 0.1
        if method.key == "uu-all":  # with the rate at which it runs to its end
            continue
        assert not {"identity_weight", "schedule", "rate"} & {*method.parameters}
        assert method.chosen_by is not None or method.choose_on == "training"


def test_every_table_and_figure_of_the_paper_is_there(papers):
    positions = " ".join([t.position for t in papers["ssi"].tables] + [w.position for w in papers["ssi"].words])
    for number in range(1, 12):
        assert re.search(rf"Table {number}\b", positions)
    figures = {c.position for c in papers["ssi"].curves} | {p.position for p in papers["ssi"].precisions}
    assert figures == {f"Figure 1 ({x})" for x in "ab"} | {f"Figure 2 ({x})" for x in "abcd"}
    [eleven] = [table for table in papers["ssi"].tables if table.key == "table-11"]
    printed = [row for row in eleven.rows if row.printed]
    assert [row.printed["error"] for row in printed] == [0.4560, 0.2615, 0.2556, 0.2583, 0.2668, 0.2698]
    sizes = ["50 × 10k = 0.5M", "50 × 20k = 1M", "50 × 30k = 1.5M"]
    assert [row.params for row in printed] == ["0", "1M", "10M", *sizes]


def test_mates_are_compared_at_every_width_and_learned_from_the_same(papers):
    [table] = [table for table in papers["ssi"].tables if table.key == "translations"]
    rows = [row.model for row in table.rows]
    assert rows[:2] == ["cl-lsi", "translations"]
    assert [row.printed["error"] for row in table.rows[:2]] == [0.0081, 0.0053]
    assert papers["ssi"].method_of("cl-lsi").choose_on == "validation"
    assert {50, 100, 200, 500} <= set(papers["ssi"].method_of("cl-lsi").choose["n_components"])
    chosen = papers["ssi"].method_of("translations").chosen_by
    assert chosen is not None
    assert chosen.method == "cl-lsi"
    for n in (50, 100, 200):
        lsi, ssi = papers["ssi"].method_of(f"cl-lsi-{n}"), papers["ssi"].method_of(f"translations-{n}")
        assert lsi.parallel
        assert ssi.parallel
        assert lsi.parameters["n_components"] == ssi.parameters["n_components"] == n
        assert ssi.negatives == "hard"
        assert ssi.early_stop


CHENG_2 = {
    "hp2004": [
        ("sparserank", 0.6799, 0.7687, 0.8098, 0.8135, 0.7435),
        ("fenchelrank", 0.6800, 0.7880, 0.8123, 0.8239, 0.7475),
        ("minbatsrank", 0.7200, 0.8213, 0.8321, 0.8474, 0.7795),
    ],
    "np2004": [
        ("sparserank", 0.6133, 0.7734, 0.7972, 0.8180, 0.6837),
        ("fenchelrank", 0.5600, 0.7752, 0.7905, 0.8148, 0.7144),
        ("minbatsrank", 0.5867, 0.7855, 0.8103, 0.8282, 0.7059),
    ],
    "td2004": [
        ("sparserank", 0.3867, 0.3523, 0.3263, 0.3151, 0.2362),
        ("fenchelrank", 0.3866, 0.3763, 0.3524, 0.3214, 0.2241),
        ("minbatsrank", 0.5066, 0.4253, 0.3583, 0.3291, 0.2139),
    ],
    "ohsumed": [
        ("sparserank", 0.5671, 0.5000, 0.4764, 0.4563, 0.4489),
        ("fenchelrank", 0.5453, 0.5131, 0.4879, 0.4608, 0.4480),
        ("minbatsrank", 0.5704, 0.5030, 0.4816, 0.4663, 0.4511),
    ],
}
SETS = ("hp2004", "np2004", "td2004", "ohsumed")
CHENG_3 = {
    "fenchelrank": (0.2031, 0.2625, 0.4875, 0.2844),
    "sparserank": (0.3906, 0.6406, 0.5875, 0.2978),
    "minbatsrank": (0.3469, 0.3781, 0.4625, 0.2311),
}
CHENG_4 = {
    "fenchelrank": (26.97, 48.45, 1585.03, 254.97),
    "sparserank": (15.33, 8.61, 33.02, 18.89),
    "minbatsrank": (0.68, 0.08, 0.53, 0.04),
}


def test_the_papers_tables_are_typed_right(papers):
    tables = {table.key: table for table in papers["minbatsrank"].tables}
    for dataset, rows in CHENG_2.items():
        found = [(row.model, row.printed) for row in tables[f"table-2-{dataset}"].rows]
        names = ("ndcg1", "ndcg3", "ndcg5", "ndcg10", "map")
        assert found == [(method, dict(zip(names, numbers, strict=True))) for method, *numbers in rows]
    for key, printed in (("table-3", CHENG_3), ("table-4", CHENG_4)):
        found = {row.model: row.printed for row in tables[key].rows}
        assert found == {method: dict(zip(SETS, numbers, strict=True)) for method, numbers in printed.items()}
    rows = {name: tuple(facts.values()) for name, facts in papers["minbatsrank"].statistics[0].printed.items()}
    assert rows == {
        "td2004": (75, 64, 2, 74146),
        "hp2004": (75, 64, 2, 74409),
        "np2004": (75, 64, 2, 73834),
        "ohsumed": (106, 45, 3, 16140),
    }


def test_the_papers_protocol_is_that_of_the_plan(papers):
    method = papers["minbatsrank"].method_of("minbatsrank")
    gammas, lambdas = tuple(2.0**k for k in range(1, -11, -1)), tuple(2.0**k for k in range(17, -3, -1))
    assert method.choose == {
        "batch_size": ("none", 1000, 100),
        "rate": gammas,
        "l1": lambdas,
        "epochs": (1, 2, 3, 5),
    }
    assert method.parameters == {"rho": 1.0}
    assert method.choose_on == "validation"
    for passes in (1, 2, 3, 5):
        fixed = papers["minbatsrank"].method_of(f"minbatsrank-t{passes}")
        assert (fixed.choose, fixed.parameters["epochs"]) == ({"rate": gammas, "l1": lambdas}, passes)
    assert papers["minbatsrank"].measures[papers["minbatsrank"].choose_by].name == "nDCG(dcg='exp-log2')@10"
    assert papers["minbatsrank"].measures["map2"].name == "AP(rel=2)"
    assert dict(papers["minbatsrank"].claims[0].printed) == {
        "hp2004": 20.0,
        "np2004": 4.77,
        "td2004": 18.73,
        "ohsumed": 3.42,
    }
    assert papers["minbatsrank"].method_of("ours-sparse").parameters["largest"] / 45 <= 0.2311


def test_what_the_paper_compares_is_corrected_by_itself(papers):
    stated = [claim for claim in papers["minbatsrank"].claims if not claim.position.startswith("not in the paper")]
    *own, others = papers["minbatsrank"].comparisons
    tested = {model for tests in own for model in (*tests.models, tests.against)} - {""}
    assert tested == {model for claim in stated for model in (claim.better, *claim.worse)}
    assert not tested & set(others.models)
    assert {tests.measures for tests in papers["minbatsrank"].comparisons} == {("ndcg1", "ndcg10", "map")}


def test_the_printed_numbers_are_those_of_tsivtsivadze_et_al(papers):
    assert papers["rankrls"].tables[0].key == "table-1-made-up"
    for key, end in (("table-1-made-up", "-5"), ("table-1", "")):
        table = next(table for table in papers["rankrls"].tables if table.key == key)
        printed = {row.model: row.printed["disagreement"] for row in table.rows if row.printed}
        assert printed == {
            f"rls{end}": 0.27,
            f"sparse-rls{end}": 0.24,
            f"rankrls{end}": 0.23,
            f"sparse-rankrls{end}": 0.21,
        }
    assert not any(data.compare for data in papers["rankrls"].datasets.values())


def test_the_protocol_of_tsivtsivadze_et_al_is_that_of_the_plan(papers):
    for kind in ("rls", "rankrls"):
        for size in ("", "-2", "-4", "-5", "-8", "-16"):
            basic, sparse_form = (
                papers["rankrls"].method_of(f"{kind}{size}"),
                papers["rankrls"].method_of(f"sparse-{kind}{size}"),
            )
            # The basis vectors of the sparse methods are the training examples of the others; all else is the same.
            same = {"key": "", "title": "", "drawn_as": "examples"}
            assert replace(basic, **same) == replace(sparse_form, **same)
            assert (basic.drawn_as, sparse_form.drawn_as) == ("examples", "basis")
            assert basic.per_query == int(size[1:] or 2)
    assert all(method.cv_folds == 10 for method in papers["rankrls"].methods if method.datasets == ("parses",))
    # 500 sentences with 20 parses to learn from, 5 of each drawn: m = 10,000, r = 2,500; 600 to test on.
    data = papers["rankrls"].datasets["made-up"]
    assert (data.train_queries, data.test_queries, data.rows_of_query) == (500, 600, 20)
    assert papers["rankrls"].method_of("sparse-rankrls-5").seeds == 10
    assert papers["rankrls"].measures[papers["rankrls"].choose_by].name == "disagreement"
    assert {comparison.test for comparison in papers["rankrls"].comparisons} == {"wilcoxon"}
