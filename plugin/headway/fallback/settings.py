"""The settings of the fallback model: its address, name, key and time-out; or the text of a fixed reply in its place.

They come from the server's environment only, never from a preset, a request or the admin API: HEADWAY_FALLBACK_URL,
HEADWAY_FALLBACK_MODEL, HEADWAY_FALLBACK_API_KEY (or the file named by HEADWAY_FALLBACK_API_KEY_FILE) and
HEADWAY_FALLBACK_TIMEOUT_S; or HEADWAY_FALLBACK_REPLY.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from headway.api.secret_text import is_one_word
from headway.errors import HeadwayError
from headway.settings import Environment
from headway_policies.close_name import no_such

_URL = Environment.fallback_url.name
_MODEL = Environment.fallback_model.name
_REPLY = Environment.fallback_reply.name
_MAX_MODEL_CHARS = 200
_MAX_REPLY_CHARS = 4096


@dataclass(frozen=True, slots=True)
class FallbackSettings:
    """An OpenAI-compatible API: its base, such as http://127.0.0.1:8001/v1, and the model to ask for."""

    url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    timeout_s: float = Environment.fallback_timeout_s.default

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> FallbackSettings | None:
        """The settings in the environment; None where no other model is named. Raises HeadwayError in one line."""
        found = Environment(environment)
        if found.fallback_url is None:
            _nothing_else_said(found.given)
            return None
        key = found.fallback_api_key
        settings = cls(
            _url(found.fallback_url),
            _model(found.fallback_model),
            None if key is None else key.text,
            found.fallback_timeout_s,
        )
        if importlib.util.find_spec("aiohttp") is None:
            raise HeadwayError(f"{_URL}: needs aiohttp, which comes with vLLM; install it with: pip install aiohttp")
        return settings


def fixed_reply(environment: Mapping[str, str] | None = None) -> tuple[str, tuple[str, ...]] | None:
    """The text of a fixed reply, and the classes that get it in place of a time-out; None without a fixed reply.
    Raises HeadwayError in one line.
    """
    found = Environment(environment)
    text, late = found.fallback_reply, found.fallback_reply_late
    if text is None:
        if late:
            raise HeadwayError(f"{Environment.fallback_reply_late.name}: has no effect without {_REPLY}; set that, too")
        return None
    if found.fallback_url is not None:
        raise HeadwayError(f"{_REPLY}: has no effect beside {_URL}; unset one of them")
    try:
        valid = bool(text.strip().encode()) and len(text) <= _MAX_REPLY_CHARS
    except UnicodeEncodeError:  # bytes of the environment that are no UTF-8
        valid = False
    if not valid:
        wanted = f"a text of 1 to {_MAX_REPLY_CHARS} characters, in UTF-8,"
        raise HeadwayError(f"{_REPLY}: {wanted} is needed; unset it for no fixed reply")
    return text, late


def check_late_classes(environment: Mapping[str, str] | None, known: Collection[str]) -> None:
    """Raise HeadwayError for a class of HEADWAY_FALLBACK_REPLY_LATE that no preset has; ``known`` are theirs."""
    unknown = [name for name in Environment(environment).fallback_reply_late if name not in known]
    if unknown:
        raise HeadwayError(f"{Environment.fallback_reply_late.name}: {no_such('class', unknown[0], known)}")


def _nothing_else_said(given: Mapping[str, str]) -> None:
    for variable in (_MODEL, *Environment.fallback_api_key.names, Environment.fallback_timeout_s.name):
        if given.get(variable):
            raise HeadwayError(f"{variable}: has no effect without {_URL}; set that, too, or unset this")


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid or not is_one_word(text):
        raise HeadwayError(f"{_URL}: the base of an OpenAI-compatible API is needed, such as http://127.0.0.1:8001/v1")
    if "@" in parts.netloc or parts.query or parts.fragment:
        key = Environment.fallback_api_key.name
        raise HeadwayError(f"{_URL}: no user, password, query or fragment is allowed; a key goes into {key}")
    return text.rstrip("/")


def _model(text: str | None) -> str:
    name = text or ""
    if not name or len(name) > _MAX_MODEL_CHARS or not name.isascii() or not name.isprintable():
        wanted = f"the name of the other model, at most {_MAX_MODEL_CHARS} printable ASCII characters"
        raise HeadwayError(f"{_MODEL}: {wanted}, is needed")
    return name
