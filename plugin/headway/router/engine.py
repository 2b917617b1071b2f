"""All instances as one engine, behind the port of ``headway.engine``.

    chosen                  the pool gives seats on an instance
    lost, no output yet     the request is tried on another one, whatever was the matter
    refused by it           (429, 502, 503, 504, or a stream that begins with an error, as SGLang and TGI refuse)
                            another one is asked; the last refusal is passed on
    drains, has no engine   the request waits for an instance that serves
    failed                  (500, TGI's 424) another is asked, once; three in a row, and the instance gets no requests
    does not let it in      (401) all others are asked; no key of a client is forwarded, so this server's is at fault
    does not serve it       (403, 404) all others are asked, the last refusal is passed on: it may be the request's own
    lost after output       the call fails: what was sent cannot be taken back; a JSON body is sent once it is whole

A request during which two instances were lost is not tried a third time: it may be the cause.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Protocol

from headway.engine import StepListener
from headway.router.forwarding.call import AbortedError, Call, EngineGoneError, InstanceLostError, NoInstanceError
from headway.router.forwarding.exchange import InstanceClient
from headway.router.forwarding.forwarded import CallParams, Forwarded, Piece
from headway.router.forwarding.tries import AWAY, MOST_LOST, Held, reason_of
from headway.router.instances.instance import InstanceLink, Lease
from headway.router.instances.pool import AllTriedError, InstancePool
from headway.router.instances.step_reports import StepReports, StepSource
from headway_policies.fallback import Verdict
from headway_policies.routing import Demand

_MAX_REFUSAL_BYTES: Final = 64 * 1024
#: From this part of the least known bound of the context on, a limit is taken for one that the context is shorter than.
_NEARLY: Final = 0.9
#: An instance refuses the request, which may be the request's own fault.
_OF_REQUEST: Final = frozenset({403, 404})
_FAILURES: Final = frozenset({424, 500})
_REFUSALS: Final = _OF_REQUEST | _FAILURES | {401, 429, 502, 503, 504}
#: The statuses of a server that does not take a limit; TGI answers the latter.
_TOO_LARGE: Final = frozenset({HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY})
_ERROR_EVENTS: Final = (b'data: {"error":', b'data:{"error":')


class StartedServer(Protocol):
    """The only instance, where this process has started it and can start another in its place."""

    @property
    def gone(self) -> bool:
        """Whether the server has ended. Another server may follow."""
        ...

    async def wait_for_report(self) -> None:
        """Wait a moment for the end of the server, after a connection to it broke."""
        ...


class InstancesEngine:
    """The engine of the router. Call it on one event loop only.

    ``own`` is the only instance where this process has started it, None where the instances belong to others. ``steps``
    are those of its engine, where that writes them down.
    """

    def __init__(
        self,
        pool: InstancePool,
        client: InstanceClient,
        own: StartedServer | None = None,
        steps: StepSource | None = None,
    ) -> None:
        self.pool = pool
        self.client = client
        self._own = own
        self.max_num_seqs = max(1, pool.most_seats())
        self._calls: dict[str, tuple[Call, Callable[[], int]]] = {}
        self._reports = StepReports(pool, steps)

    @property
    def errored(self) -> bool:
        """False where the instances belong to others, which come back; else whether the server has ended."""
        return self._own is not None and self._own.gone

    async def generate(
        self, prompt: Forwarded, sampling_params: CallParams, request_id: str, *, demand: Demand, **options: Any
    ) -> AsyncGenerator[Piece, None]:
        """The pieces of one response. Raises InstanceLostError where no instance gave all of it, or EngineGoneError."""
        call, tries = Call(), _Tries()
        if self._own is not None:
            prompt = prompt.ranked(options.get("priority", 0))
        limited = _Limited(prompt, sampling_params.max_tokens)
        self._calls[request_id] = call, lambda: 0
        try:
            while tries.failed < MOST_LOST and (lease := await self._lease(call, demand, tries)) is not None:
                self._calls[request_id] = call, _progress_since(lease, self._calls[request_id][1]())
                call.let_go.append(partial(self.pool.release, lease, Verdict.UNDECIDED, "aborted"))
                verdict, how, held = Verdict.UNDECIDED, "aborted", Held()
                try:
                    async with aclosing(self._tried(lease, limited, call, demand, sampling_params)) as pieces:
                        refusal = list[Piece]()
                        async for piece in pieces:
                            if refusal or _refuses(piece) or limited.maybe_too_large(piece):
                                refusal.append(piece)
                                continue
                            if piece.body and piece.status == HTTPStatus.OK:
                                self.pool.answering(lease)
                                limited.accepted(lease.link)
                            for passed in held.add(piece):
                                call.begun = True
                                yield passed if sampling_params.stream else replace(passed, whole=True)
                    if not refusal:
                        verdict, how = Verdict.SUCCESS, "answered"
                        return
                    verdict, how = self._refused(tries, lease.link, refusal, limited), "refused"
                except InstanceLostError as error:
                    verdict, how = Verdict.FAILURE, "lost"
                    self.pool.broke(lease.link)
                    await self._still_there()
                    tries.lost += error.sent
                    if call.begun or tries.lost >= MOST_LOST:
                        raise
                    call.again()
                    self.pool.retried += 1
                finally:
                    call.let_go.clear()
                    self.pool.release(lease, verdict, how)
            for piece in tries.last_refusal():
                yield replace(piece, whole=True)  # no piece of it is a first token
        except AbortedError:
            return
        finally:
            del self._calls[request_id]

    async def fetch(self, request: Forwarded) -> AsyncGenerator[Piece, None]:
        """The pieces of a response that needs no seat, of the first healthy instance that gives one.

        Raises NoInstanceError where none is there, and InstanceLostError where those that had the request were lost.
        """
        last: Exception = NoInstanceError()
        lost = 0
        for link in sorted(self.pool.healthy(), key=lambda instance: instance.sent + instance.others):
            call = Call()
            link.calls.add(call)
            try:
                async with aclosing(self.client.exchange(link.address, request, call, 0)) as pieces:
                    async for piece in pieces:
                        if piece.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
                            break
                        call.begun = True
                        yield piece
                    else:
                        return
            except InstanceLostError as error:
                if error.sent:
                    last = error
                lost += error.sent
                self.pool.broke(link)
                if call.begun or lost >= MOST_LOST:
                    break
            finally:
                link.calls.discard(call)
        raise last

    def engine_gone(self) -> None:
        """End every call, to be tried again with the next server: that of this process has ended."""
        for call, _ in list(self._calls.values()):
            call.stop(EngineGoneError())
        self._reports.engine_gone()

    async def abort(self, request_id: str) -> None:
        """Stop a request; its connection is closed, which the instance notices. An unknown id is ignored."""
        found = self._calls.get(request_id)
        if found is not None:
            found[0].stop(AbortedError())

    async def ping(self) -> None:
        """Answer as soon as an instance is healthy: without one, nothing is dispatched."""
        await self.pool.any_healthy()

    def listen(self, listener: StepListener) -> None:
        """Have the steps of the instances reported."""
        self._reports.listener = listener

    def report(self) -> None:
        """Tell the listener that every instance was read."""
        self._reports.report()

    def progress_of(self, request_id: str) -> int | None:
        """The readings of its instance, since it began there, that showed progress; None for an id not known."""
        found = self._calls.get(request_id)
        return None if found is None else found[1]()

    def shutdown(self, timeout: float | None = None) -> None:
        """Do nothing: the instances belong to others."""

    async def _still_there(self) -> None:
        """Raise EngineGoneError where the lost instance is a server of this process that has ended."""
        if self._own is None:
            return
        await self._own.wait_for_report()
        if self._own.gone:
            raise EngineGoneError

    async def _lease(self, call: Call, demand: Demand, tries: _Tries) -> Lease | None:
        """Seats on an instance, as soon as any are free; None where all healthy ones have refused this request."""
        while True:
            try:
                return await call.step(self.pool.lease(call, demand, frozenset(tries.refused)), self.pool.give_back)
            except AllTriedError:
                return None
            except InstanceLostError:  # it had not begun there
                call.again()

    def _refused(self, tries: _Tries, link: InstanceLink, refusal: list[Piece], limited: _Limited) -> Verdict:
        """Note a refusal, and its meaning for the instance's health."""
        name = link.address.name
        if limited.maybe_too_large(refusal[0]):
            limited.drop(link)
            return Verdict.UNDECIDED
        if reason_of(refusal[0]) in AWAY and name not in tries.away:
            tries.away.add(name)  # once for each: one that is ready and refuses again means this request
            self.pool.broke(link)
            return Verdict.UNDECIDED
        tries.refused[name] = refusal
        if refusal[0].status == HTTPStatus.UNAUTHORIZED:
            return Verdict.FAILURE
        if refusal[0].status not in _FAILURES:
            return Verdict.UNDECIDED
        tries.failed += 1
        return Verdict.FAILURE

    async def _tried(
        self, lease: Lease, limited: _Limited, call: Call, demand: Demand, params: CallParams
    ) -> AsyncGenerator[Piece, None]:
        """Try once. The size of a refusal is bounded, and of a refusal of the limit only the first piece is of use.

        Beyond the bound a refusal that the request may have caused is cut; any other counts as a fault of the instance.
        """
        taken, refused, tokens = 0, None, demand.prompt_tokens
        exchange = self.client.exchange(lease.link.address, limited.form_for(lease.link), call, tokens)
        with self._reports.timed(tokens, lease.link, streams=params.timed) as stream:
            async with aclosing(exchange) as pieces:
                async for piece in pieces:
                    refused = piece.status if _refuses(piece) else refused
                    taken += len(piece.body)
                    self._reports.came(stream, piece.tokens)
                    if refused is not None and taken > _MAX_REFUSAL_BYTES:
                        if refused in _OF_REQUEST:
                            return
                        raise InstanceLostError(lease.link.address.name, sent=True)
                    yield piece
                    if piece.tokens:
                        self._reports.taken(stream)
                    if limited.maybe_too_large(piece):
                        return


