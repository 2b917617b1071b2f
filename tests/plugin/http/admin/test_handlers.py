"""The admin API over HTTP: reads, switches, ordered limits, undo, and readiness."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from admin_api import OPERATOR, READS, VIEWER, admin_api, bearer, put

from headway.admission import EngineLink
from headway.api.schema import AuditKind
from headway.operator.commands.switch_history import MAX_REVISIONS, SwitchHistory
from headway.operator.presets import PresetCatalogue
from headway_policies import bundled_presets, parse_preset
from headway_policies.preset import differences, effective
from headway_policies.queueing.factory import OrderSettings


@pytest.mark.parametrize("path", READS)
async def test_reads_need_a_token_and_either_role_will_do(path: str) -> None:
    """401 without or with a wrong one, before anything is read; 200 for viewer and operator; 404 when it is off."""
    async with admin_api() as (client, _):
        for headers in ({}, bearer("x" * 40), {"Authorization": f"Basic {OPERATOR}"}, {"Authorization": OPERATOR}):
            refused = await client.get(f"/headway/v1/{path}", headers=headers)
            assert refused.status_code == 401
            assert refused.headers["www-authenticate"].startswith("Bearer")
            assert refused.headers["content-type"] == "application/problem+json"
        for token in (OPERATOR, VIEWER):
            assert (await client.get(f"/headway/v1/{path}", headers=bearer(token))).status_code == 200
    async with admin_api(configured=False) as (client, _):
        off = await client.get(f"/headway/v1/{path}", headers=bearer(OPERATOR))
        assert off.status_code == 404
        assert "HEADWAY_ADMIN_TOKEN" in off.json()["detail"]


async def test_a_limit_is_ordered_as_a_preset_is_switched() -> None:
    """At a revision, by an operator; the answer has the change, the status the order, the preset its settings."""
    async with admin_api() as (client, control):
        body = {"seats": 12, "expires_s": 30, "reason": "a trial", "actor": "ann"}
        for headers, status in (({}, 428), ({"If-Match": '"7"'}, 412)):
            refused = await client.put("/headway/v1/limit", headers=bearer(OPERATOR) | headers, json=body)
            assert (refused.status_code, control.revision) == (status, 1)
        headers = bearer(OPERATOR) | {"If-Match": '"1"'}
        done = await client.put("/headway/v1/limit", headers=headers, json=body)
        assert (done.status_code, done.headers["etag"], done.json()["name"]) == (200, '"2"', "balanced")
        assert done.json()["changes"] == [
            {"setting": "batching.seats", "before": 32, "after": 12},
            {"setting": "limit.policy", "before": "model", "after": "fixed"},
        ]
        preset = await client.get("/headway/v1/preset", headers=bearer(VIEWER))
        assert preset.json()["settings"]["batching.seats"] == 12
        (entry,) = control.audit.entries(9)[:1]
        assert (entry.action, entry.actor, entry.after, entry.reason) == (
            "order_limit", "ann", "balanced: 12 seats, for 30 s", "a trial",
        )  # fmt: skip
        control.limits.leave()


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({}, "seats"),
        ({"seats": 0}, "seats"),
        ({"seats": 8, "expires_s": 0}, "expires_s"),
        ({"seats": 8, "expires_s": 3601}, "expires_s"),
        ({"seats": 8, "window_ms": -1}, "window_ms"),
        ({"seats": 8, "minutes": 3}, "minutes"),
        ({"seats": 10_000}, "seats"),
    ],
    ids=str,
)
async def test_a_limit_out_of_bounds_is_refused_with_its_key(body: dict[str, Any], where: str) -> None:
    """422, and nothing has changed; more seats than the engine has is one of them."""
    async with admin_api() as (client, control):
        headers = bearer(OPERATOR) | {"If-Match": "*"}
        refused = await client.put("/headway/v1/limit", headers=headers, json=body)
        assert (refused.status_code, control.revision) == (422, 1)
        assert [one["where"] for one in refused.json()["errors"]] == [where]


async def test_a_switch_works_once_for_each_revision() -> None:
    """Of five operators with the same If-Match exactly one succeeds; the others get the current revision."""
    async with admin_api() as (client, control):
        seen = await client.get("/headway/v1/preset", headers=bearer(VIEWER))
        etag = seen.headers["etag"]
        answers = await asyncio.gather(*(put(client, headers={"If-Match": etag}) for _ in range(5)))
        assert sorted(answer.status_code for answer in answers) == [200, 412, 412, 412, 412]
        won = next(answer for answer in answers if answer.status_code == 200)
        assert won.json()["previous"] == "balanced"
        presets = bundled_presets()
        before, after = (effective(presets[name].settings()) for name in ("balanced", "latency"))
        expected = {change.setting for change in differences(before, after)}
        assert {one["setting"] for one in won.json()["changes"]} == expected >= {"batching.seats"}
        assert {answer.headers["etag"] for answer in answers} == {'"2"'}
        assert (control.preset.name, control.revision) == ("latency", 2)
        audit = (await client.get("/headway/v1/audit", headers=bearer(VIEWER))).json()["entries"]
        assert [line["result"].split(":")[0] for line in audit].count("applied") == 1
        assert len(audit) == 5


async def test_a_switch_that_changes_nothing_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    """200 with the revision there was and no changes; no count, no new marker, no call to the engine.

    The audit counts it apart from the changes.
    """
    limit_calls: list[int] = []
    async with admin_api() as (client, control):

        async def limit_engine(link: EngineLink) -> None:
            limit_calls.append(control.revision)

        monkeypatch.setattr(EngineLink, "limit_engine", limit_engine)
        before = control.snapshot().switches, control.snapshot().last_change_s, control.status().preset
        for etag in ('"1"', "*"):
            answer = await put(client, json={"name": "balanced", "reason": "again"}, headers={"If-Match": etag})
            assert answer.status_code == 200
            expected = {
                "name": "balanced",
                "revision": 1,
                "previous": "balanced",
                "changes": [],
                "engine_limit_confirmed": True,
                "warnings": [],
                "trial": None,
            }
            assert (answer.json(), answer.headers["etag"]) == (expected, '"1"')
        assert before == (control.snapshot().switches, control.snapshot().last_change_s, control.status().preset)
        assert (limit_calls, control.audit.entries(9)) == ([], [])
        (counted,) = control.audit.entries(9, AuditKind.NOOP)
        assert (counted.times, counted.reason, counted.result) == (2, "again", "nothing changed")
        assert (await put(client, json={"name": "balanced"}, headers={"If-Match": '"2"'})).status_code == 412
        assert (await put(client, json={"name": "balanced"}, headers={"If-Match": ""})).status_code == 428


async def test_another_name_for_the_same_settings_is_a_change() -> None:
    """A new revision and an audit line, though no setting differs."""
    async with admin_api() as (client, control):
        control.catalogue.include(control.preset.model_copy(update={"name": "twin"}))
        answer = await put(client, json={"name": "twin"})
        assert (answer.status_code, answer.json()["revision"], answer.json()["changes"]) == (200, 2, [])
        assert [(line.after, line.result) for line in control.audit.entries(9)] == [("twin", "applied")]


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({"token": VIEWER}, 403),
        ({"headers": {"If-Match": ""}}, 428),
        ({"headers": {"If-Match": '"2"'}}, 412),
        ({"headers": {"If-Match": 'W/"1"'}}, 412),
        ({"headers": {"If-Match": '"01"'}}, 412),
        ({"headers": {"If-Match": '"9999999999999999999999999"'}}, 412),
        ({"headers": {"If-Match": '"1", "2"'}}, 412),
        ({"json": {"name": "nonsense"}}, 422),
        ({"json": {"name": ["latency"]}}, 422),
        ({"json": {"name": "latency", "seats": 1}}, 422),
        ({"json": {"name": "latency", "reason": "x" * 401}}, 422),
        ({"json": {}}, 422),
        ({"json": []}, 422),
        ({"json": None, "content": b"{", "headers": {"Content-Type": "application/json"}}, 422),
        ({"json": None, "content": b"[" * 15_000, "headers": {"Content-Type": "application/json"}}, 422),
        ({"json": None, "content": b" " * 20_000, "headers": {"Content-Type": "application/json"}}, 413),
        ({"json": None, "content": b"name=latency", "headers": {"Content-Type": "text/plain"}}, 415),
    ],
)
async def test_a_refused_switch_changes_nothing_and_is_written_down(options: dict[str, Any], status: int) -> None:
    """A problem with one sentence, the preset unchanged, and an audit line with the refusal."""
    async with admin_api() as (client, control):
        answer = await put(client, **options)
        assert answer.status_code == status, answer.text
        problem = answer.json()
        assert (problem["status"], problem["type"]) == (status, "about:blank")
        assert problem["detail"]
        assert (control.preset.name, control.revision) == ("balanced", 1)
        (line,) = control.audit.entries(10)
        assert line.result.startswith("refused: ")


async def test_a_body_with_several_errors_gets_all_of_them() -> None:
    """Each with its key, what is wrong and the value; that of an unknown key is not repeated; no list is endless."""
    body = {"name": 7, "reason": "x" * 401, "actor": None, "token": OPERATOR}
    async with admin_api() as (client, control):
        problem = (await put(client, json=body)).json()
        assert problem["errors"] == [
            {"where": "reason", "message": "String should have at most 400 characters", "value": f'"{"x" * 56}...'},
            {"where": "actor", "message": "Input should be a valid string", "value": "None"},
            {"where": "name", "message": "Input should be a valid string", "value": "7"},
            {"where": "token", "message": "Extra inputs are not permitted", "value": None},
        ]
        assert problem["detail"].count("; ") == 3
        assert OPERATOR not in str(problem)
        assert OPERATOR not in str(control.audit.entries(9))
        many = (await put(client, json={f"{number}{'k' * 100}": 0 for number in range(100)})).json()
        assert len(many["errors"]) == 10
        assert max(len(one["where"]) for one in many["errors"]) == 60


async def test_an_unknown_name_is_reported_as_an_error_of_the_name() -> None:
    """For scripts, beside the sentence."""
    async with admin_api() as (client, _):
        problem = (await put(client, json={"name": "nonsense"})).json()
        (error,) = problem["errors"]
        assert (error["where"], error["value"]) == ("name", '"nonsense"')
        assert error["message"].startswith("there is no preset 'nonsense'")


async def test_a_policy_that_cannot_be_made_refuses_its_preset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The policy could be made when its file was read: one sentence, the preset as it was, and an audit line."""
    broken = bundled_presets()["latency"].model_copy(
        update={"ordering": OrderSettings(inside="faulty_policy:Unwilling")}
    )
    async with admin_api() as (client, control):
        monkeypatch.setattr(PresetCatalogue, "get", lambda *_: broken)
        answer = await put(client)
        assert answer.status_code == 422
        assert answer.json()["detail"] == "latency: a policy it names cannot be made: RuntimeError: no licence."
        message = "faulty_policy:Unwilling cannot be created: RuntimeError: no licence"
        error = {"where": "ordering.inside", "message": message, "value": '"faulty_policy:Unwilling"'}
        assert answer.json()["errors"] == [error]
        assert (control.preset.name, control.revision) == ("balanced", 1)
        (line,) = control.audit.entries(10)
        assert line.result.startswith("refused: latency")


