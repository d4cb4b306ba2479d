"""Promotion of a model that wins by clicks: by rule, by hand, refused, and across a kill."""

from __future__ import annotations

import shutil
import urllib.parse
from typing import Any

import pytest
from click.testing import CliRunner

import tercet as tc
from support.serving import Running, eventually, made_docs, made_index, running
from support.sharing import QUERIES, QUERY, SETTLED, Clock, candidate_of, ids, logged, search, sharing, visit
from tercet.cli.main import cli
from tercet.errors import InputError
from tercet.search import Index

# -- promotion by rule ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_candidate_that_wins_is_promoted_and_comes_to_be_challenged_by_the_one_before(tmp_path):
    clock = Clock()
    with sharing(tmp_path, clock=clock, promotes=True) as (api, service, _):
        served, candidate = service.interleaver.contest(service.now)[:2]
        visit(tmp_path, api, 25, 2)
        assert service.reloader.judge() is None  # nothing is settled
        clock.now += SETTLED
        entry = service.reloader.judge()
        assert (entry.number, entry.by, entry.undoes) == (1, "rule", None)
        assert entry.before.startswith(served)
        assert entry.after.startswith(candidate)
        assert entry.evidence.wins > 20
        assert entry.evidence.losses == 0
        assert service.served.model_label == candidate
        output = api.get("/health").json()["interleaving"]
        assert (output["served"], output["challenger"], output["promotion"]) == (candidate, served, 1)
        assert (output["wins"], output["losses"], output["ties"]) == (0, 0, 0)  # counts begin anew
        assert service.reloader.judge() is None
    with sharing(tmp_path, clock=clock, promotes=True) as (api, service, _):  # the same after a restart
        assert service.interleaver.contest(service.now) == (candidate, served, 1)
        visit(tmp_path, api, 25, 2, start=100)
        clock.now += SETTLED
        entry = service.reloader.judge()
        assert (entry.number, entry.after[:12]) == (2, served)
        assert service.interleaver.contest(service.now) == (served, candidate, 2)
        assert service.reloader.judge() is None  # the lists of the first duel do not count for the third
        assert [one.number for one in service.served.base.promotions] == [1, 2]
        assert [hit.doc_id for hit in service.served.index.search(QUERY)]
    assert [one.by for one in Index.open(tmp_path / "index").promotions] == ["rule", "rule"]


@pytest.mark.slow
def test_what_wins_stays_and_nothing_is_promoted_unless_asked_for(tmp_path):
    clock = Clock()
    with sharing(tmp_path, clock=clock, promotes=True) as (api, service, _):
        visit(tmp_path, api, 25, 1)
        clock.now += SETTLED
        assert service.reloader.judge() is None
        assert api.get("/health").json()["interleaving"]["winner"] == "first"
        assert service.served.base.promotions == ()
    shutil.rmtree(tmp_path / "impressions")
    with sharing(tmp_path, clock=clock) as (api, service, _):
        visit(tmp_path, api, 25, 2)
        clock.now += SETTLED
        assert service.reloader.judge() is None
        assert api.get("/health").json()["interleaving"]["winner"] == "second"
        assert service.served.base.promotions == ()


@pytest.mark.slow
def test_one_client_promotes_nothing(tmp_path):
    clock = Clock()
    with sharing(tmp_path, clock=clock, promotes=True) as (api, service, _):
        for day in range(4):
            for query in QUERIES:
                answer = search(api, query, client="me")
                teams = logged(tmp_path)[-1]["query_attributes"]["interleaved"]["teams"]
                if 2 in teams:
                    click = {"query_id": answer["query_id"], "doc": ids(answer)[teams.index(2)], "client": "me"}
                    api.post("/events", json=click)
            clock.now += 86_400
            assert service.reloader.judge() is None, day
        output = api.get("/health").json()["interleaving"]
        assert (output["wins"] + output["losses"] + output["ties"], output["winner"]) == (1, None)


def test_a_promotion_by_hand_changes_the_sides_as_well(tmp_path):
    with sharing(tmp_path) as (_, service, _):
        served, candidate = service.interleaver.contest(service.now)[:2]
        Index.open(tmp_path / "index").promote(tc.load(tmp_path / "candidate"))
        assert service.reloader.look()
        assert service.interleaver.contest(service.now) == (candidate, served, 1)
        candidate_of(service.served.base.model, 9).save(tmp_path / "candidate")
        assert service.reloader.look_at_candidate()
        assert service.interleaver.contest(service.now).first == candidate
        assert service.interleaver.contest(service.now).second not in (served, candidate)
        Index.open(tmp_path / "index").take_back()
        assert service.reloader.look()
        assert service.interleaver.contest(service.now).first == served
        assert service.interleaver.contest(service.now).promotion == 2