class _Tries:
    """The history of a request so far: its refusals, failures and losses.

    ``refused`` are the refusals by instance, ``away`` the instances that said to serve no request, ``failed`` and
    ``lost`` how often an instance failed with it or was lost.
    """

    def __init__(self) -> None:
        self.refused: dict[str, list[Piece]] = {}
        self.away: set[str] = set()
        self.failed = self.lost = 0

    def last_refusal(self) -> list[Piece]:
        """The whole refusal to pass on. Raises InstanceLostError without one, or where no instance let this server in.

        A refusal of this server's key says nothing to the client, whose key is another one.
        """
        for refusal in reversed(self.refused.values()):
            if refusal[0].status != HTTPStatus.UNAUTHORIZED and refusal[-1].last:
                return refusal
        raise InstanceLostError(next(reversed(self.refused)), sent=False)


class _Limited:
    """A request with an added limit of tokens, in the form for each instance.

    Without a limit an instance takes what its context has left. It refuses a limit that is larger: then it alone gets
    the request as it came. So its context is shorter than that limit and the prompt together, and a limit of about as
    much is not added to another request for it. A prompt has at most as many tokens as its body has bytes.
    """

    def __init__(self, prompt: Forwarded, most: int | None) -> None:
        self._prompt = self._shorter = prompt
        self._most = most or 0
        if most is not None and most != prompt.asked.max_tokens:
            self._shorter = prompt.at_most(most)
        self._adds = prompt.asked.max_tokens is None and self._shorter is not prompt
        self._added = False
        self._dropped: set[InstanceLink] = set()

    def form_for(self, link: InstanceLink) -> Forwarded:
        """The request as it is sent to this instance next."""
        below = link.context_below
        fits = link not in self._dropped and (below is None or self._most < _NEARLY * below)
        self._added = self._adds and fits
        return self._prompt if self._adds and not fits else self._shorter

    def maybe_too_large(self, first: Piece) -> bool:
        """Whether an answer may be a refusal of the limit that was added."""
        return self._added and (first.status in _TOO_LARGE or _begins_with_error(first))

    def drop(self, link: InstanceLink) -> None:
        """Send this instance the request as it came."""
        self._dropped.add(link)

    def accepted(self, link: InstanceLink) -> None:
        """Note that an instance accepts the request; where it refused it with the limit, the limit was too large."""
        if link in self._dropped:
            below = self._most + len(self._prompt.body)
            link.context_below = below if link.context_below is None else min(link.context_below, below)


def _progress_since(lease: Lease, before: int) -> Callable[[], int]:
    """The progress with this lease after ``before`` without it: another instance is progress, new seats are none."""
    begun = before + 1 if before else 0
    return lambda: begun + lease.progress


def _refuses(first: Piece) -> bool:
    return first.status in _REFUSALS or _begins_with_error(first)


def _begins_with_error(first: Piece) -> bool:
    """Whether a first piece belongs to a stream whose first event is an error."""
    return first.status == HTTPStatus.OK and first.body.startswith(_ERROR_EVENTS)
