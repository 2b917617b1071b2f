"""The routes of OpenAI's Files and Batch API: an ASGI middleware, behind the route guard, that answers them alone.

A file or batch of another tenant is answered as one that is not there. Ids are looked up, and nothing else is done with
them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from headway.api_errors import BadRequest, answer
from headway.batches.objects import KEPT_S, Batch, ExpiresAfter, Status, StoredFile, new_file_id
from headway.batches.pace import window_s
from headway.batches.service import (
    Batches,
    FileInUseError,
    NoFileError,
    StorageFullError,
    StorageLockedError,
    TenantFullError,
    TooManyBatchesError,
)
from headway.batches.upload import PURPOSE, Upload
from headway.http.access.identity import Sender, sender_of
from headway.http.access.route_table import plain_path
from headway.http.inference.request_info import check_values
from headway.http.limits import BODY
from headway.openai.batch_file import ENDPOINTS
from headway.settings import Environment

_FILES: Final = "/v1/files"
_BATCHES: Final = "/v1/batches"
_MOST_FILES: Final = 10_000
_MOST_BATCHES: Final = 100
_AGAIN_S: Final = 60
_LOCKED_AGAIN_S: Final = 5
_OFF: Final = f"Files and batches are off on this server: its operator turns them on with {Environment.batch_dir.name}."

_Short = Annotated[str, Meta(max_length=64)]


class _NewBatch(Struct):
    """The body of a new batch; of what else a client sends nothing counts."""

    input_file_id: str
    endpoint: str
    completion_window: str
    metadata: Annotated[dict[_Short, Annotated[str, Meta(max_length=512)]], Meta(max_length=16)] | None = None
    output_expires_after: ExpiresAfter | None = None


_NEW_BATCH: Final = msgspec.json.Decoder(_NewBatch)


class BatchRoutes:
    """ASGI middleware; ``batches`` None: the routes are off."""

    def __init__(self, app: ASGIApp, batches: Batches | None) -> None:
        self._app = app
        self._batches = batches
        routes = [
            (_FILES, "GET", self._list_files),
            (_FILES, "POST", self._upload),
            (_FILES + "/{id}", "GET", self._file),
            (_FILES + "/{id}", "DELETE", self._delete),
            (_FILES + "/{id}/content", "GET", self._content),
            (_BATCHES, "GET", self._list_batches),
            (_BATCHES, "POST", self._create),
            (_BATCHES + "/{id}", "GET", self._batch),
            (_BATCHES + "/{id}/cancel", "POST", self._cancel),
        ]
        self._router = Router(
            [Route(path, _answering(handler), methods=[method]) for path, method, handler in routes],
            redirect_slashes=False,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request for a route of the Batch API; pass any other request on."""
        path = plain_path(scope) if scope["type"] == "http" and scope["method"] != "OPTIONS" else None
        if path is None or not f"{path}/".startswith((f"{_FILES}/", f"{_BATCHES}/")):
            await self._app(scope, receive, send)
        elif self._batches is None:
            off = BadRequest(HTTPStatus.NOT_FOUND, _OFF, "batches_off")
            await answer(send, off.status, off.body(path), off.headers)
        else:
            await self._router(scope, receive, send)

    @property
    def _on(self) -> Batches:
        assert self._batches is not None
        return self._batches

    # ------------------------------------------------------------------ files

    async def _upload(self, request: Request) -> Response:
        batches, tenant = self._on, _sender(request).tenant
        if BODY in request.scope:
            request.scope[BODY].release()  # it goes to the disk, and does not take the room of other bodies
        free, counted_bytes = await batches.free(tenant), 0
        file_id = new_file_id()
        upload = Upload(request.headers.get("content-type", ""), batches.folder.file(file_id))
        try:
            async for chunk in request.stream():
                await batches.disk(upload.feed, chunk)
                more_bytes, counted_bytes = upload.size_bytes - counted_bytes, upload.size_bytes
                batches.comes(tenant, more_bytes, free)
            await batches.disk(upload.finish)
            name, size_bytes = upload.name or "", upload.size_bytes
            file = await batches.add_file(file_id, tenant, name, size_bytes, upload.kept_s)
        except BaseException:
            batches.discard(upload, file_id)
            raise
        finally:
            batches.ends(tenant, counted_bytes)
        return JSONResponse(file.shown())

    async def _list_files(self, request: Request) -> Response:
        asked = request.query_params
        limit, after = _limit(request, _MOST_FILES), asked.get("after")
        order = asked.get("order", "desc")
        if order not in ("asc", "desc"):
            raise _wrong("order: asc or desc is needed.", "order")
        store, tenant = self._on.store, _sender(request).tenant
        kind = asked.get("purpose")
        await self._check_after(after, store.file, tenant)
        found = await self._on.disk(store.files, tenant, limit + 1, after, "asc" if order == "asc" else "desc", kind)
        return _page([file.shown() for file in found], limit)

    async def _check_after(self, after: str | None, known: Callable[[str, str], object | None], tenant: str) -> None:
        """Raise BadRequest for a place in a list that is not there: an empty page would look like its end."""
        if after is not None and await self._on.disk(known, tenant, after) is None:
            raise _wrong("after: no such id, or a deleted one. Begin with the first page.", "after")

    async def _file(self, request: Request) -> Response:
        return JSONResponse((await self._known_file(request)).shown())

    async def _content(self, request: Request) -> Response:
        file = await self._known_file(request)
        path = self._on.folder.file(file.id)
        try:
            stat = await self._on.disk(path.stat)
        except FileNotFoundError:  # deleted a moment ago
            raise _no_file(None) from None
        return FileResponse(path, media_type="application/jsonl", stat_result=stat)

    async def _delete(self, request: Request) -> Response:
        file = await self._known_file(request)
        try:
            await self._on.remove_file(file)
        except FileInUseError as error:
            text = f"The file is read by {error}; cancel that first, or wait for its end."
            raise BadRequest(HTTPStatus.CONFLICT, text, "file_in_use") from None
        return JSONResponse({"id": file.id, "object": "file", "deleted": True})

    async def _known_file(self, request: Request) -> StoredFile:
        return await self._find(_sender(request), request.path_params["id"])

    async def _find(self, sender: Sender, file_id: str, param: str | None = None) -> StoredFile:
        found = await self._on.disk(self._on.store.file, sender.tenant, file_id)
        if found is None:
            raise _no_file(param)
        return found

    # ------------------------------------------------------------------ batches

    async def _create(self, request: Request) -> Response:
        sender = _sender(request)
        try:
            wanted = _NEW_BATCH.decode(await request.body())
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise _wrong(f"The body is no batch: {str(error)[:200]}.", None) from None
        if wanted.endpoint not in ENDPOINTS:
            raise _wrong(f"endpoint: one of {', '.join(ENDPOINTS)} is needed.", "endpoint")
        seconds = window_s(wanted.completion_window)
        if seconds is None:
            raise _wrong("completion_window: a time such as 24h is needed, of 14 days at most.", "completion_window")
        file = await self._find(sender, wanted.input_file_id, "input_file_id")
        if file.purpose != PURPOSE:
            raise _wrong(f"input_file_id: a file of the purpose {PURPOSE} is needed.", "input_file_id")
        window, expires = (wanted.completion_window, seconds), wanted.output_expires_after
        kept_s = KEPT_S if expires is None else expires.seconds
        try:
            batch = await self._on.add_batch(sender, file, wanted.endpoint, window, wanted.metadata, kept_s)
        except TooManyBatchesError:
            text = "Too many batches are open. Wait until a batch ends, or cancel a batch."
            raise BadRequest(HTTPStatus.TOO_MANY_REQUESTS, text, "too_many_batches", _after(_AGAIN_S)) from None
        except NoFileError:
            raise _no_file("input_file_id") from None
        return JSONResponse(batch.shown())

    async def _list_batches(self, request: Request) -> Response:
        limit, after = _limit(request, _MOST_BATCHES, 20), request.query_params.get("after")
        store, tenant = self._on.store, _sender(request).tenant
        await self._check_after(after, store.batch, tenant)
        found = await self._on.disk(store.batches, tenant, limit + 1, after)
        return _page([self._on.open.get(batch.id, batch).shown() for batch in found], limit)

    async def _batch(self, request: Request) -> Response:
        return JSONResponse((await self._known_batch(request)).shown())

    async def _cancel(self, request: Request) -> Response:
        batch = await self._known_batch(request)
        if batch.ended or batch.status is Status.FINALIZING:
            text = f"The batch is {batch.status} and cannot be cancelled."
            raise BadRequest(HTTPStatus.CONFLICT, text, "batch_ended")
        await self._on.cancel(batch)
        return JSONResponse(batch.shown())

    async def _known_batch(self, request: Request) -> Batch:
        found = await self._on.batch(_sender(request).tenant, request.path_params["id"])
        if found is None:
            raise BadRequest(HTTPStatus.NOT_FOUND, "There is no such batch.", "batch_not_found")
        return found


