"""``headway status`` against a stand-in of the admin API."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from admin_stand_in import TOKEN, Stub

from headway.api.schema import (
    ClassObjectives,
    EngineStatus,
    InstanceStatus,
    LimitStatus,
    OperatorLimit,
    OrderingStatus,
    PrefixStatus,
    StepsStatus,
    WarmupStatus,
)
from headway_tools.cli import main, status


def test_a_ready_server_is_a_table_and_exit_code_zero(operator: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """State, preset, limit, and a row for each class, most urgent first."""
    assert main(["status"]) == 0
    out = capsys.readouterr().out
    assert "state     ready; requests are dispatched\n" in out
    assert "balanced  (revision 3)" in out
    assert "5 taken of 32 (ceiling 64)" in out
    assert "up 1 h 2 min" in out
    rows = [line.split() for line in out.splitlines()[-3:]]
    assert [row[0] for row in rows] == ["realtime", "batch", "gone"]
    assert rows[1] == ["batch", "2", "4.2", "s", "1", "9", "completed", "5"]


def test_a_server_that_is_not_ready_is_shown_and_exit_code_one(
    operator: Stub, capsys: pytest.CaptureFixture[str]
) -> None:
    """The reasons are printed."""
    operator.ready, operator.reasons = False, ["warming up", "draining"]
    assert main(["status"]) == 1
    assert "NOT READY: warming up, draining; " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("admission", "engine", "sentence"),
    [
        ("open", "up", "NOT READY: why; requests are dispatched"),
        ("open", "restarting", "NOT READY: why; requests wait in the queue"),
        ("open", "silent", "NOT READY: why; requests wait in the queue"),
        ("open", "lost", "NOT READY: why; requests are refused"),
        ("paused", "up", "NOT READY: why; requests wait in the queue"),
        ("draining", "up", "NOT READY: why; new requests are refused, running ones finish"),
        ("draining", "lost", "NOT READY: why; new requests are refused, running ones finish"),
    ],
)
def test_the_state_says_what_happens_to_requests(admission: str, engine: str, sentence: str, operator: Stub) -> None:
    """A server whose engine restarts is not "open": its requests wait."""
    changed = {"state": admission, "ready": False, "reasons": ["why"], "engine": EngineStatus(state=engine)}
    (line,) = [
        one
        for one in status.text(operator.status().model_copy(update=changed), operator.url).splitlines()
        if one.startswith("state")
    ]
    assert line == f"state     {sentence}"


def test_the_seats_for_which_there_is_memory_are_shown(operator: Stub) -> None:
    """With the length that they are for, and the knee where one is known."""
    limit = LimitStatus(live=32, ceiling=64, kv_seats=19, kv_seats_tokens=1000, knee_seats=48)
    shown = status.text(operator.status().model_copy(update={"limit": limit}), operator.url)
    (line,) = [one for one in shown.splitlines() if one.startswith("bounds")]
    assert line.startswith(
        "bounds    the KV space has room for 19 sequences of 1000 tokens beside its reserve, a typical length; "
    )
    assert "beyond 48 seats" in line
    assert "bounds" not in status.text(operator.status(), operator.url)


def test_the_gain_by_the_warm_up_is_shown(operator: Stub) -> None:
    """Where the engine streams: else nothing is known of it."""
    now = operator.status()
    warm = now.model_copy(update={"warmup": WarmupStatus(state="done", first_token_ratio=4.96)})
    line = "warm-up   the first token of a request alone took 5.0 times as long before it as after\n"
    assert line in status.text(warm, operator.url)
    assert "warm-up" not in status.text(now.model_copy(update={"warmup": WarmupStatus(state="done")}), operator.url)


@pytest.mark.parametrize(("left_s", "end"), [(25.0, "for another 25 s"), (None, "until the next switch")])
def test_an_ordered_limit_is_shown_with_its_end(left_s: float | None, end: str, operator: Stub) -> None:
    """On the line of the seats: the preset's name alone would not say it."""
    limit = LimitStatus(live=48, ceiling=64, ordered=OperatorLimit(seats=48, left_s=left_s))
    shown = status.text(operator.status().model_copy(update={"limit": limit}), operator.url)
    assert f"5 taken of 48 (ceiling 64); 48 set in place of the preset's, {end}\n" in shown
    told = OperatorLimit(seats=48, left_s=left_s, actor="ann", reason="share")
    shown = status.text(
        operator.status().model_copy(update={"limit": limit.model_copy(update={"ordered": told})}), operator.url
    )
    assert f"; 48 set by ann (share) in place of the preset's, {end}\n" in shown


