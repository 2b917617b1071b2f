"""The fallback route of one request: to another model or a fixed reply, at most once.

The route is taken before the request queues, or after a refusal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from starlette.types import Receive, Send

from headway.admission import RequestContext, loop_time_s
from headway.fallback import MAX_REQUEST_BYTES, DivertedRequest, FallbackController, FallbackTarget, ForwardResult


@dataclass(slots=True)
class FallbackRoute:
    """The route of one request to the target. ``receive`` is the client's own, after the whole body was read."""

    fallback_controller: FallbackController
    client: FallbackTarget
    context: RequestContext
    path: str
    headers: Mapping[str, str]
    body: bytes | None
    receive: Receive
    send: Send
    _began_s: float = field(default_factory=loop_time_s)
    _tried: bool = False

    def __post_init__(self) -> None:
        """A body that will not be forwarded is not kept while the request waits."""
        if not self.client.takes(self.path, self.headers) or len(self.body or b"") > MAX_REQUEST_BYTES:
            self.body = None

    async def take(self) -> bool:
        """Let the target answer, if it should and can. True when the request is answered."""
        class_name = self.context.class_name
        if class_name is None or self.body is None or self._tried or self.context.asked.detached:
            return False
        refused = self.context.refused
        if not self.fallback_controller.diverts(class_name, None if refused is None else refused.reason):
            return False
        self._tried = True
        left_s = self.fallback_controller.time_left_s(class_name, self.context.timeouts, loop_time_s() - self._began_s)
        diverted = DivertedRequest(
            self.path, self.body, self.headers, self.receive, self.send, class_name, left_s, self.context.lowered
        )
        result = await self.client.serve(diverted)
        if result in (ForwardResult.SERVED, ForwardResult.BROKEN_OFF):
            self.fallback_controller.count_diverted(class_name)
        return result is not ForwardResult.NOT_SERVED