async def test_readiness_says_why_not() -> None:
    """200 when all is well; 503 with the reasons while warming up, draining or without an engine."""
    async with admin_api() as (client, control):
        assert (await client.get("/headway/readyz")).json() == {"ready": True, "reasons": [], "notes": []}
        control.warmup.report.state = "running"
        control.gateway.gate.drain()
        control.gateway.link.engine.die()  # type: ignore[attr-defined]  # the fake can
        control.gateway.link.check_engine()  # as the supervisor's next round does
        answer = await client.get("/headway/readyz")
        assert answer.status_code == 503
        assert answer.json()["reasons"] == ["the engine is not running", "warm-up running", "draining"]
        assert (await client.get("/headway/healthz")).status_code == 200


async def test_a_switch_says_what_validate_would_warn_of() -> None:
    """In its answer, and before it in the list of presets; a preset without doubts has none."""
    async with admin_api() as (client, control):
        limit = 'limit = { policy = "fixed", memory_aware = false }'
        text = f'name = "doubtful"\nextends = "balanced"\nbatching.seats = 70\n{limit}\n'
        control.catalogue.include(parse_preset(text, "doubtful.toml"))
        listed = (await client.get("/headway/v1/presets", headers=bearer(VIEWER))).json()["presets"]
        warned = {one["name"]: one["warnings"] for one in listed}
        assert warned.pop("doubtful")[0].startswith("batching.seats: beyond 64")
        assert not any(warned.values())
        answer = await put(client, json={"name": "doubtful"})
        assert answer.json()["warnings"][0].startswith("batching.seats: beyond 64")


