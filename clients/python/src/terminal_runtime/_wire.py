"""The line protocol without its I/O: requests to bytes, bytes to what came.

A connection carries one request at a time, so whatever comes belongs to it.
"""

from __future__ import annotations

import json
from collections import deque
from typing import Any, NamedTuple, Protocol

from ._failures import DaemonError, UnreadableError
from ._faults import BY_CODE

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
_decode = json.JSONDecoder().decode


class Event(NamedTuple):
    name: str
    data: dict[str, Any]


class Done(NamedTuple):
    data: dict[str, Any]


class Failed(NamedTuple):
    error: DaemonError


Incoming = Event | Done | Failed


class Codec(Protocol):
    """How requests and answers are framed on a connection."""

    def encode(self, line: bytes, *, streaming: bool) -> bytes: ...

    def feed(self, data: bytes) -> None: ...

    def next(self) -> bytes | None:
        """The next JSON text, or None if more bytes are needed."""
        ...

    def end(self) -> None:
        """The connection has ended."""
        ...

    @property
    def reusable(self) -> bool:
        """Whether the connection can carry another request."""
        ...


def request_line(id: str, method: str, params: dict[str, Any]) -> bytes:
    try:
        # An encoder has costs of its own for each object, which is half of what a small request takes.
        encoded = _encode(params) if params else "{}"
        return f'{{"id":{_encode(id)},"method":{_encode(method)},"params":{encoded}}}\n'.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"a param of {method} is no valid text: {error}") from error
    except ValueError as error:
        raise ValueError(f"a param of {method} cannot be sent: {error}") from error


def read(line: bytes, id: str, method: str) -> Incoming | None:
    """None for what belongs to no request of ours."""
    try:
        message: Any = _decode(line.decode())
        if message["id"] != id and not (message["id"] is None and "error" in message):
            return None
        if "event" in message:
            return Event(message["event"], message["data"])
        if message["ok"]:
            return Done(message["data"])
        return Failed(fault(message["error"]))
    except (ValueError, KeyError, TypeError) as error:
        raise UnreadableError(method, f"{error!r} in {line[:200]!r}") from error


def fault(error: dict[str, Any]) -> DaemonError:
    code = str(error["code"])
    return BY_CODE.get(code, DaemonError)(code, str(error["message"]), error.get("details"))


class LineCodec:
    """A line each way, over a Unix socket."""

    __slots__ = ("_begun", "_lines")

    reusable = True

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque()
        #: The pieces of a line whose end has not come yet.
        self._begun: list[bytes] = []

    def encode(self, line: bytes, *, streaming: bool) -> bytes:
        return line

    def feed(self, data: bytes) -> None:
        if b"\n" not in data:
            self._begun.append(data)
            return
        *whole, rest = b"".join([*self._begun, data]).split(b"\n")
        self._lines.extend(whole)
        self._begun = [rest] if rest else []

    def next(self) -> bytes | None:
        return self._lines.popleft() if self._lines else None

    def end(self) -> None:
        """Half a line is no line."""
