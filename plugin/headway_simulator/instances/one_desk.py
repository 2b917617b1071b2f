"""One desk before all instances: its limit is the sum of their seats, and it binds late."""

from __future__ import annotations

from collections.abc import Sequence

from headway_policies import Desk, Effect, Preset
from headway_policies.preset import with_fixed_limit
from headway_policies.routing import LeastLoaded
from headway_simulator.engine_model.engine import EngineModel
from headway_simulator.instances.binding import LateBinding
from headway_simulator.instances.fleet import Fleet

_MOST_WAITING = 1_000_000


class OneDesk:
    """The ``desk``, its ``fleet`` and the ``binding`` between them; each engine has ``seats``, if it can give as many.

    Raises PresetError where the preset contradicts the seats.
    """

    def __init__(self, preset: Preset, models: Sequence[EngineModel], seats: int) -> None:
        own = [min(seats, one.max_num_seqs) for one in models]
        self.binding = LateBinding(own, LeastLoaded())
        self.fleet = Fleet(models, self.binding)
        self._preset = widened(preset, len(own))
        self.desk = Desk(fixed(self._preset, sum(own)), ceiling=sum(own))

    def refit(self, now_s: float) -> list[Effect]:
        """Other instances are open than before: the limit follows. No waiting request is dropped."""
        return self.desk.switch(fixed(self._preset, self.binding.seats), now_s)

    def engine_lost(self, place: int, now_s: float) -> list[Effect]:
        """An engine has died: the limit goes on without its seats."""
        return self.refit(now_s)


def fixed(preset: Preset, seats: int) -> Preset:
    """The preset on so many seats, whatever its limit would learn. Raises PresetError."""
    limit = preset.limit.model_copy(update={"memory_aware": False})
    return with_fixed_limit(preset.model_copy(update={"limit": limit}), seats)


def widened(preset: Preset, number: int) -> Preset:
    """The preset with the bounds and the reserves of so many desks together."""
    classes = {
        name: one.model_copy(
            update={
                "max_waiting": min(one.max_waiting * number, _MOST_WAITING),
                "max_waiting_tokens": _times(one.max_waiting_tokens, number),
                "max_waiting_bytes": _times(one.max_waiting_bytes, number),
                "reserved_seats": _times(one.reserved_seats, number),
            }
        )
        for name, one in preset.classes.items()
    }
    queue = preset.queue.model_copy(
        update={
            "max_waiting": min(preset.queue.max_waiting * number, _MOST_WAITING),
            "max_waiting_tokens": _times(preset.queue.max_waiting_tokens, number),
            "max_waiting_bytes": _times(preset.queue.max_waiting_bytes, number),
        }
    )
    tokens = _times(preset.batching.max_total_tokens, number)
    batching = preset.batching.model_copy(update={"max_total_tokens": tokens})
    return preset.model_copy(update={"classes": classes, "queue": queue, "batching": batching})


def _times(bound: int | None, number: int) -> int | None:
    return None if bound is None else bound * number
