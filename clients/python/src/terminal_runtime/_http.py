"""HTTP/1.1 and server-sent events without their I/O.

Only what a daemon answers: one response to one POST, with a length, in chunks or up
to the end of the connection.
"""

from __future__ import annotations

from collections import deque
from enum import Enum, auto

from ._failures import UnreadableError

_MAX_HEAD = 64 * 1024


class _Stage(Enum):
    HEAD = auto()
    LENGTH = auto()
    CHUNK_SIZE = auto()
    CHUNK = auto()
    CHUNK_END = auto()
    TRAILER = auto()
    UNTIL_END = auto()
    DONE = auto()


class HttpCodec:
    """One request, then its response; then the next, if the connection stays."""

    def __init__(self, host: str, path: str, token: str | None) -> None:
        head = [f"POST {path} HTTP/1.1", f"Host: {host}", "Content-Type: application/json"]
        if token is not None:
            if not token.isascii() or not token.isprintable():
                raise ValueError("the token has characters that no HTTP header can carry")
            head.append(f"Authorization: Bearer {token}")
        self._head = "\r\n".join(head).encode()
        self._buffer = bytearray()
        self._stage = _Stage.DONE
        self._left = 0
        self._status = 0
        self._keep_alive = True
        self._events: SseReader | None = None
        self._body = bytearray()
        self._ready: deque[bytes] = deque()

    def encode(self, line: bytes, *, streaming: bool) -> bytes:
        self._stage = _Stage.HEAD
        self._body.clear()
        self._events = None
        accept = "text/event-stream" if streaming else "application/json"
        return self._head + f"\r\nAccept: {accept}\r\nContent-Length: {len(line)}\r\n\r\n".encode() + line

    @property
    def reusable(self) -> bool:
        return self._stage is _Stage.DONE and self._keep_alive and not self._buffer

    def next(self) -> bytes | None:
        return self._ready.popleft() if self._ready else None

    def end(self) -> None:
        self._keep_alive = False
        if self._stage is _Stage.UNTIL_END:
            self._finish()

    def feed(self, data: bytes) -> None:
        self._buffer += data
        while self._step():
            pass

    def _step(self) -> bool:
        """Takes one piece from the buffer; False if it is not there yet."""
        match self._stage:
            case _Stage.HEAD:
                return self._take_head()
            case _Stage.LENGTH | _Stage.CHUNK:
                return self._take_counted()
            case _Stage.CHUNK_SIZE | _Stage.CHUNK_END | _Stage.TRAILER:
                return self._take_line()
            case _Stage.UNTIL_END:
                self._take_body(bytes(self._buffer))
                self._buffer.clear()
                return False
            case _Stage.DONE:
                return False

    def _take_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > _MAX_HEAD:
                raise UnreadableError("HTTP", "its head is too long")
            return False
        lines = bytes(self._buffer[:end]).decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        try:
            version, status = lines[0].split(" ")[:2]
            self._status = int(status)
        except ValueError as error:
            raise UnreadableError("HTTP", f"no status in {lines[0]!r}") from error
        if 100 <= self._status < 200:
            return True
        self._read_headers(version, lines[1:])
        return True

    def _read_headers(self, version: str, lines: list[str]) -> None:
        headers = {
            name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
        }
        self._keep_alive = version == "HTTP/1.1" and headers.get("connection", "").lower() != "close"
        if headers.get("content-type", "").startswith("text/event-stream"):
            self._events = SseReader()
        if headers.get("transfer-encoding", "").lower() == "chunked":
            self._stage = _Stage.CHUNK_SIZE
        elif "content-length" in headers:
            self._left = int(headers["content-length"])
            self._stage = _Stage.LENGTH
            if self._left == 0:
                self._finish()
        else:
            self._stage = _Stage.UNTIL_END

    def _take_counted(self) -> bool:
        piece = bytes(self._buffer[: self._left])
        if not piece:
            return False
        del self._buffer[: len(piece)]
        self._left -= len(piece)
        self._take_body(piece)
        if self._left == 0:
            if self._stage is _Stage.LENGTH:
                self._finish()
            else:
                self._stage = _Stage.CHUNK_END
        return True

    def _take_line(self) -> bool:
        end = self._buffer.find(b"\r\n")
        if end < 0:
            return False
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        if self._stage is _Stage.CHUNK_END:
            self._stage = _Stage.CHUNK_SIZE
        elif self._stage is _Stage.TRAILER:
            if not line:
                self._finish()
        else:
            try:
                self._left = int(line.split(b";")[0], 16)
            except ValueError as error:
                raise UnreadableError("HTTP", f"no chunk size in {line!r}") from error
            self._stage = _Stage.CHUNK if self._left else _Stage.TRAILER
        return True

    def _take_body(self, piece: bytes) -> None:
        if self._events is None:
            self._body += piece
        else:
            self._ready.extend(self._events.feed(piece))

    def _finish(self) -> None:
        self._stage = _Stage.DONE
        if self._events is not None:
            return
        body = bytes(self._body).strip()
        if not body.startswith(b"{"):
            raise UnreadableError("HTTP", f"status {self._status} with {body[:200]!r}")
        self._ready.append(body)


class SseReader:
    """Server-sent events: the data of each, in order. The data carries the event's name itself."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> list[bytes]:
        self._buffer += piece
        if b"\n" not in piece:
            return []
        *lines, rest = bytes(self._buffer).split(b"\n")
        self._buffer = bytearray(rest)
        found: list[bytes] = []
        for line in lines:
            line = line.removesuffix(b"\r")
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line and self._data:
                found.append(b"\n".join(self._data))
                self._data = []
        return found