def _answering(handler: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """A handler whose errors are answers."""

    async def handle(request: Request) -> Response:
        try:
            return await handler(request)
        except StorageFullError as error:
            bad = BadRequest(HTTPStatus.INSUFFICIENT_STORAGE, str(error), "storage_full")
        except StorageLockedError as error:
            again = _after(_LOCKED_AGAIN_S)
            bad = BadRequest(HTTPStatus.SERVICE_UNAVAILABLE, str(error), "storage_locked", again)
        except TenantFullError as error:
            bad = BadRequest(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, str(error), "tenant_storage_full")
        except ClientDisconnect:
            return Response(status_code=HTTPStatus.BAD_REQUEST)
        except BadRequest as error:
            bad = error
        headers = {name.decode(): value.decode() for name, value in bad.headers}
        return Response(bad.body(request.scope["path"]), bad.status, headers)

    return handle


def _after(seconds: int) -> tuple[tuple[bytes, bytes]]:
    return ((b"retry-after", str(seconds).encode()),)


def _sender(request: Request) -> Sender:
    """The sender. Raises BadRequest for too long a name: cut off, it could be that of another tenant."""
    check_values(request.headers)
    return sender_of(request.scope)


def _limit(request: Request, most: int, usual: int | None = None) -> int:
    text = request.query_params.get("limit", str(usual or most))
    if not (text.isascii() and text.isdecimal() and len(text) < 7 and 1 <= int(text) <= most):
        raise _wrong(f"limit: a whole number from 1 to {most} is needed.", "limit")
    return int(text)


def _page(found: list[dict[str, Any]], limit: int) -> Response:
    """A page of a list; one object more was looked for than it has."""
    shown = found[:limit]
    ends = {"first_id": shown[0]["id"], "last_id": shown[-1]["id"]} if shown else {"first_id": None, "last_id": None}
    return JSONResponse({"object": "list", "data": shown, **ends, "has_more": len(found) > limit})


def _no_file(param: str | None) -> BadRequest:
    return BadRequest(HTTPStatus.NOT_FOUND, "There is no such file.", "file_not_found", param=param)


def _wrong(text: str, param: str | None) -> BadRequest:
    return BadRequest(HTTPStatus.BAD_REQUEST, text, "invalid_request", param=param)
