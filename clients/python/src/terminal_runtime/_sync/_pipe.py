"""Bytes to and from a daemon, blocking. The counterpart is `_aio/_pipe.py`."""

from __future__ import annotations

import select
import socket
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from .._failures import ConnectionEnded
from .._trust import check_peer

T = TypeVar("T")

Lock = threading.Lock

#: What ends a wait from outside.
INTERRUPTS: tuple[type[BaseException], ...] = (KeyboardInterrupt,)

_PIECE = 256 * 1024


def pause(seconds: float) -> None:
    time.sleep(seconds)


def in_thread(work: Callable[[], T]) -> T:
    return work()


class Pipe:
    """A connection. One user at a time."""

    __slots__ = ("_readable", "_socket")

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._readable = select.poll()
        self._readable.register(connected, select.POLLIN)

    @staticmethod
    def unix(path: Path) -> Pipe:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(str(path))
            check_peer(connection, path)
        except BaseException:
            connection.close()
            raise
        return Pipe(connection)

    @staticmethod
    def tcp(host: str, port: int, tls: ssl.SSLContext | None, timeout_s: float) -> Pipe:
        connection = socket.create_connection((host, port), timeout_s)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is not None:
                connection = tls.wrap_socket(connection, server_hostname=host)
            connection.settimeout(None)
        except BaseException:
            connection.close()
            raise
        return Pipe(connection)

    def send(self, data: bytes) -> None:
        """After a failure the other end has not had it all."""
        try:
            self._socket.sendall(data)
        except OSError:
            raise ConnectionEnded(unread=True) from None

    def receive(self) -> bytes:
        """What came, at least one byte."""
        try:
            data = self._socket.recv(_PIECE)
        except ConnectionResetError:
            raise ConnectionEnded(unread=True) from None
        except OSError:
            raise ConnectionEnded(unread=False) from None
        if not data:
            raise ConnectionEnded(unread=False)
        return data

    def is_fresh(self) -> bool:
        """Whether nothing came while it lay idle, not even its end."""
        return not self._readable.poll(0)

    def close(self) -> None:
        self._socket.close()

    def __del__(self) -> None:
        """A client that nobody closes, such as the default one, leaves no socket to be warned about."""
        self._socket.close()
