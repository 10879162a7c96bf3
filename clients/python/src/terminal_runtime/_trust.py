"""Whose daemon it is. Asked before anything is sent: a request may carry a whole environment."""

from __future__ import annotations

import os
import socket
import stat
import struct
import sys
from pathlib import Path

from ._failures import UntrustedSocketError

_HELP = "choose a directory of your own with TRL_HOME, or name the socket"


def check_directories(path: Path) -> None:
    """No directory that leads to the socket may let somebody else replace what is below it."""
    for directory in Path(os.path.realpath(path.parent)).parents:
        _check(directory)
    _check(Path(os.path.realpath(path.parent)))


def _check(directory: Path) -> None:
    try:
        found = directory.stat()
    except FileNotFoundError:
        return
    if found.st_uid not in (os.geteuid(), 0):
        raise UntrustedSocketError(f"{directory} belongs to another user (uid {found.st_uid})", help=_HELP)
    if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
        raise UntrustedSocketError(f"everybody may write to {directory}", help=_HELP)


def check_peer(connection: socket.socket, path: Path) -> None:
    """Whoever listens must be this user, or root."""
    uid = _peer_uid(connection)
    if uid is not None and uid not in (os.geteuid(), 0):
        raise UntrustedSocketError(f"the daemon at {path} runs as another user (uid {uid})", help=_HELP)


def _peer_uid(connection: socket.socket) -> int | None:
    if sys.platform == "linux":
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return struct.unpack("3i", credentials)[1]
    if sys.platform == "darwin":
        # SOL_LOCAL, LOCAL_PEERCRED: a version, then the uid.
        credentials = connection.getsockopt(0, 1, 76)
        return struct.unpack("2I", credentials[:8])[1]
    return None