def test_seats_above_the_limit_are_named_as_such(operator: Stub) -> None:
    """After a switch to fewer seats "32 taken of 8" would look like an error."""
    now = operator.status()
    fewer = now.model_copy(update={"seats_taken": 32, "limit": now.limit.model_copy(update={"live": 8})})
    assert "32 taken, the limit is 8: 24 above it until they finish (ceiling 64)" in status.text(fewer, operator.url)


def test_each_instance_of_a_router_is_shown_with_what_is_not_known_of_it(operator: Stub) -> None:
    """The lost ones first, with nothing but that; the maker of the others, and whether their seats are assumed."""
    instances = [
        InstanceStatus(name="a:1", up=True, seats=4, running=2, others=1, maker="llama.cpp", lacks=["KV use"]),
        InstanceStatus(name="b:1", up=True, seats=256, running=0, says_seats=False, lacks=["load", "seats"]),
        InstanceStatus(name="c:1", up=False, seats=4, running=0, lacks=["KV use"]),
        InstanceStatus(name="d:1", up=False, seats=256, running=0, says_seats=False),
    ]
    text = status.text(operator.status().model_copy(update={"instances": instances}), operator.url)
    assert [line.strip() for line in text.splitlines() if ":1  " in line] == [
        "c:1  DOWN; 0 running, 4 seats",
        "d:1  DOWN; 0 running, seats not known",
        "a:1  up; llama.cpp; 2 running and 1 of other clients, 4 seats; not known: KV use",
        "b:1  up; 0 running, 256 seats assumed, as it has not said its own; not known: load, seats",
    ]
    assert "requests are dispatched; 2 of 4 instances DOWN\n" in text


def test_what_has_no_effect_is_shown_below_the_preset(operator: Stub) -> None:
    """As the server says it."""
    now = operator.status()
    void = now.model_copy(update={"preset": now.preset.model_copy(update={"no_effect": ["recycle: no effect here"]})})
    assert "(revision 3)\n          recycle: no effect here\n" in status.text(void, operator.url)


def test_requests_whose_key_does_not_allow_their_class_are_counted(operator: Stub) -> None:
    """Of all since the start, with the command that helps; no line where there are none."""
    now = operator.status()
    assert "classes " not in status.text(now, operator.url)
    classes = [row.model_copy(update={"lowered": 3 * (row.name == "realtime")}) for row in now.classes]
    said = status.text(now.model_copy(update={"classes": classes}), operator.url)
    line = next(line for line in said.splitlines() if line.startswith("classes"))
    assert line.startswith("classes   3 of 9 requests ask for a class that their key does not allow")
    assert line.endswith("headway keys add --tenant NAME --classes realtime")


def test_requests_that_are_retried_one_at_a_time_are_shown(operator: Stub) -> None:
    """Else one seat taken of many, and a queue, would look like a fault."""
    now = operator.status()
    assert "retries" not in status.text(now, operator.url)
    after_a_crash = now.model_copy(update={"engine": EngineStatus(crash_suspects=3)})
    line = next(one for one in status.text(after_a_crash, operator.url).splitlines() if one.startswith("retries"))
    assert "3 that were running when the engine died" in line


def test_what_decides_how_many_sequences_fit_is_shown(operator: Stub) -> None:
    """The types of weights and KV cache, the longest sequence, the room; no line where nothing is known of them."""
    now = operator.status()
    assert "KV cache" not in status.text(now, operator.url)
    known = EngineStatus(
        dtype="bfloat16", quantization="awq", kv_cache_dtype="fp8", max_model_len=4096, kv_cache_tokens=65_536
    )
    line = next(
        one
        for one in status.text(now.model_copy(update={"engine": known}), operator.url).splitlines()
        if one.startswith("engine")
    )
    assert line.split(maxsplit=1)[1] == (
        "bfloat16, weights quantised (awq), KV cache fp8, sequences of at most 4096 tokens, KV cache for 65536 tokens"
    )


def test_what_prompts_get_of_the_steps_is_shown_where_steps_are_planned(operator: Stub) -> None:
    """The counts since the engine's start; shares and the longest hold while there are any."""
    now = operator.status()
    assert "planned" not in status.text(now, operator.url)
    steps = StepsStatus(
        planned=40, pressed=0, held=30, prompt_tokens=1900, decode_tokens=320, budget_tokens=2300,
        total_s=4.0, prefill_s=1.5, target_s=1.6,
    )  # fmt: skip
    lately = {"prefill_share": 0.38, "target_share": 0.4, "longest_held_s": 2.5}
    for own, words in (
        (steps, "steps     40 with prompts planned, 30 postponed tokens\n"),
        (steps.model_copy(update=lately), "; lately 38% of their time for prompts (target 40%), for up to 2.5 s\n"),
    ):
        assert words in status.text(now.model_copy(update={"engine": EngineStatus(steps=own)}), operator.url)


