"""The path of a request: what has one spelling only, and that the router reads the same."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette._utils import get_route_path

from headway.http.access.route_table import plain_path


def scope(target: str, root_path: str = "") -> dict[str, Any]:
    """The scope that uvicorn makes of a request target without a query."""
    return {"path": unquote(target), "raw_path": target.encode("latin-1"), "root_path": root_path}


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/responses/resp_1-2.3~x", "/adapters/org:my-adapter@2"])
def test_a_plain_path_is_passed_on(path: str) -> None:
    """As it stands."""
    assert plain_path(scope(path)) == path
    assert plain_path({"path": path}) == path


@pytest.mark.parametrize(
    "target",
    [
        "", "/", "*", "v1/models", "//v1/models", "/v1//models", "/v1/models/", "/v1/./models", "/v1/../v1/models",
        "/v1/models/..", "/v1/models/.", "/v1%2fmodels", "/v1%2Fmodels", "/%76%31/models", "/v1/%2e%2e/models",
        "/v1\\models", "/v1/models%00", "/v1/models%0a", "/v1/models\n", "/v1/models;x=1", "/v1/models%3b",
        "/v1/m\xf6dels", "/v1/models%", "/v1/models%zz", "http://evil.example/v1/models", "/v1/ models",
        "/v1/models#x",
    ],
)  # fmt: skip
def test_a_path_with_another_spelling_is_none(target: str) -> None:
    """Encoded, with empty or dot segments, with a slash at its end, not ASCII, or no path at all."""
    assert plain_path(scope(target)) is None


def test_a_raw_path_that_differs_is_none() -> None:
    """The decoded path is not the one that was sent."""
    assert plain_path({"path": "/v1/models", "raw_path": b"/v1/%6dodels"}) is None


@pytest.mark.parametrize(
    ("root_path", "path", "expected"),
    [
        ("/api", "/api/v1/models", "/v1/models"),
        ("/api", "/v1/models", "/v1/models"),
        ("/api", "/apiv1/models", "/apiv1/models"),
        ("/api", "/api/api/v1/models", "/api/v1/models"),
        ("/api", "/api", "/api"),
    ],
)
def test_the_root_path_of_the_application_is_taken_off_once(root_path: str, path: str, expected: str) -> None:
    """As Starlette does it."""
    assert plain_path(scope(path, root_path)) == expected


@given(
    st.lists(
        st.sampled_from(["/", "v1", "models", ".", "..", "%2f", "%2e", "a", ":", "\\", "~", "%41", "\x00"]),
        max_size=12,
    ),
    st.sampled_from(["", "/v1", "/v1/", "/a"]),
)
def test_the_router_reads_every_plain_path_in_the_same_way(parts: list[str], root_path: str) -> None:
    """Whatever the target and the root path are: the guard and Starlette see one route."""
    asked = scope("".join(parts), root_path)
    path = plain_path(asked)
    if path is not None and path != root_path:
        assert path == get_route_path(asked)
        assert "%" not in path
        assert not {"", ".", ".."} & set(path.split("/")[1:])
