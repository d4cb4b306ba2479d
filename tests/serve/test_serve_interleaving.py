"""Two models at once: lists made of both, who is whose in the log, and who wins by the clicks in it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest
from click.testing import CliRunner

import tercet as tc
from support.serving import ELSEWHERE, client_of, made_docs, made_index, refused
from support.sharing import QUERY, SETTLED, Clock, candidate_of, ids, lists_of, logged, search, sharing, visit
from tercet.cli.main import cli
from tercet.data import read_click_log
from tercet.errors import BundleError, InputError
from tercet.measure.duels import Assignment
from tercet.report import Report, SystemResult
from tercet.search import Index
from tercet.serve import messages
from tercet.serve.guard import Access

# -- lists ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_list_is_made_of_both_and_only_the_log_says_whose(tmp_path):
    with sharing(tmp_path) as (api, service, _):
        orders = set()
        for number in range(30):
            answer = search(api, client=f"reader-{number}", k=6)
            assert answer["interleaved"]
            orders.add(tuple(ids(answer)))
            served, other = lists_of(service, QUERY, 6)
            assert set(ids(answer)) <= set(served) | set(other)
            for hit in answer["learned"]:
                assert hit["score"] == pytest.approx(service.served.index.explain(QUERY, hit["id"]).score, rel=1e-5)
            [record] = [one for one in logged(tmp_path) if one["query_id"] == answer["query_id"]]
            assignment = Assignment.from_meta(record["query_attributes"]["interleaved"], 6)
            assert assignment.contest[:2] == (
                service.served.model_label,
                service.interleaver.contest(service.now).second,
            )
            assert record["query_response_hit_ids"] == ids(answer)
            for team, ranking in (("first", served), ("second", other)):
                own = [doc for doc, one in zip(ids(answer), assignment.teams, strict=True) if one == team]
                assert own == sorted(own, key=ranking.index)
            assert "teams" not in json.dumps(answer)
        assert len(orders) > 1
        assert served != other


@pytest.mark.slow
def test_the_same_list_all_day_for_one_client_and_more_of_it_begins_alike(tmp_path):
    with sharing(tmp_path) as (api, _, clock):
        first = ids(search(api, k=5))
        assert ids(search(api, k=5)) == first
        assert ids(search(api, k=12))[:5] == first
        assert ids(search(api, k=12, all=True))[:5] == first
        days = set()
        for _ in range(20):
            clock.now += 86_400
            days.add(tuple(ids(search(api, k=5))))
        assert len(days) > 1


@pytest.mark.slow
def test_without_matches_there_is_the_served_list_alone(tmp_path):
    with sharing(tmp_path) as (api, _, _):
        assert not search(api, "zebra")["interleaved"] or not ids(search(api, "zebra"))
        assert search(api, "zebra")["query_id"] is None


@pytest.mark.slow
def test_all_goes_below_the_last_match_in_both(tmp_path):
    with sharing(tmp_path) as (api, _, _):
        few, everything = search(api, "oil", k=60), search(api, "oil", k=60, all=True)
        assert len(everything["learned"]) >= len(few["learned"])
        assert everything["left_off"] == 0
        assert few["left_off"] >= 0
        assert len(set(ids(everything))) == len(ids(everything))
        assert everything["interleaved"]


@pytest.mark.slow
def test_the_baseline_may_be_the_rival_and_is_none_before_anything_is_learned(tmp_path):
    with sharing(tmp_path, baseline=True) as (api, _, _):
        assert search(api)["interleaved"]
        assert api.get("/health").json()["interleaving"]["challenger"] == "baseline"
    shutil.rmtree(tmp_path / "index")
    Index.build(made_docs(), path=tmp_path / "index")  # BM25, as the baseline is
    with sharing(tmp_path, baseline=True) as (api, _, _):
        assert not search(api)["interleaved"]
        api.post("/prefer", json={"query": QUERY, "better": ids(search(api))[3], "worse": ids(search(api))[0]})
        assert search(api)["interleaved"]


def test_the_log_is_read_by_others_as_it_is(tmp_path):
    with sharing(tmp_path) as (api, _, _):
        answer = search(api)
        api.post("/events", json={"query_id": answer["query_id"], "doc": ids(answer)[2]})
    log = read_click_log(tmp_path / "impressions")
    [impression] = log.impressions
    assert log.interleaved == (True,)
    assert (list(impression.shown), impression.clicked) == (ids(answer), (ids(answer)[2],))


# -- teaching and changes ---------------------------------------------------------------------------------------------


def test_both_learn_what_is_taught_and_forget_what_is_undone(tmp_path):
    with sharing(tmp_path) as (api, service, _):
        before = lists_of(service, QUERY, 60)
        best, *_, worst = before[1]
        assert api.post("/prefer", json={"query": QUERY, "better": worst, "worse": best}).json()["served"]
        for ranking in lists_of(service, QUERY, 60):
            assert ranking.index(worst) < ranking.index(best)
        assert [one.revision for one in service.now] == [1, 1]
        assert api.post("/undo", json={}).json()["served"]
        assert lists_of(service, QUERY, 60) == before


def test_documents_come_and_go_for_both(tmp_path):
    access = Access(None, {"ann": "w"}, None)
    with sharing(tmp_path, access=access) as (api, service, _):
        headers = {"Authorization": "Bearer w"}
        new = {"documents": [{"id": "new", "text": "green avocado " * 3}]}
        assert api.post("/documents", json=new, headers=headers).status_code == 200
        answer = search(api)
        assert answer["interleaved"]
        assert answer["index"] == service.served.index_label
        assert "new" in ids(answer)
        assert all("new" in ranking for ranking in lists_of(service, QUERY, 10))
        assert api.delete("/documents?id=new", headers=headers).status_code == 200
        answer = search(api, k=60)
        assert answer["interleaved"]
        assert "new" not in ids(answer)


@pytest.mark.slow
def test_a_candidate_that_changes_is_taken_and_a_bad_one_refused(tmp_path):
    with sharing(tmp_path) as (api, service, _):
        model = service.served.base.model
        before = service.interleaver.contest(service.now)
        assert not service.reloader.look_at_candidate()
        candidate_of(model, 7).save(tmp_path / "candidate")
        assert service.reloader.look_at_candidate()
        second = service.interleaver.contest(service.now)
        assert second != before
        tc.TextModel.bm25(["other words"]).save(tmp_path / "candidate")
        assert not service.reloader.look_at_candidate()
        health = api.get("/health").json()
        messages.Health.model_validate(health)
        assert health["interleaving"]["refused"].startswith("InputError")
        assert health["refused"] is None
        assert search(api)["interleaved"]  # with the one before
        Index.open(tmp_path / "index").add({"more": "green avocado"})
        assert service.reloader.look()
        assert search(api)["interleaved"]
        assert service.interleaver.contest(service.now) == second
        shutil.rmtree(tmp_path / "candidate")
        assert not service.reloader.look_at_candidate()
        assert api.get("/health").json()["interleaving"]["refused"] is not None
        assert search(api)["interleaved"]
        candidate_of(model).save(tmp_path / "candidate")
        assert service.reloader.look_at_candidate()
        assert (service.interleaver.contest(service.now), service.interleaver.refused) == (before, None)


def rejected(model: tc.TextModel) -> tc.TextModel:
    """What a fit saves that did not help: its start."""
    start = SystemResult("BM25", {"nDCG@10": (0.3, 0.2, 0.4)})
    report = Report("nDCG@10", 9, 9, 9, "As given.", (start,), accepted=False, decision="Learning was rejected.")
    return replace(model, report=report)


@pytest.mark.slow
def test_a_candidate_that_was_declined_is_not_shown_to_anybody(tmp_path, caplog):
    with sharing(tmp_path) as (api, service, _):
        before = service.interleaver.contest(service.now)
        rejected(service.served.base.model).save(tmp_path / "candidate")
        assert not service.reloader.look_at_candidate()
        assert service.interleaver.contest(service.now) == before  # the one before goes on
        assert "learning was rejected (Learning was rejected.)" in caplog.text
    with sharing(tmp_path) as (api, service, _):  # a restart does not fail for it
        assert not search(api)["interleaved"]
        output = api.get("/health").json()["interleaving"]
        assert (output["challenger"], output["refused"] is not None) == (None, True)
        assert service.interleaver.description(service.now) == "there is no candidate yet"
        Index.open(tmp_path / "index").add({"more": "green avocado"})
        assert service.reloader.look()
        assert api.get("/health").json()["interleaving"]["refused"] is not None
        candidate_of(service.served.base.model).save(tmp_path / "candidate")
        assert service.reloader.look_at_candidate()
        assert search(api)["interleaved"]
        assert service.interleaver.refused is None


def test_an_index_of_other_words_is_served_without_the_candidate(tmp_path):
    with sharing(tmp_path) as (api, service, _):
        Index.build({"a": "zebra crossing", "b": "zebra"}, path=tmp_path / "index")
        assert service.reloader.look()
        answer = search(api, "zebra")
        assert ids(answer) == ["b", "a"]
        assert not answer["interleaved"]
        output = api.get("/health").json()["interleaving"]
        assert output["refused"] is not None
        assert output["challenger"] is None


@pytest.mark.slow
def test_the_model_that_is_served_is_no_rival(tmp_path):
    index = made_index(tmp_path / "index")
    index.model.save(tmp_path / "candidate")
    with sharing(tmp_path) as (api, service, _):
        assert not search(api)["interleaved"]
        assert api.get("/health").json()["interleaving"]["challenger"] is None
        candidate_of(index.model).save(tmp_path / "candidate")
        assert service.reloader.look_at_candidate()
        assert search(api)["interleaved"]


def test_a_bad_candidate_stops_the_start(tmp_path):
    made_index(tmp_path / "index")
    with pytest.raises(BundleError, match="candidate"), sharing(tmp_path):
        pass
    tc.TextModel.bm25(["other words"]).save(tmp_path / "candidate")
    with pytest.raises(InputError, match="cannot be compared with the served model"), sharing(tmp_path):
        pass
    options = ["serve", str(tmp_path / "index"), "--interleave", "baseline"]
    result = CliRunner().invoke(cli, options)
    assert result.exit_code == 2
    assert "--log-impressions" in result.output


# -- the standing -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_clicks_settle_and_tell_who_wins_also_after_a_restart(tmp_path):
    clock = Clock()
    with sharing(tmp_path, clock=clock) as (api, service, _):
        visit(tmp_path, api, 40, 2)
        service.interleaver.count()
        output = api.get("/health").json()["interleaving"]
        assert (output["wins"], output["losses"], output["ties"]) == (0, 0, 0)  # not settled yet
        clock.now += SETTLED
        service.interleaver.count()
        output = api.get("/health").json()["interleaving"]
        assert output["losses"] > 30
        assert output["wins"] == 0
        assert output["wins"] + output["losses"] + output["ties"] == 40
        assert (output["winner"], output["to_go"]) == ("second", 0)
        assert output["low"] < output["share"] == output["ties"] / 80 < output["high"] < 0.5
        service.interleaver.count()
        assert api.get("/health").json()["interleaving"] == output  # a list counts once
    with sharing(tmp_path, clock=clock) as (api, service, _):
        service.interleaver.count()
        assert api.get("/health").json()["interleaving"] == output


def test_a_broken_line_of_the_log_is_passed_over(tmp_path, caplog):
    clock = Clock()
    with sharing(tmp_path, clock=clock) as (api, service, _):
        visit(tmp_path, api, 5, 1)
        [file] = (tmp_path / "impressions").glob("ubi_queries-*")
        with open(file, "a") as stream:
            stream.write('{"query_id": 7}\n')
        visit(tmp_path, api, 5, 1, start=5)
        clock.now += SETTLED
        service.interleaver.count()
        service.interleaver.count()
        output = api.get("/health").json()["interleaving"]
        assert output["wins"] + output["ties"] == 10
        assert "not counted" in caplog.text


def test_the_log_names_no_address(tmp_path):
    access = Access("r", {"ann": "w"}, None)
    with sharing(tmp_path, access=access) as (_, service, _):
        api = client_of(service, access, ELSEWHERE)
        for token in ("r", "w"):
            api.get("/search", params={"q": QUERY, "client": token}, headers={"Authorization": f"Bearer {token}"})
    assert len(logged(tmp_path)) == 2
    everything = b"".join(path.read_bytes() for path in (tmp_path / "impressions").iterdir())
    assert b"10.0.0.1" not in everything


def test_a_candidate_that_breaks_does_not_break_what_is_served(tmp_path, monkeypatch, caplog):
    with sharing(tmp_path) as (api, service, _):

        def broken(*_: object, **__: object) -> None:
            raise RuntimeError("no")

        monkeypatch.setattr(type(service.now.rival.index), "search", broken, raising=True)
        assert service.interleaver.draft(service.now, "me", QUERY).mixed(["d1"], 5, False) is None
        monkeypatch.undo()
        answer = search(api)
        assert not answer["interleaved"]
        assert ids(answer)
        assert api.get("/health").json()["interleaving"]["refused"].startswith("RuntimeError")
        assert refused(api.get("/search", params={"k": 3}), 422, "q")
