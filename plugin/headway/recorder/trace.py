"""A recording as a trace file: the columns that ``headway simulate --trace`` and ``headway bench --trace`` read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from headway.recorder.recorder import Recording
from headway_simulator.traffic.trace import COLUMNS, MORE_COLUMNS

_PORTION = 250


async def trace_lines(recording: Recording) -> AsyncIterator[str]:
    """The file in portions of some lines, between which other work of the event loop runs.

    Times are seconds from the first arrival; tenants are numbers, none for requests without one.
    """
    yield ",".join((*COLUMNS, *MORE_COLUMNS)) + "\n"
    for begin in range(0, len(recording), _PORTION):
        places = range(begin, min(begin + _PORTION, len(recording)))
        yield "".join(_line(recording, place) for place in places)
        await asyncio.sleep(0)


def _line(rows: Recording, place: int) -> str:
    cells = (
        f"{rows.at_s[place] - rows.at_s[0]:.6f}",
        max(1, rows.prompt_tokens[place]),
        rows.output_tokens[place] or "",
        rows.class_names[rows.class_index[place]],
        rows.tenant[place] or "",
        rows.sequences[place],
        rows.max_tokens[place] or "",
    )
    return ",".join(map(str, cells)) + "\n"
