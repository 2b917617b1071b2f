"""A stand-in for the admin API of a server, on a free loopback port."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from admin_answers import current_preset, preset_entry, problem
from handler_server import Quiet, running
from pydantic import BaseModel

from headway.api import schema
from headway_policies import bundled_presets, changes

TOKEN = "stub-token-0123456789-0123456789-abcdef"


def _silences(body: dict[str, Any]) -> schema.Silences:
    """The answer to a command that silences an alert, or ends its silence."""
    times = {"since": "2026-01-01T00:00:00.000Z", "ends": "2026-01-01T02:00:00.000Z"}
    silence = schema.Silence(alert=body["alert"], actor=body.get("actor", ""), **times)
    return schema.Silences(silences=[] if body["expires_s"] is None else [silence])


@dataclass
class Stub:
    """What the stand-in answers; tests change it."""

    current: str = "balanced"
    revision: int = 3
    ready: bool = True
    reasons: list[str] = field(default_factory=list)
    overtaken_by: str | None = None  # another operator switches to this just before the client's PUT
    answer_all: tuple[int, str, bytes] | None = None  # status, content type, body: for everything
    refuse_put: tuple[int, str] | None = None
    confirmed: bool = True  # the engine confirms a new limit
    ordered: str | None = None  # where an operator has put the fallback ladder
    step_time: schema.StepTime | None = None  # that the server has fitted
    diagnosis: schema.Diagnosis | None = None
    state: str = "open"  # of admission
    state_after_drain: str = "draining"
    state_after_resume: str = "open"
    holds: list[str] = field(default_factory=list)
    drained_after: int = 0  # so many looks at the status
    seen: list[tuple[str, str, dict[str, str], Any]] = field(default_factory=list)
    peers: list[object] = field(default_factory=list)  # the connection of each request
    url: str = ""

    def fallback(self) -> schema.FallbackState:
        move = schema.FallbackMove(time="2026-01-01T00:00:00.000Z", before="normal", after="cap", trigger="queue_age")
        return schema.FallbackState(
            rung=self.ordered or "cap",
            ordered=self.ordered,
            trigger="queue_age" if self.ordered is None else "operator",
            in_force=["cap"],
            usable=["cap", "divert"],
            fallback_model=schema.FallbackModel(model="small", breaker="closed", in_flight=2),
            moves=[move],
        )

    def in_force(self) -> schema.PresetInForce:
        return schema.PresetInForce(name=self.current, revision=self.revision)

    def status(self) -> schema.Status:
        waiting: dict[str, Any] = {
            "queued": 2,
            "oldest_wait_s": 4.25,
            "in_flight": 1,
            "arrived": 9,
            "outcomes": {"completed": 5},
        }
        idle: dict[str, Any] = {
            "queued": 0,
            "oldest_wait_s": 0.0,
            "in_flight": 0,
            "arrived": 0,
            "outcomes": {"completed": 0},
        }
        self.drained_after -= 1
        drained = self.state == "draining" and self.drained_after < 0
        return schema.Status(
            version="0.1.0",
            model="smol",
            diagnosis=self.diagnosis,
            ready=self.ready,
            reasons=self.reasons,
            state=self.state,
            started_at="2026-01-01T00:00:00Z",
            uptime_s=3725.0,
            preset=schema.PresetStatus(name=self.current, revision=self.revision),
            limit=schema.LimitStatus(live=32, ceiling=64),
            seats_taken=0 if drained else 5,
            queued=2,
            in_flight=0 if drained else 1,
            classes=[
                schema.ClassStatus(name="batch", priority=1, **waiting),
                schema.ClassStatus(name="realtime", priority=3, **idle),
                schema.ClassStatus(name="gone", priority=None, **idle),
            ],
            engine=schema.EngineStatus(step_time=self.step_time),
            from_a_newer_server=1,
        )


class _Handler(Quiet, BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    stub: Stub

    def do_GET(self) -> None:
        if self._allowed(None):
            self._get()

    def do_PUT(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self._allowed(body):
            return
        stub = self.stub
        if stub.overtaken_by is not None:
            stub.current, stub.revision, stub.overtaken_by = stub.overtaken_by, stub.revision + 1, None
        if stub.refuse_put is not None:
            self._problem(*stub.refuse_put)
        elif self.path == "/headway/v1/fallback":
            stub.ordered = body["rung"]
            self._json(stub.fallback())
        elif self.path == "/headway/v1/silence":
            self._json(_silences(body))
        elif self.headers.get("If-Match") != f'"{stub.revision}"':
            self._problem(412, "the preset was switched meanwhile")
        elif self.path == "/headway/v1/limit":
            self._limit(body["seats"])
        elif body["name"] not in bundled_presets():
            self._problem(422, f"there is no preset {body['name']!r}")
        else:
            self._switch(body["name"])

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self._allowed(body):
            return
        if self.stub.refuse_put is not None:
            self._problem(*self.stub.refuse_put)
        else:
            status, answer = self._ordered(self.path.removeprefix("/headway/v1/"))
            self._send(status, "application/json", answer.model_dump_json().encode())

    def _ordered(self, what: str) -> tuple[int, BaseModel]:
        """The answer to an order beside a preset."""
        stub = self.stub
        if what == "recycle":
            return 202, schema.RecycleAccepted(accepted=True, seats_taken=5)
        if what == "warmup":
            return 202, schema.WarmupAccepted(accepted=True, batch_size=27, running=1, waiting=2)
        states = {"pause": "paused", "drain": stub.state_after_drain, "resume": stub.state_after_resume}
        stub.state = states[what]
        waiting, dispatched, refused = {"pause": (2, 0, 0), "drain": (0, 0, 2), "resume": (1, 1, 0)}[what]
        changed = schema.AdmissionChanged(
            state=stub.state, holds=stub.holds, running=1, waiting=waiting, dispatched=dispatched, refused=refused
        )
        return (202 if what == "drain" else 200), changed

    def _get(self) -> None:
        stub, known = self.stub, bundled_presets()
        if self.path == "/headway/v1/status":
            self._json(stub.status())
        elif self.path == "/headway/v1/presets":
            presets = [preset_entry(one) for one in known.values()]
            self._json(schema.PresetList(current=stub.in_force(), presets=presets))
        elif self.path == "/headway/v1/fallback":
            self._json(stub.fallback())
        elif self.path == "/headway/v1/preset":
            self._json(current_preset(known[stub.current], stub.revision), etag=stub.revision)
        else:
            self._send(404, "application/json", b'{"detail":"Not Found"}')

    def _switch(self, name: str) -> None:
        stub, known = self.stub, bundled_presets()
        previous, stub.current = stub.current, name
        stub.revision += name != previous
        differing = [
            schema.SettingChange(setting=one.setting, before=one.before, after=one.after)
            for one in changes(known[previous], known[name])
        ]
        answer = schema.Switched(
            name=name,
            revision=stub.revision,
            previous=previous,
            changes=differing,
            engine_limit_confirmed=stub.confirmed,
        )
        self._json(answer, etag=stub.revision)

    def _limit(self, seats: int | None) -> None:
        stub = self.stub
        stub.revision += 1
        change = schema.SettingChange(setting="batching.seats", before=32, after=seats or 32)
        answer = schema.Switched(
            name=stub.current, revision=stub.revision, previous=stub.current, changes=[change],
            engine_limit_confirmed=stub.confirmed,
        )  # fmt: skip
        self._json(answer, etag=stub.revision)

    def _allowed(self, body: Any) -> bool:
        self.stub.peers.append(self.client_address)
        self.stub.seen.append((self.command, self.path, dict(self.headers.items()), body))
        if self.stub.answer_all is not None:
            self._send(*self.stub.answer_all)
        elif self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._problem(401, "This token is not known here.")
        else:
            return True
        return False

    def _problem(self, status: int, detail: str) -> None:
        self._send(status, "application/problem+json", problem(status, detail).model_dump_json().encode())

    def _json(self, value: BaseModel, etag: int | None = None) -> None:
        extra = {} if etag is None else {"ETag": f'"{etag}"'}
        self._send(200, "application/json", value.model_dump_json().encode(), **extra)

    def _send(self, status: int, content_type: str, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": content_type, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def admin_stand_in() -> Iterator[Stub]:
    """Run it; yields what it answers, to be changed."""
    state = Stub()
    with running(type("Handler", (_Handler,), {"stub": state})) as state.url:
        yield state
