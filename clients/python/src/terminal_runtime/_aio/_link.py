"""A connection that carries one request at a time, whatever it is framed in."""

from __future__ import annotations

from .._failures import ConnectionEnded
from .._wire import Codec, Incoming, read
from ._pipe import AsyncPipe


class AsyncLink:
    """An asyncio link. Nothing is sent on it before the last answer has come."""

    __slots__ = ("_codec", "_id", "_local", "_method", "_pipe")

    def __init__(self, pipe: AsyncPipe, codec: Codec, *, local: bool) -> None:
        self._pipe = pipe
        self._codec = codec
        self._local = local
        self._id = ""
        self._method = ""

    async def send(self, id: str, method: str, line: bytes, *, streaming: bool) -> None:
        self._id = id
        self._method = method
        try:
            await self._pipe.send(self._codec.encode(line, streaming=streaming))
        except ConnectionEnded as ended:
            raise self._judged(ended) from None

    async def next(self) -> Incoming:
        """What comes next of the request that was sent."""
        while True:
            line = self._codec.next()
            if line is None:
                line = await self._more()
            if line is None:
                continue
            incoming = read(line, self._id, self._method)
            if incoming is not None:
                return incoming

    async def _more(self) -> bytes | None:
        try:
            self._codec.feed(await self._pipe.receive())
        except ConnectionEnded as ended:
            self._codec.end()
            last = self._codec.next()
            if last is None:
                raise self._judged(ended) from None
            return last
        return self._codec.next()

    def _judged(self, ended: ConnectionEnded) -> ConnectionEnded:
        """Linux resets a Unix socket that is closed with bytes unread in it.

        There is one request at a time, so these were ours: the daemon has not had it whole.
        Over TCP a reset proves nothing.
        """
        return ConnectionEnded(unread=ended.unread and self._local)

    async def closed(self) -> None:
        """Waits until the daemon has closed the connection."""
        try:
            while True:
                await self._pipe.receive()
        except ConnectionEnded:
            self._pipe.close()

    def is_complete(self) -> bool:
        """Whether the answer has come whole, and another request may follow."""
        return self._codec.reusable

    def is_reusable(self) -> bool:
        return self._codec.reusable and self._pipe.is_fresh()

    def close(self) -> None:
        self._pipe.close()
