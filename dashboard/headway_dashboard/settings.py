"""The settings of the dashboard: the servers, their token, and the refresh interval.

Everything comes from the environment, so that one process has one answer and no token ever stands in a command line.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from headway.api.secret_text import SecretFileError, find_secret

Role = Literal["operator", "viewer", "none"]

DEFAULT_URL = "http://127.0.0.1:8000"
#: The most servers of one dashboard.
MAX_SERVERS = 32
DEFAULT_REFRESH_S = 2.0


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that the dashboard was started with.

    ``url`` is the server that is changed, or the first of several; ``others`` are watched beside it, with the same
    token.
    ``role`` is what the token should allow; the server has the last word. The token is left out of ``repr`` and of
    comparisons, so that it cannot reach a log line or a cache key.
    """

    url: str = DEFAULT_URL
    others: tuple[str, ...] = ()
    prometheus_url: str | None = None
    refresh_s: float = DEFAULT_REFRESH_S
    runbooks_url: str = ""
    role: Role = "none"
    token: str | None = field(default=None, repr=False, compare=False)
    token_problem: str | None = None

    @property
    def urls(self) -> tuple[str, ...]:
        """All servers that are watched."""
        return (self.url, *self.others)

    @property
    def token_id(self) -> str:
        """A digest that tells tokens apart and does not tell the token: a file may have another one by now."""
        return hashlib.sha256((self.token or "").encode()).hexdigest()[:16]

    @property
    def address(self) -> str:
        """The watched servers, in words for the head of a page."""
        return self.url if not self.others else f"{len(self.urls)} servers: {', '.join(self.urls)}"

    def of(self, url: str) -> Settings:
        """The settings for one of the servers alone."""
        return replace(self, url=url, others=())

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        """Read ``HEADWAY_URL``, ``HEADWAY_PROMETHEUS_URL``, ``HEADWAY_REFRESH_S``, ``HEADWAY_RUNBOOKS_URL`` and the
        token of either role.
        """
        url, *others = server_urls(environment.get("HEADWAY_URL") or "")[:MAX_SERVERS] or (DEFAULT_URL,)
        role: Role = "none"
        token, problem = _secret(environment, "HEADWAY_ADMIN_TOKEN")
        if token:
            role = "operator"
        elif problem is None:
            token, problem = _secret(environment, "HEADWAY_VIEWER_TOKEN")
            role = "viewer" if token else "none"
        return cls(
            url=url,
            others=tuple(others),
            prometheus_url=(environment.get("HEADWAY_PROMETHEUS_URL") or "").rstrip("/") or None,
            refresh_s=_seconds(environment.get("HEADWAY_REFRESH_S")),
            runbooks_url=_web_page(environment.get("HEADWAY_RUNBOOKS_URL") or ""),
            role=role,
            token=token,
            token_problem=problem,
        )


def server_urls(text: str) -> tuple[str, ...]:
    """The addresses in a list with commas, each once."""
    found = (part.strip().rstrip("/") for part in text.split(","))
    return tuple(dict.fromkeys(url for url in found if url))


def _secret(environment: Mapping[str, str], name: str) -> tuple[str | None, str | None]:
    """The secret in ``name`` or in the file that ``name``_FILE names; and what is wrong, in one sentence."""
    try:
        secret = find_secret(name, environment)
    except SecretFileError as error:
        return None, f"{error.variable} cannot be read: {error.cause}."
    value = "" if secret is None else secret.text.strip()
    if secret is not None and secret.path is not None and not value:
        return None, f"{secret.variable} names an empty file."
    return value or None, None


def _web_page(text: str) -> str:
    """A web address without characters that end a link; empty for any other text."""
    return text if re.fullmatch(r"https?://[^\s()<>\[\]#]+", text) else ""


def _seconds(text: str | None) -> float:
    """A refresh interval of 0.5 to 60 seconds; anything else is the default."""
    try:
        value = float(text or DEFAULT_REFRESH_S)
    except ValueError:
        return DEFAULT_REFRESH_S
    return value if 0.5 <= value <= 60 else DEFAULT_REFRESH_S
