"""A daemon of each test's own, in a directory of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

from terminal_runtime import AsyncClient, Client

ROOT = Path(__file__).resolve().parents[3]
TRL = os.environ.get("TRL_PROGRAM") or str(ROOT / "target/debug/trl")
TOKEN = "a-token-for-tests"
#: Longer than anything takes that works.
GUARD_S = 30.0


class Home:
    """Where one test's daemon lives. It is started by whoever asks first."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="trl-py-"))
        kept = ("PATH", "LANG", "HOME", "USER", "SHELL")
        self.environ = {name: os.environ[name] for name in kept if name in os.environ}
        self.environ.update(TRL_HOME=str(self.path / "home"), TRL_EXIT_IDLE_SEC="60")
        self.work = self.path / "work"
        self.work.mkdir()
        self.killed: list[int] = []

    def client(self, **options: Any) -> Client:
        return Client(program=TRL, environ=self.environ, **options)

    def async_client(self, **options: Any) -> AsyncClient:
        return AsyncClient(program=TRL, environ=self.environ, **options)

    def pid(self) -> int:
        """The daemon's, asked over a connection of its own. There is one afterwards."""
        client = self.client()
        try:
            return client.system_info().pid
        finally:
            client.close()

    def kill(self, pid: int | None = None) -> int:
        """Ends the daemon as a crash would, and waits until it is gone."""
        pid = self.pid() if pid is None else pid
        os.kill(pid, signal.SIGKILL)
        wait_until("the daemon is gone", lambda: not runs(pid))
        self.killed.append(pid)
        return pid

    def end(self) -> None:
        client = self.client()
        pid = client.system_shutdown().pid
        client.close()
        wait_until("the daemon is gone", lambda: not runs(pid))
        shutil.rmtree(self.path)


class Served:
    """A daemon with HTTP, started and ended by the test itself."""

    def __init__(self, home: Home) -> None:
        self._home = home
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._child = subprocess.Popen(
            [TRL, "serve", "--http", f"127.0.0.1:{self.port}"],
            env={**self._home.environ, "TRL_AUTH_TOKEN": TOKEN},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until("the daemon listens", lambda: listens(self.port))

    def kill(self) -> None:
        assert self._child is not None
        self._child.kill()
        self._child.wait()


class DaemonTest(unittest.TestCase):
    """A test with a daemon, a client, and a directory to work in."""

    def setUp(self) -> None:
        self.home = Home()
        self.addCleanup(self.home.end)
        self.client = self.home.client()
        self.addCleanup(self.client.close)

    def lines(self, name: str) -> list[str]:
        """Of a file in the directory of the test."""
        with contextlib.suppress(FileNotFoundError):
            return (self.home.work / name).read_text().splitlines()
        return []


def runs(pid: int) -> bool:
    """Whether the process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_until(what: str, holds: Callable[[], bool]) -> None:
    """For what has no event that a test could wait for: another process's end."""
    deadline = time.monotonic() + GUARD_S
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {GUARD_S:.0f} s: {what}")
        time.sleep(0.005)
