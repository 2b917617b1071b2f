"""An upload: a form with a purpose and one file, whose bytes go to the disk as they come."""

from __future__ import annotations

import os
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import IO, Any, Final

import msgspec
from python_multipart import MultipartParser
from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import parse_options_header

from headway.api_errors import BadRequest
from headway.batches.objects import KEPT_S, ExpiresAfter

PURPOSE: Final = "batch"
#: The fields of the form that count, beside the file.
_EXPIRES: Final = {f"expires_after[{name}]": name for name in ExpiresAfter.__struct_fields__}
_FIELDS: Final = frozenset({"purpose", *_EXPIRES})
_MAX_FIELD_BYTES: Final = 4096
_MAX_HEADER_BYTES: Final = 8192
_MAX_PARTS: Final = 16
_MAX_NAME_CHARS: Final = 255


class Upload:
    """The reader of one form, which writes its file to a path. Raises BadRequest, or OSError of the disk."""

    def __init__(self, content_type: str, path: Path) -> None:
        kind, options = parse_options_header(content_type)
        if kind != b"multipart/form-data" or b"boundary" not in options:
            raise _wrong("The body must be multipart/form-data, with the fields purpose and file.", "content-type")
        self.kept_s = KEPT_S
        self.name: str | None = None
        self.size_bytes = 0
        self._file: IO[bytes] | None = None
        self._path = path
        self._header, self._value, self._field, self._part = b"", b"", b"", ""
        self._disposition = b""
        self._fields: dict[str, str] = {}
        self._parts = self._header_bytes = 0
        self._ended = False
        callbacks: Any = {
            "on_part_begin": self._part_begins,
            "on_header_field": self._header_name,
            "on_header_value": self._header_value,
            "on_header_end": self._header_ends,
            "on_headers_finished": self._headers_end,
            "on_part_data": self._data,
            "on_end": self._end,
        }
        self._parser = MultipartParser(options[b"boundary"], callbacks)

    def feed(self, chunk: bytes) -> None:
        """Read the next bytes."""
        try:
            self._parser.write(chunk)
        except MultipartParseError:
            raise _wrong("The form cannot be read.", "file") from None

    def finish(self) -> None:
        """All bytes have come: check the whole, with the file on the disk."""
        if self._file is None:
            raise _wrong("file: a file is needed.", "file")
        os.fsync(self._file.fileno())
        self._file.close()
        if not self._ended:
            raise _wrong("The form is not complete.", "file")
        if self._fields.get("purpose") != PURPOSE:
            raise _wrong(f"purpose: {PURPOSE} is needed, for this server has no other use of files.", "purpose")
        if not self.size_bytes:
            raise _wrong("file: the file is empty.", "file")
        expires = {name: self._fields[field] for field, name in _EXPIRES.items() if field in self._fields}
        if expires:
            try:
                self.kept_s = msgspec.convert(expires, ExpiresAfter, strict=False).seconds
            except msgspec.ValidationError as error:
                raise _wrong(f"expires_after: {error}.", "expires_after") from None

    def close(self) -> None:
        """Close the file, where it is open."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()

    # ------------------------------------------------------------------ the parser's callbacks

    def _part_begins(self) -> None:
        self._parts += 1
        self._header_bytes, self._disposition, self._field = 0, b"", b""
        if self._parts > _MAX_PARTS:
            raise _wrong(f"The form has more than {_MAX_PARTS} fields.", "file")

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._header += self._counted(data[start:end])

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += self._counted(data[start:end])

    def _header_ends(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = self._value
        self._header = self._value = b""

    def _headers_end(self) -> None:
        _, options = parse_options_header(self._disposition)
        self._part = options.get(b"name", b"").decode(errors="replace")
        if self._part != "file":
            return
        if self._file is not None:
            raise _wrong("file: one file is needed, not several.", "file")
        self.name = _name(options.get(b"filename", b""))
        self._file = os.fdopen(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb", 0)

    def _data(self, data: bytes, start: int, end: int) -> None:
        piece = data[start:end]
        if self._part == "file" and self._file is not None:
            self.size_bytes += len(piece)
            while piece:
                piece = piece[self._file.write(piece) :]
            return
        self._field += piece
        if len(self._field) > _MAX_FIELD_BYTES:
            raise _wrong("A field of the form is too long.", self._part[:_MAX_NAME_CHARS])
        if self._part in _FIELDS:
            self._fields[self._part] = self._field.decode(errors="replace")

    def _end(self) -> None:
        self._ended = True

    def _counted(self, piece: bytes) -> bytes:
        self._header_bytes += len(piece)
        if self._header_bytes > _MAX_HEADER_BYTES:
            raise _wrong("The headers of a field of the form are too long.", "file")
        return piece


def _name(given: bytes) -> str:
    """The name of a file for its owner to see: its last part, without what no name has."""
    name = given.decode(errors="replace").replace("\\", "/").rpartition("/")[2]
    return "".join(letter for letter in name if letter.isprintable())[:_MAX_NAME_CHARS] or "file.jsonl"


def _wrong(text: str, param: str) -> BadRequest:
    return BadRequest(HTTPStatus.BAD_REQUEST, text, "invalid_request", param=param)
