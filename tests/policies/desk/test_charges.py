"""The charges of the order: a ticket that ends, or waits again, gives back what it was charged and no more."""

from __future__ import annotations

import pytest

from headway_policies import Desk, Dispatch, Ending, Recall, Ticket, parse_preset
from headway_policies.request import Usage

CLASSES = """
name = "two"
default_class = "batch"
[classes.realtime]
priority = 3
share = 0.9
max_waiting = 100000
[classes.batch]
priority = 1
share = 0.1
max_waiting = 100000
[queue]
max_waiting = 100000
"""


@pytest.mark.parametrize("answer_tokens", [512, 2])
def test_tickets_that_nobody_waited_behind_give_their_class_no_credit(answer_tokens: int) -> None:
    """Sixty-four long answers are dispatched without a queue, which costs nothing; they end early, or as expected."""
    text = f"{CLASSES}make_room = false\n[batching]\nseats = 64\nwindow_ms = 0\n[ordering]\nbetween = 'weighted'\n"
    desk = Desk(parse_preset(f"{text}inside = 'fifo'\n", "p"))
    classes, running, dispatched, now_s = dict[int, str](), list(range(64)), list[str](), 0.0
    for number in range(64 + 600):
        classes[number] = "batch" if number < 64 or number % 2 else "realtime"
        now_s += 0.001
        most = 512 if number < 64 else 50
        desk.arrive(Ticket(number, classes[number], now_s, prompt_tokens=100, max_tokens=most), now_s)
    for ended in range(264):
        now_s += 0.01
        used = Usage(100, answer_tokens if ended < 64 else 50)
        for effect in desk.leave(running.pop(0), Ending.COMPLETED, now_s, used):
            if isinstance(effect, Dispatch):
                running.append(effect.ticket_id)
                dispatched.append(classes[effect.ticket_id])
    assert 170 <= dispatched[:200].count("realtime") <= 190


def test_a_recalled_ticket_gives_back_what_its_cached_prompt_cost() -> None:
    """Of two equal prompts the second one was charged a tenth of the tokens: no more than that comes back."""
    text = f"{CLASSES}[batching]\nseats = 2\nwindow_ms = 0\n[ordering]\nbetween = 'weighted'\ninside = 'prefix'\n"
    desk, prefix = Desk(parse_preset(text, "p")), tuple(range(100, 110))

    def arrive(number: int, class_name: str, tenant: str) -> list[object]:
        blocks = prefix if tenant == "x" else ()
        size = 2000 if tenant == "x" else 10
        return list(
            desk.arrive(
                Ticket(number, class_name, 0.0, tenant=tenant, prompt_tokens=size, prefix=blocks, max_tokens=10), 0.0
            )
        )

    arrive(1, "batch", "x")
    desk.first_token(1, 0.0)
    discipline = desk._scheduler.queue.lanes[0].order._by_name["batch"].discipline  # type: ignore[attr-defined]

    def served() -> float:
        return float((discipline._idle.get("x") or discipline._waiting.get("x")).served_tokens)

    before = served()
    arrive(2, "batch", "x")
    assert 0 < served() - before < 300
    assert Recall(2) in arrive(3, "realtime", "y")
    assert served() == pytest.approx(before)
