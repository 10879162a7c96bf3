"""Starts a daemon when there is none.

Clients that race take turns by a lock that the kernel releases when its holder ends. The
one whose turn it is looks again before it starts anything, so there is one daemon however
many ask at once. The child's stdout says when it listens.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ._failures import NotStartedError
from ._locate import Start

#: A daemon listens within milliseconds; one that waits for another to end takes longer.
PATIENCE_S = 30.0


def ensure(start: Start, path: Path, environ: dict[str, str]) -> str | None:
    """Starts a daemon unless one listens. None, or why it was refused.

    One call for all of it: who waits for a turn must not keep the one who has it from a thread.
    """
    with _turn(start):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            try:
                probe.connect(str(path))
                return None
            except OSError:
                pass
        return _launch(start, environ)


@contextmanager
def _turn(start: Start) -> Generator[None]:
    try:
        start.lock.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # In a directory of another user the file could be anything.
        if start.lock.parent.stat().st_uid != os.geteuid():
            raise PermissionError("the directory belongs to another user")
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(start.lock, flags, 0o600)
    except OSError as error:
        raise NotStartedError(
            f"{start.lock}: {error}", help="choose a directory of your own with TRL_HOME"
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _launch(start: Start, environ: dict[str, str]) -> str | None:
    """None once it listens; else why it refuses, which may be that another one does."""
    try:
        child = subprocess.Popen(
            [start.program, *start.args],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environ,
            start_new_session=True,
        )
    except OSError as error:
        raise NotStartedError(f"{start.program}: {error}") from error
    assert child.stdout is not None
    with child.stdout as stdout:
        line = _first_line(stdout.fileno())
    if line is None:
        raise NotStartedError(f"it said nothing for {PATIENCE_S:.0f} s", help=_see(start.log))
    try:
        said: Any = json.loads(line)
        if "listening" in said:
            _leave(child)
            return None
        refused = said["refused"]
        child.wait()
        return str(refused["message"])
    except (ValueError, KeyError, TypeError):
        status = child.wait()
        raise NotStartedError(f"it ended at once (status {status})", help=_see(start.log)) from None


def _leave(child: subprocess.Popen[bytes]) -> None:
    """The daemon outlives this program: Python is not to warn about it, nor to wait for it.

    Setting a status is how `subprocess` itself marks a child that it no longer watches.
    """
    child.poll()
    if child.returncode is None:
        child.returncode = 0


def _first_line(descriptor: int) -> bytes | None:
    """None if nothing came in time."""
    line = b""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    deadline = time.monotonic() + PATIENCE_S
    while not line.endswith(b"\n"):
        if not poll.poll(max(deadline - time.monotonic(), 0) * 1000):
            return None
        piece = os.read(descriptor, 4096)
        if not piece:
            break
        line += piece
    return line


def _see(log: Path) -> str:
    return f"{log} may say more"