@pytest.mark.slow
def test_a_promotion_that_cannot_be_written_is_refused_and_told(tmp_path, monkeypatch, caplog):
    clock = Clock()
    with sharing(tmp_path, clock=clock, promotes=True) as (api, service, _):
        visit(tmp_path, api, 25, 2)
        clock.now += SETTLED

        def full(*_: object, **__: object) -> None:
            raise OSError("no space left on device")

        monkeypatch.setattr(Index, "promote", full)
        assert service.reloader.judge() is None
        monkeypatch.undo()
        assert api.get("/health").json()["interleaving"]["refused"].startswith("OSError")
        assert search(api)["interleaved"]
        assert service.reloader.judge() is None  # a minute later
        service.reloader._promote_at = 0.0
        assert service.reloader.judge().number == 1
        assert api.get("/health").json()["interleaving"]["refused"] is None


def test_what_cannot_be_promoted_is_refused_at_the_start(tmp_path):
    with (
        pytest.raises(InputError, match="baseline cannot be promoted"),
        sharing(tmp_path, baseline=True, promotes=True),
    ):
        pass
    options = ["serve", str(tmp_path / "index"), "--log-impressions", str(tmp_path / "log"), "--promote"]
    for more in ((), ("--interleave", "baseline")):
        result = CliRunner().invoke(cli, [*options, *more])
        assert result.exit_code == 2, result.output
        assert "--promote needs" in result.output


@pytest.mark.slow
def test_filters_hold_for_both(tmp_path):
    docs = [(name, text, {"kind": "odd" if len(text) % 2 else "even"}) for name, text in made_docs().items()]
    index = made_index(tmp_path / "index", docs=docs)
    candidate_of(index.model).save(tmp_path / "candidate")
    with sharing(tmp_path) as (api, _, _):
        answer = search(api, filter="kind:odd", k=20)
        assert answer["interleaved"]
        assert ids(answer)
        stored = [api.get("/documents", params={"id": doc_id}).json()["stored_fields"] for doc_id in ids(answer)]
        assert {record["kind"] for record in stored} == {"odd"}


# -- as a process -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_duel_goes_on_after_a_kill_and_ends_with_a_promotion(tmp_path):
    index = made_index(tmp_path / "index")
    candidate_of(index.model).save(tmp_path / "candidate")
    options = ["--log-impressions", str(tmp_path / "impressions"), "--interleave", str(tmp_path / "candidate")]
    options += ["--promote", "--settle-after", "0.2", "--look-every", "0.1"]

    def standing(service: Running) -> dict[str, Any]:
        return service.ask("/health").json()["interleaving"]

    def visit_as_people(service: Running, numbers: range) -> None:
        for number in numbers:
            query = urllib.parse.quote(QUERIES[number % len(QUERIES)])
            answer = service.ask(f"/search?q={query}&client=visitor-{number}").json()
            # None while the two models change places
            shared = logged(tmp_path)[-1]["query_attributes"].get("interleaved")
            teams = [] if shared is None else shared["teams"]
            if 2 in teams:
                doc = ids(answer)[teams.index(2)]
                service.ask("/events", {"query_id": answer["query_id"], "doc": doc, "client": f"visitor-{number}"})

    with running(tmp_path / "index", *options) as service:
        served, candidate = (standing(service)[name] for name in ("served", "challenger"))
        visit_as_people(service, range(8))
        assert eventually(lambda: standing(service)["losses"] + standing(service)["ties"] == 8)
        output = standing(service)
        assert output["winner"] is None
        service.process.kill()
        service.process.wait(20)
    with running(tmp_path / "index", *options) as service:
        assert eventually(lambda: standing(service) == output)
        visit_as_people(service, range(8, 40))
        assert eventually(lambda: standing(service)["promotion"] == 1)
        assert (standing(service)["served"], standing(service)["challenger"]) == (candidate, served)
        assert service.ask("/health").json()["model"] == candidate
        assert service.ask("/search?q=oil&client=after").json()["interleaved"]
    [entry] = Index.open(tmp_path / "index").promotions
    assert entry.by == "rule"
