"""Which server is watched: from its status, and from the metrics alone."""

from __future__ import annotations

from dataclasses import replace

from readings import END_S, reading_of

from headway.api.schema import EngineStatus
from headway_dashboard.analysis.catalogue import panels
from headway_dashboard.analysis.queries.reading import Health
from headway_dashboard.analysis.server import identity
from headway_dashboard.analysis.server.identity import Identity, identity_of
from headway_dashboard.analysis.server.newest_values import running_preset
from headway_dashboard.analysis.server.status import Status

ADDRESS = "http://127.0.0.1:8000"


def of(status: Status, *, revision: str = "1") -> Identity:
    """The identity with metrics of a server whose preset was put in force a minute ago."""
    found = reading_of(
        {
            identity.MODEL: {("small",): [3]},
            identity.BUILD: {("0.9", "cpu"): [1]},
            identity.LAST_CHANGE: [END_S - 60],
            panels.PRESET: {("balanced", revision): [1]},
        }
    )
    return identity_of(ADDRESS, found, status, END_S)


def test_with_a_status_all_is_known() -> None:
    """The status is taken first: it knows the engine's version and the time since the start."""
    engine = EngineStatus(backend="cuda", version="0.33.0")
    found = of(Status(known=True, version="1.0", model="large", uptime_s=7800.0, engine=engine), revision="4")
    assert found.words == f"{ADDRESS} · model large · vLLM 0.33.0 · Headway 1.0 · cuda · up 2\u00a0h 10\u00a0min"
    assert found.preset_words == "balanced · revision 4"


def test_without_a_token_the_metrics_tell_what_they_can() -> None:
    """The engine's version is not among the metrics. The first preset is as old as the server, a later one is not."""
    assert of(Status()).words == f"{ADDRESS} · model small · Headway 0.9 · cpu · up 1\u00a0min"
    assert of(Status(), revision="2").words == f"{ADDRESS} · model small · Headway 0.9 · cpu"
    assert of(Status(), revision="2").preset_s == 60.0


def test_of_a_server_that_never_answered_the_address_is_known() -> None:
    """No empty words, no separators without anything between them."""
    assert identity_of(ADDRESS, reading_of({}), Status(), END_S).words == ADDRESS


def test_several_servers_with_different_presets_have_no_one_preset() -> None:
    """Each is named, and of many how many there are; one server that has just switched still has one."""
    found = reading_of({panels.PRESET: {("balanced", "1"): [1], ("latency", "2"): [1]}})
    several = replace(found, instances={"a:1": Health(END_S), "b:1": Health(END_S)})
    assert identity_of(ADDRESS, several, Status(), END_S).preset_words == "balanced · revision 1, latency · revision 2"
    many = reading_of({panels.PRESET: {(name, "1"): [1] for name in ("a", "b", "c", "d")}})
    many = replace(many, instances=several.instances)
    assert identity_of(ADDRESS, many, Status(), END_S).preset_words == "4 presets"
    assert identity_of(ADDRESS, found, Status(), END_S).preset_words == "latency · revision 2"


def test_several_servers_have_their_own_revisions_and_times() -> None:
    """One of them does not stand for all."""
    found = reading_of({panels.PRESET: {("balanced", "1"): [1], ("balanced", "3"): [1]}})
    several = replace(found, instances={"a:1": Health(END_S), "b:1": Health(END_S)})
    status = Status(uptime_s=300.0, servers={"a:1": Status(uptime_s=300.0), "b:1": Status(uptime_s=7800.0)})
    one = identity_of(ADDRESS, several, status, END_S)
    assert one.preset_words == "balanced · revisions 1, 3"
    assert one.words.endswith("up 5\u00a0min to 2\u00a0h 10\u00a0min")


def test_another_start_counts_and_not_the_larger_revision_of_the_one_before() -> None:
    """The old process exports nothing any more, and revisions begin at 1 again; what is away was last what it was."""
    restarted = {("latency", "5"): [1, 1, None, None], ("balanced", "1"): [None, None, None, 1]}
    assert running_preset(reading_of({panels.PRESET: restarted})) == ("balanced", "1")
    switched = {("balanced", "1"): [1, 1, 0, 0], ("latency", "2"): [None, None, 1, 1]}
    assert running_preset(reading_of({panels.PRESET: switched})) == ("latency", "2")
    away = {("latency", "5"): [1, 1, None, None]}
    assert running_preset(reading_of({panels.PRESET: away})) == ("latency", "5")
    assert running_preset(reading_of({})) == ("", "")