def test_the_prefix_cache_is_shown_where_the_order_uses_it(operator: Stub) -> None:
    """The tokens that the engine found stand beside those expected."""
    now = operator.status()
    assert "prefixes" not in status.text(now, operator.url)
    ordering = OrderingStatus(inside="prefix", prefix=PrefixStatus(hit_ratio=0.61))
    shown = status.text(now.model_copy(update={"ordering": ordering}), operator.url)
    assert "prefixes  61% of the prompt tokens found in the prefix cache, - expected\n" in shown


def test_json_is_what_the_server_said(operator: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is lost, not even what this version does not know."""
    assert main(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == operator.status().model_dump()


def test_a_wrong_token_is_exit_code_four(
    operator: Stub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The server's own sentence is shown, the token is not."""
    monkeypatch.setenv("HEADWAY_ADMIN_TOKEN", "wrong" * 8)
    assert main(["status"]) == 4
    err = capsys.readouterr().err
    assert "This token is not known here." in err
    assert "wrongwrong" not in err


def test_a_token_file_is_read(stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trailing newline is no part of the token."""
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    monkeypatch.setenv("HEADWAY_ADMIN_TOKEN_FILE", str(file))
    assert main(["status", "--url", stub.url + "/"]) == 0


@pytest.mark.parametrize("content", [None, "", "é" * 40], ids=["missing", "empty", "not ASCII"])
def test_a_token_file_that_cannot_be_used_is_exit_code_two(
    content: str | None, stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bad input, before anything is sent."""
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("HEADWAY_ADMIN_TOKEN_FILE", str(file))
    assert main(["status", "--url", stub.url]) == 2
    assert stub.seen == []


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        pytest.param((200, "text/html", b"<html>"), 3, id="a page"),
        pytest.param((200, "application/json", b"{}"), 3, id="another API"),
        pytest.param((404, "application/json", b'{"detail":"Not Found"}'), 3, id="plain vLLM"),
        pytest.param((404, "application/problem+json", b"{"), 3, id="a broken problem"),
        pytest.param((404, "application/problem+json", b"[]"), 3, id="no problem at all"),
        pytest.param((500, "text/plain", b"oops"), 1, id="a defect of the server"),
        pytest.param((503, "application/problem+json", b'{"title":"busy"}'), 1, id="a problem without detail"),
    ],
)
def test_an_answer_of_another_kind_is_one_line(
    answer: tuple[int, str, bytes], code: int, operator: Stub, capsys: pytest.CaptureFixture[str]
) -> None:
    """No traceback, whatever answers."""
    operator.answer_all = answer
    assert main(["status"]) == code
    err = capsys.readouterr().err
    assert err.startswith("headway: error: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://x", "http://", "http://x:99999", "http://[::1"])
def test_a_url_that_is_none_is_exit_code_two(url: str, operator: Stub) -> None:
    """Bad input."""
    assert main(["status", "--url", url]) == 2


def test_watch_shows_it_again_until_ctrl_c(
    operator: Stub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two polls, then the user stops it."""
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(status, "time", SimpleNamespace(sleep=sleep))  # not that of other threads
    assert main(["status", "--watch", "0.5"]) == 130
    assert slept == [0.5, 0.5]
    assert capsys.readouterr().out.count("ready; requests are dispatched") == 2


def test_a_netrc_entry_does_not_replace_the_token(
    operator: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """requests would prefer it over a plain header."""
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login a password b\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    assert main(["status"]) == 0


def test_the_objectives_are_said_with_where_they_come_from(operator: Stub) -> None:
    """A line for each class that has any, the most urgent first, then what the engine misses even alone."""
    own = {
        "batch": ClassObjectives(words="first token within 1 min"),
        "realtime": ClassObjectives(words="20 ms a token", missed_alone=["own asks 20 ms a token of realtime"]),
        "gone": None,
    }
    now = operator.status()
    classes = [one.model_copy(update={"objectives": own[one.name]}) for one in now.classes]
    lines = status.text(now.model_copy(update={"classes": classes}), operator.url).splitlines()
    at = lines.index("objective realtime: 20 ms a token")
    assert lines[at : at + 3] == [
        "objective realtime: 20 ms a token",
        "          batch: first token within 1 min",
        "note      own asks 20 ms a token of realtime",
    ]
    assert not any(line.startswith("objective") for line in status.text(now, operator.url).splitlines())
