"""The handlers of forecasts: what presets would do with the recent traffic. They change nothing."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response

from headway.api import schema
from headway.audit import Caller
from headway.errors import UnknownPresetError
from headway.forecast import BusyError, ForecastError
from headway.http.admin.answers import Handler, answer, command
from headway.http.admin.problem import ProblemError
from headway.operator import Control, unsaved_preset
from headway_policies import PresetError
from headway_policies.preset import Issue


async def _forecast(control: Control, request: Request, caller: Caller) -> Response:
    """Answer a forecast, which changes nothing and is in no audit log."""
    wanted = command(request, schema.ForecastCommand)
    if wanted.presets is not None and wanted.toml is not None:
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, "Give either presets or toml.")
    try:
        unsaved = None if wanted.toml is None else [unsaved_preset(wanted.toml)]
        presets = unsaved or control.forecasts.known(wanted.presets)
        found = await control.forecasts.of(presets, wanted.within_s, wanted.span_s)
    except PresetError as error:
        issues = error.issues or [Issue("toml", str(error))]
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, f"{error}.", errors=issues) from None
    except UnknownPresetError as error:
        unknown = [Issue("presets", str(error))]
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, f"{error}.", errors=unknown) from None
    except (BusyError, ForecastError) as error:
        raise ProblemError(HTTPStatus.CONFLICT, f"{error}.") from None
    return answer(found.model_copy(update={"earlier": control.forecast_errors.report()}))


async def _forecast_progress(control: Control, request: Request, caller: Caller) -> Response:
    done = control.forecasts.done
    return answer(schema.ForecastProgress(running=done is not None, done_ratio=done or 0.0))


#: The handler of each of these routes, by the route's name.
HANDLERS: Mapping[str, Handler] = {
    "forecast": _forecast,
    "forecast_progress": _forecast_progress,
}
