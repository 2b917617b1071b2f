"""Requests that take several seats together beside a few that take one: they are served as long as the engine has room.

On the desk alone, with an engine whose step takes a time and a little for each sequence that runs.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from headway_policies import (
    Desk,
    Dispatch,
    Effect,
    Ending,
    Expire,
    Load,
    Preset,
    Recall,
    Reject,
    Ticket,
    Usage,
    bundled_presets,
)

BASE_S, SEAT_S, STEPS, AGAIN_S = 0.020, 0.001, 40, 1.0


@dataclass
class Client:
    """One that asks again as soon as it has its answer, or a while after it was refused."""

    seats: int
    ticket: int = -1
    ends_at: int | None = None
    again_s: float = 0.0
    served: int = 0
    refused: int = 0


def outcomes(preset: Preset, widths: list[int], for_s: float) -> list[tuple[int, int]]:
    """How often each of these clients, which take so many seats, was served and refused."""
    desk, clients, now_s, step = Desk(preset, ceiling=128), [Client(width) for width in widths], 0.0, 0
    by_ticket: dict[int, Client] = {}

    def follow(effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Dispatch(ticket_id):
                    by_ticket[ticket_id].ends_at = step + STEPS
                case Reject(ticket_id) | Expire(ticket_id):
                    client = by_ticket[ticket_id]
                    client.ticket, client.refused, client.again_s = -1, client.refused + 1, now_s + AGAIN_S
                case Recall(ticket_id):
                    by_ticket[ticket_id].ends_at = None

    while now_s < for_s:
        for client in clients:
            if client.ends_at == step:
                client.ends_at, client.served = None, client.served + 1
                follow(desk.leave(client.ticket, Ending.COMPLETED, now_s, Usage(16, STEPS)))
                client.ticket = -1
            if client.ticket < 0 and client.again_s <= now_s:
                client.ticket = len(by_ticket)
                by_ticket[client.ticket] = client
                ticket = Ticket(client.ticket, "normal", now_s, prompt_tokens=16, seats=client.seats)
                follow(desk.arrive(ticket, now_s))
        running = sum(client.seats for client in clients if client.ends_at is not None)
        step_s = BASE_S + SEAT_S * running
        now_s, step = now_s + step_s, step + 1
        for client in clients:
            if client.ends_at == step + STEPS - 1:
                follow(desk.first_token(client.ticket, now_s))
        follow(desk.observe(Load(running, 0, 0.1, step_s, first_tokens=0), now_s))
        follow(desk.tick(now_s))
    return [(client.served, client.refused) for client in clients]


@pytest.mark.parametrize("name", ["balanced", "interactive", "throughput"])
@pytest.mark.parametrize("start", [2, 5])
def test_a_request_of_eight_goes_beside_two_of_one(name: str, start: int) -> None:
    """Whatever the limit was before, there is room for it at this pace."""
    preset = bundled_presets()[name]
    low = preset.model_copy(update={"batching": preset.batching.model_copy(update={"seats": start})})
    for served, refused in outcomes(low, [8, 1, 1], 20.0):
        assert served >= 10
        assert refused == 0


@pytest.mark.parametrize("name", ["balanced", "throughput"])
def test_a_request_of_more_than_all_seats_takes_turns_with_the_others(name: str) -> None:
    """The request waits until all are free, and meanwhile no other takes them."""
    (served, refused), *others = outcomes(bundled_presets()[name], [64, 1, 1, 1, 1, 1, 1], 60.0)
    assert served >= 10
    assert refused == 0
    for other in others:
        assert other[0] >= 10
        assert other[1] == 0
