"""The head of every page: class filter and range, the condition banner, and the notices."""

from __future__ import annotations

import time

import streamlit as st

from headway_dashboard.analysis import descriptions, newest_values, panels
from headway_dashboard.analysis.condition import Condition
from headway_dashboard.analysis.status import Status
from headway_dashboard.components import banner, notice
from headway_dashboard.sources import Reading, Source

RECENT_S = 300.0
RANGES_S = {"5 min": 300.0, "15 min": 900.0, "30 min": 1800.0}


def class_and_range(source: Source) -> tuple[tuple[str, ...], tuple[str, ...], float]:
    """The controls in one row. Returns the classes there are, those that were chosen, and the range in seconds."""
    known = newest_values.classes_of(source.read((panels.QUEUED_BY_CLASS,), RECENT_S))
    with _row("distribute"):
        classes = tuple(
            st.pills(
                "Classes",
                known,
                selection_mode="multi",
                key="classes",
                help="Limits tiles and charts to these classes, where their metric has classes. None chosen: all.",
            )
            if known
            else ()
        )
        return known, classes, _range_s()


def range_only() -> float:
    """The range in seconds, for pages whose numbers know no classes."""
    with _row("right"):
        return _range_s()


def head(recent: Reading, status: Status) -> Condition:
    """Draw the banner and every notice. ``recent`` must hold the answers to ``panels.HEAD``."""
    state = newest_values.condition_of(recent, time.time())
    name, revision = newest_values.running_preset(recent)
    found = descriptions.notices_of(recent, status, state)
    with st.container(gap="xsmall", key="headway-head"):
        banner(
            state,
            preset=f"{name} · revision {revision}" if name else "",
            source=recent.source,
            note=recent.note,
            rung=rung if (rung := descriptions.rung(recent)) != descriptions.NORMAL else "",
            has_notice=bool(found),
        )
        for one in found:
            notice(one)
    return state


def _row(alignment: str) -> st.delta_generator.DeltaGenerator:
    return st.container(horizontal=True, vertical_alignment="bottom", horizontal_alignment=alignment)  # type: ignore[arg-type]  # one of two literals


def _range_s() -> float:
    name = st.segmented_control("Range", list(RANGES_S), default="5 min", required=True, key="range")
    return RANGES_S[name or "5 min"]