async def test_an_undo_puts_the_settings_of_an_earlier_revision_in_force_again() -> None:
    """As a new revision, also where the catalogue has another preset of that name by now; and it can be undone."""
    async with admin_api() as (client, control):
        await put(client, json={"name": "latency"})
        control.catalogue.include(control.preset.model_copy(update={"description": "another one by now"}))
        headers = {**bearer(OPERATOR), "If-Match": '"2"'}
        undone = (await client.post("/headway/v1/preset/undo", headers=headers, json={"reason": "worse"})).json()
        assert (undone["previous"], undone["name"], undone["revision"]) == ("latency", "balanced", 3)
        headers["If-Match"] = '"3"'
        again = (await client.post("/headway/v1/preset/undo", headers=headers, json={})).json()
        assert (again["name"], again["revision"]) == ("latency", 4)
        assert control.preset.description != "another one by now"
        headers["If-Match"] = '"4"'
        first = (await client.post("/headway/v1/preset/undo", headers=headers, json={"revision": 1})).json()
        assert (first["name"], first["revision"]) == ("balanced", 5)
        assert [one.after for one in control.audit.entries(10)][::-1] == ["latency", "balanced", "latency", "balanced"]


@pytest.mark.parametrize(
    ("body", "match", "status"),
    [({}, '"1"', 422), ({"revision": 7}, '"1"', 422), ({"revision": 0}, '"1"', 422), ({}, '"9"', 412), ({}, "", 428)],
)
async def test_an_undo_that_cannot_be_done_changes_nothing(body: dict[str, int], match: str, status: int) -> None:
    """Nothing before the first revision, an unknown one, no number, a stale one, none at all."""
    async with admin_api() as (client, control):
        headers = {**bearer(OPERATOR), **({"If-Match": match} if match else {})}
        answer = await client.post("/headway/v1/preset/undo", headers=headers, json=body)
        assert answer.status_code == status
        assert (control.preset.name, control.revision) == ("balanced", 1)


def test_only_the_last_revisions_are_kept() -> None:
    """A hundred of them."""
    balanced, latency = (bundled_presets()[name] for name in ("balanced", "latency"))
    history = SwitchHistory({1: balanced})
    for revision in range(2, 2 + MAX_REVISIONS):
        history.switched(balanced, revision)
    assert (min(history.presets), len(history.presets)) == (2, MAX_REVISIONS)
    assert (history.before(2, latency), history.before(50, latency), history.before(50, balanced)) == (None, 49, None)
