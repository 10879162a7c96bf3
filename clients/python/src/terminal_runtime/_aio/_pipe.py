"""Bytes to and from a daemon, with asyncio. The counterpart is `_sync/_pipe.py`."""

from __future__ import annotations

import asyncio
import socket
import ssl
import weakref
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import TypeVar

from .._failures import ConnectionEnded
from .._trust import check_peer

T = TypeVar("T")

AsyncLock = asyncio.Lock

#: What ends a wait from outside.
INTERRUPTS: tuple[type[BaseException], ...] = (asyncio.CancelledError,)

#: More than this is left in the socket until it is asked for, so a slow reader slows the daemon.
_MOST_WAITING = 1024 * 1024


async def pause(seconds: float) -> None:
    await asyncio.sleep(seconds)


async def in_thread(work: Callable[[], T]) -> T:
    return await asyncio.to_thread(work)


async def _close_with_loop(pipe: AsyncPipe) -> None:
    """A client may outlive an event loop: the default one does at the end of every `asyncio.run`.

    What a loop closes before it ends are its asynchronous generators, so one of them closes the connections.
    """
    loop = asyncio.get_running_loop()
    if loop in _open:
        _open[loop][0].add(pipe)
        return
    pipes = weakref.WeakSet([pipe])
    end = _at_the_end(pipes)
    _open[loop] = pipes, end
    await anext(end)


async def _at_the_end(pipes: weakref.WeakSet[AsyncPipe]) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        for pipe in list(pipes):
            pipe.close()


class AsyncPipe(asyncio.Protocol):
    """A connection. One reader at a time."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._waiting = bytearray()
        self._paused = False
        self._ended: ConnectionEnded | None = None
        self._wake: asyncio.Future[None] | None = None
        self._drained: asyncio.Future[None] | None = None

    @staticmethod
    async def unix(path: Path) -> AsyncPipe:
        loop = asyncio.get_running_loop()
        _, pipe = await loop.create_unix_connection(AsyncPipe, str(path))
        try:
            await _close_with_loop(pipe)
            check_peer(pipe._socket(), path)
        except BaseException:
            pipe.close()
            raise
        return pipe

    @staticmethod
    async def tcp(host: str, port: int, tls: ssl.SSLContext | None, timeout_s: float) -> AsyncPipe:
        loop = asyncio.get_running_loop()
        opening = loop.create_connection(AsyncPipe, host, port, ssl=tls)
        _, pipe = await asyncio.wait_for(opening, timeout_s)
        await _close_with_loop(pipe)
        return pipe

    def _socket(self) -> socket.socket:
        assert self._transport is not None
        return self._transport.get_extra_info("socket")

    async def send(self, data: bytes) -> None:
        """After a failure the other end has not had it all."""
        if self._transport is None or self._ended is not None or self._transport.is_closing():
            raise ConnectionEnded(unread=True)
        self._transport.write(data)
        if self._drained is not None:
            await self._drained

    async def receive(self) -> bytes:
        """What came, at least one byte."""
        while not self._waiting:
            if self._ended is not None:
                raise self._ended
            self._wake = self._loop.create_future()
            try:
                await self._wake
            finally:
                self._wake = None
        data = bytes(self._waiting)
        self._waiting.clear()
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return data

    def is_fresh(self) -> bool:
        """Whether nothing came while it lay idle, not even its end, and this loop is its own."""
        return (
            self._ended is None
            and not self._waiting
            and self._transport is not None
            and not self._transport.is_closing()
            and self._loop is asyncio.get_running_loop()
        )

    def close(self) -> None:
        if self._transport is not None and not self._loop.is_closed():
            self._transport.abort()

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._waiting += data
        if len(self._waiting) > _MOST_WAITING and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._awake()

    def connection_lost(self, exc: Exception | None) -> None:
        # Reset: bytes of ours were left unread. Broken: the other end was closed before we wrote.
        self._ended = ConnectionEnded(unread=isinstance(exc, ConnectionResetError | BrokenPipeError))
        self._awake()
        self.resume_writing()

    def pause_writing(self) -> None:
        self._drained = self._loop.create_future()

    def resume_writing(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._drained = None

    def _awake(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)


#: The connections of each event loop, and what closes them.
_open: weakref.WeakKeyDictionary[
    asyncio.AbstractEventLoop, tuple[weakref.WeakSet[AsyncPipe], AsyncGenerator[None, None]]
] = weakref.WeakKeyDictionary()
