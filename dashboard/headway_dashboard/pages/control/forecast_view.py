"""The predicted effect of the presets: the button, the progress, what it rests on, presets against
classes, and a table by class.

Where the forecast of the preset in force is not what is measured, a sentence says so, and the figures of the other
presets are marked as not confirmed. They are not scaled: refusals and times grow by no common factor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st

from headway.api import PresetList
from headway.api.schema import Forecast
from headway_dashboard.analysis.changes.forecast_words import Figure, basis_words, class_rows, matrix
from headway_dashboard.analysis.changes.preset_changes import by_urgency
from headway_dashboard.components import table
from headway_dashboard.components.banner import plain
from headway_dashboard.rights import Rights
from headway_dashboard.settings import Settings
from headway_dashboard.sources import StatusSource
from headway_dashboard.sources.preset_forecast import ForecastJob

NOT_CONFIRMED = "not confirmed"
_DOUBT = "forecast_doubt"
_DRAWN = "forecast_drawn"
_FIRST = "forecast_opened"
_NEEDS_OPERATOR = "There is no forecast: it needs the operator's token."


@st.cache_resource(show_spinner=False, on_release=lambda job: job.close())
def job_for(url: str, token_id: str, _token: str | None) -> ForecastJob:
    """The forecast that all visitors share. The underscore keeps the token out of the key."""
    return ForecastJob(url, _token)


def doubt(server_status: StatusSource) -> str:
    """The differences between the forecast of the preset in force and the measurements, drawn with the cards."""
    check = server_status.read().forecast.in_force
    words = "" if check is None else check.sentence
    st.session_state[_DOUBT] = bool(words)
    return words


def ask_on_opening(settings: Settings, rights: Rights) -> ForecastJob:
    """The job, asked once by itself when a visitor opens the page."""
    job, state = job_for(settings.url, settings.token_id, settings.token), st.session_state
    if rights.may_apply and not state.get(_FIRST):
        state[_FIRST] = True
        job.start_first()
    state[_DRAWN] = job.state().made_s
    return job


def forecast_bar(settings: Settings, job: ForecastJob, server_status: StatusSource, rights: Rights) -> None:
    """Draw the button and how the forecast stands."""
    st.fragment(_bar, run_every=settings.refresh_s)(job, server_status, rights)


def _bar(job: ForecastJob, server_status: StatusSource, rights: Rights) -> None:
    state, status, doubted = job.state(), server_status.read(), st.session_state.get(_DOUBT, False)
    words = doubt(server_status)
    if state.made_s != st.session_state.get(_DRAWN) or (state.forecast is not None and bool(words) != doubted):
        st.rerun()
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.button("Forecast", key="forecast_go", on_click=job.start, disabled=state.running or not rights.may_apply,
                  help="Replays the recent traffic under each preset on a model of the engine. Nothing is sent to "
                       "the engine.")  # fmt: skip
        if state.running:
            st.progress(state.done_ratio, text="Replaying the recent traffic", width=280)
        elif state.forecast is not None:
            earlier = status.forecast if status.known else None
            st.caption(plain(basis_words(state.forecast, job.age_s(), earlier)))
        if state.problem:
            st.caption(plain(state.problem))
        elif state.forecast is None and not state.running:
            st.caption("There is no forecast yet." if rights.may_apply else _NEEDS_OPERATOR)
    if words and state.forecast is not None:
        st.warning(plain(words))


def forecast_table(forecast: Forecast | None, presets: PresetList, doubted: str) -> None:
    """Draw the forecast of each preset by class; ``doubted``: why those of the presets not in force do not hold."""
    if forecast is None:
        return
    settings, running = {preset.name: preset.settings for preset in presets.presets}, presets.current.name

    def named(name: str) -> str:
        return f"{name} ({NOT_CONFIRMED})" if doubted and name != running else name

    _matrix(forecast, by_urgency(settings.get(running, {})), named)
    rows = [
        {"Preset": named(preset.name), **row}
        for preset in forecast.presets
        for row in class_rows(preset, by_urgency(settings.get(preset.name, {})))
    ]
    with st.expander("Forecast by class"):
        st.caption("Each figure is the median of the replays, with the least and the largest where they differ.")
        table(rows)


def _matrix(forecast: Forecast, urgency: Sequence[str], named: Callable[[str], str]) -> None:
    """Presets against classes; the best figure of a column is bold."""
    rows = [
        {"Preset": plain(named(name)), **{title: _cell(figure) for title, figure in figures.items()}}
        for name, figures in matrix(forecast, urgency).items()
    ]
    with st.container(border=True, gap="xsmall", key="headway-forecast-matrix"):
        st.markdown(
            "**Forecast: presets against classes**",
            help="Requests within the objectives of the preset itself, and p95 of their first tokens, by the median of "
            "the replays. The best of a column is bold.",
        )
        st.table(rows, border="horizontal", hide_index=True)


def _cell(figure: Figure) -> str:
    return f"**{plain(figure.text)}**" if figure.best else plain(figure.text)
