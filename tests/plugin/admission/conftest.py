"""What the tests of admission share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headway.admission.request_context import REQUEST_CONTEXT, RequestContext


@pytest.fixture
def context() -> Iterator[RequestContext]:
    """An HTTP request around all calls of the test."""
    around = RequestContext(class_name="batch", tenant="acme")
    token = REQUEST_CONTEXT.set(around)
    yield around
    REQUEST_CONTEXT.reset(token)
