"""What the client adds to a request: a no-op through it, and over the raw socket.

    python3 benchmarks/noop.py [--check]

Both take turns in one run, so what the machine does meanwhile hits both. The figure is
the ratio of their medians. `--check` fails above 1.5.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable

from terminal_runtime import AsyncClient, AsyncSession, Client, Session

LIMIT = 1.5
ROUNDS = 20
#: Few enough that what a session keeps of earlier commands plays no part.
PER_ROUND = 10


class Raw:
    """The least that a program can do: a line out, a line in."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        self._file = self._socket.makefile("rb")

    def call(self, method: str, params: dict[str, object]) -> object:
        line = json.dumps({"id": 1, "method": method, "params": params}) + "\n"
        self._socket.sendall(line.encode())
        return json.loads(self._file.readline())["data"]

    def close(self) -> None:
        self._file.close()
        self._socket.close()


class RawAsync:
    """The same with asyncio's streams."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def call(self, method: str, params: dict[str, object]) -> object:
        line = json.dumps({"id": 1, "method": method, "params": params}) + "\n"
        self._writer.write(line.encode())
        await self._writer.drain()
        return json.loads(await self._reader.readline())["data"]

    def close(self) -> None:
        self._writer.close()


def ratio(what: str, ours: Callable[[], object], raw: Callable[[], object]) -> float:
    times: dict[bool, list[float]] = {True: [], False: []}
    for round_number in range(ROUNDS):
        for mine in (True, False) if round_number % 2 else (False, True):
            call = ours if mine else raw
            for _ in range(PER_ROUND):
                began = time.perf_counter()
                call()
                times[mine].append(time.perf_counter() - began)
    return told(what, times)


async def ratio_async(
    what: str, ours: Callable[[], Awaitable[object]], raw: Callable[[], Awaitable[object]]
) -> float:
    times: dict[bool, list[float]] = {True: [], False: []}
    for round_number in range(ROUNDS):
        for mine in (True, False) if round_number % 2 else (False, True):
            call = ours if mine else raw
            for _ in range(PER_ROUND):
                began = time.perf_counter()
                await call()
                times[mine].append(time.perf_counter() - began)
    return told(what, times)


def told(what: str, times: dict[bool, list[float]]) -> float:
    ours, raw = statistics.median(times[True]), statistics.median(times[False])
    print(f"{what:24} client {ours * 1e6:7.0f} µs   raw {raw * 1e6:7.0f} µs   ratio {ours / raw:.2f}")
    return ours / raw


def main() -> int:
    home = tempfile.mkdtemp(prefix="trl-bench-")
    environ = {**os.environ, "TRL_HOME": home, "TRL_EXIT_IDLE_SEC": "60"}
    program = os.environ.get("TRL_PROGRAM")
    client = Client(program=program, environ=environ)
    ratios: list[float] = []
    path = os.path.join(home, "run", "trl.sock")
    try:
        with Session(client=client, shell="bash") as session:
            params: dict[str, object] = {"session_id": session.id, "command": ":"}
            raw = Raw(path)
            ratios.append(ratio("system.ping", client.system_ping, lambda: raw.call("system.ping", {})))
            ratios.append(
                ratio("exec.run ':'", lambda: session.run(":"), lambda: raw.call("exec.run", params))
            )
            raw.close()

            async def with_asyncio() -> None:
                other = AsyncClient(program=program, environ=environ)
                raw = RawAsync(*await asyncio.open_unix_connection(path))
                same = AsyncSession.existing(session.id, client=other)
                ping = lambda: raw.call("system.ping", {})  # noqa: E731
                ratios.append(await ratio_async("system.ping, asyncio", other.system_ping, ping))
                run = lambda: raw.call("exec.run", params)  # noqa: E731
                ratios.append(await ratio_async("exec.run ':', asyncio", lambda: same.run(":"), run))
                raw.close()
                await other.aclose()

            asyncio.run(with_asyncio())
    finally:
        client.system_shutdown()
        client.close()
        shutil.rmtree(home, ignore_errors=True)
    worst = max(ratios)
    print(f"worst ratio {worst:.2f}, limit {LIMIT}")
    return 1 if "--check" in sys.argv[1:] and worst > LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())
