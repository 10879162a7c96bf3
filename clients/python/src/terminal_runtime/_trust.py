"""Whose daemon it is. Asked before anything is sent: a request may carry a whole environment.

The rules are those of `trl` itself: only this user and root are trusted. In a directory that
others can write to, anybody could replace the socket by one of their own; the sticky bit
prevents that, as in /tmp.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
import sys
from pathlib import Path

from ._failures import UntrustedSocketError

_HELP = "choose a directory of your own with XDG_RUNTIME_DIR or TRL_HOME"
#: As many as the kernel follows.
_MAX_LINKS = 40


def check_path(path: Path) -> None:
    """Fails if anybody else could have chosen what is at the path, or could replace it.

    Every directory on the way counts, and every link. What does not exist yet is no reason to fail.
    """
    at = "/"
    _check_entry(at, os.lstat(at))
    ahead = _parts(os.path.abspath(path))
    links = 0
    while ahead:
        name = ahead.pop()
        if name == "..":
            at = os.path.dirname(at)
            continue
        following = os.path.join(at, name)
        try:
            found = os.lstat(following)
        except FileNotFoundError:
            return
        _check_entry(following, found)
        if not stat.S_ISLNK(found.st_mode):
            at = following
            continue
        links += 1
        if links > _MAX_LINKS:
            raise UntrustedSocketError(f"{path}: too many symbolic links")
        target = os.readlink(following)
        at = "/" if target.startswith("/") else at
        ahead += _parts(target)


def _parts(path: str) -> list[str]:
    """The parts of a path, the first one last."""
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]


def _check_entry(path: str, found: os.stat_result) -> None:
    is_directory = stat.S_ISDIR(found.st_mode)
    if found.st_uid not in (os.geteuid(), 0) and not (is_directory and _is_unmapped(found.st_uid)):
        raise UntrustedSocketError(f"{path} belongs to another user (uid {found.st_uid})", help=_HELP)
    if is_directory and found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX:
        mode = stat.S_IMODE(found.st_mode)
        help = f"`chmod go-w {path}` closes it; or {_HELP}"
        raise UntrustedSocketError(f"{path} can be written by other users (mode {mode:04o})", help=help)


def _is_unmapped(uid: int) -> bool:
    """In a user namespace, directories of users outside of it have a number that nobody is."""
    try:
        with open("/proc/self/uid_map") as lines:
            mapped = [[int(word) for word in line.split()] for line in lines]
        with open("/proc/sys/kernel/overflowuid") as overflow:
            is_overflow = uid == int(overflow.read())
    except (OSError, ValueError):
        return False
    return is_overflow and bool(mapped) and not any(uid in range(first, first + n) for first, _, n in mapped)


def check_peer(connection: socket.socket, path: Path) -> None:
    """Whoever listens must be this user, or root."""
    uid = _peer_uid(connection)
    if uid is not None and uid not in (os.geteuid(), 0):
        raise UntrustedSocketError(f"the daemon at {path} runs as another user (uid {uid})", help=_HELP)


def check_home(path: Path, ours: Path) -> None:
    """Without a runtime directory of its own, every process of a user finds the same socket.

    A daemon that was started for another home has left a mark beside it.
    """
    try:
        theirs = os.fsdecode((path.parent / "state-dir").read_bytes())
    except OSError:
        return
    if os.path.realpath(theirs) != os.path.realpath(ours):
        raise UntrustedSocketError(
            f"the daemon at {path} was started for another home: its state is in {theirs}, not in {ours}",
            help=f"{_HELP}, or name the socket to use that daemon",
        )


def _peer_uid(connection: socket.socket) -> int | None:
    if sys.platform == "linux":
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return struct.unpack("3i", credentials)[1]
    if sys.platform == "darwin":
        # SOL_LOCAL, LOCAL_PEERCRED: a version, then the uid.
        credentials = connection.getsockopt(0, 1, 76)
        return struct.unpack("2I", credentials[:8])[1]
    return None
