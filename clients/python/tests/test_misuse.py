"""What programs do that nobody advises: sharing, interrupting, leaving things open, losing the daemon."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import unittest
from typing import Any

from terminal_runtime import AsyncSession, Session, errors

from .daemon import GUARD_S, ROOT, TRL, DaemonTest, Home, wait_until


class Shared(DaemonTest):
    def test_callers_that_share_a_session_make_one(self) -> None:
        session = Session(client=self.client, shell="bash")
        callers = [
            threading.Thread(target=session.run, args=("true",), kwargs={"wait_s": 20}) for _ in range(4)
        ]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        self.assertEqual(len(self.client.session_list().sessions), 1)

    def test_a_stream_has_one_reader(self) -> None:
        with Session(client=self.client, shell="bash") as session:
            stream = session.stream("echo begun; sleep 0.2; echo done")
            next(stream)
            refused: list[BaseException] = []

            def read() -> None:
                try:
                    stream.finish()
                except RuntimeError as error:
                    refused.append(error)

            readers = [threading.Thread(target=read) for _ in range(2)]
            for reader in readers:
                reader.start()
            for reader in readers:
                reader.join(GUARD_S)
            self.assertEqual((len(refused), stream.result.exit_code), (1, 0))

    def test_tasks_that_share_a_session_make_one(self) -> None:
        async def share() -> list[str]:
            async with self.home.async_client() as client:
                session = AsyncSession(client=client, shell="bash")
                results = await asyncio.gather(*(session.run(f"echo {n}", wait_s=20) for n in range(4)))
                self.assertEqual(len((await client.session_list()).sessions), 1)
                return sorted(result.stdout for result in results)

        self.assertEqual(asyncio.run(share()), ["0\n", "1\n", "2\n", "3\n"])


class Interrupted(DaemonTest):
    def commands(self, session: str) -> int:
        return len(self.client.exec_list(session_id=session).execs)

    def test_what_waits_for_its_turn_never_runs(self) -> None:
        """Also what a stream was asked for of which nothing has come yet."""

        async def interrupt(streamed: bool) -> None:
            async with (
                self.home.async_client() as client,
                AsyncSession(client=client, shell="bash") as session,
            ):
                first = await session.start("sleep 60")
                queued = f"echo ran >> {self.home.work}/log"
                work: Any = session.stream(queued, wait_s=GUARD_S).finish()
                if not streamed:
                    work.close()
                    work = session.run(queued, wait_s=GUARD_S)
                task = asyncio.ensure_future(work)
                await asyncio.to_thread(wait_until, "it waits", lambda: self.commands(session.id) == 2)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                await first.cancel()
                self.assertEqual((await session.run("echo free", wait_s=GUARD_S)).stdout, "free\n")

        asyncio.run(interrupt(streamed=True))
        asyncio.run(interrupt(streamed=False))
        self.assertEqual(self.lines("log"), [])

    def test_ctrl_c_frees_a_session_that_streams(self) -> None:
        # A shell that starts tests in the background has them ignore Ctrl-C.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        with Session(client=self.client, shell="bash", working_dir=str(self.home.work)) as session:

            def press() -> None:
                wait_until("it runs", lambda: self.lines("log") == ["begun"])
                os.kill(os.getpid(), signal.SIGINT)

            presser = threading.Thread(target=press)
            presser.start()
            with self.assertRaises(KeyboardInterrupt):
                session.stream("echo begun >> log; sleep 60; echo on >> log").finish()
            presser.join()
            # At once: the command has ended.
            self.assertEqual(session.run("echo free").stdout, "free\n")
        self.assertEqual(self.lines("log"), ["begun"])


class WithoutDaemon(unittest.TestCase):
    def test_a_cancelled_task_is_cancelled_though_nobody_is_left_to_tell(self) -> None:
        home = Home()
        self.addCleanup(home.end)
        pid = home.pid()

        async def lose() -> None:
            async with home.async_client(start=False) as client:
                session = AsyncSession(client=client, shell="bash", working_dir=str(home.work))
                task = asyncio.ensure_future(session.run("touch begun; sleep 60"))
                await asyncio.to_thread(wait_until, "it runs", (home.work / "begun").exists)
                await asyncio.to_thread(home.kill, pid)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task

        asyncio.run(lose())

    def test_a_wrong_socket_is_said(self) -> None:
        home = Home()
        self.addCleanup(home.end)
        client = home.client(socket=home.path / "nothing.sock", start=False)
        with self.assertRaisesRegex(errors.NoDaemonError, r"nothing\.sock"):
            client.system_ping()


class LeftOpen(unittest.TestCase):
    def test_nothing_is_said_about_a_client_that_outlives_its_loops(self) -> None:
        home = Home()
        self.addCleanup(home.end)
        program = """
import asyncio, gc
from terminal_runtime import AsyncSession, Session

async def main():
    # On a busy machine a step may take longer than -X dev likes.
    asyncio.get_running_loop().slow_callback_duration = 60
    async with AsyncSession(shell="bash") as session:
        async for line in session.stream("echo once; sleep 0.1").lines():
            print(line)

asyncio.run(main())
asyncio.run(main())
gc.collect()
with Session(shell="bash") as session:
    print(session.run("echo blocking"))
"""
        environ = {**home.environ, "PYTHONPATH": str(ROOT / "clients/python/src")}
        environ["TRL_HOME"] = str(home.path / "home")
        # The client finds `trl` on PATH.
        os.symlink(TRL, home.work / "trl")
        environ["PATH"] = f"{home.work}:{environ['PATH']}"
        ran = subprocess.run(
            [sys.executable, "-X", "dev", "-W", "error", "-c", program],
            env=environ,
            capture_output=True,
            text=True,
            timeout=GUARD_S,
        )
        self.assertEqual((ran.stdout, ran.stderr, ran.returncode), ("once\nonce\nblocking\n\n", "", 0))


class Large(DaemonTest):
    def test_files_that_no_request_could_hold(self) -> None:
        with Session(client=self.client, shell="bash", working_dir=str(self.home.work)) as session:
            data = os.urandom(1 << 20) * 5
            self.assertEqual(session.files.write("large", data, mode=0o600), len(data))
            self.assertEqual(session.files.read_bytes("large"), data)
            self.assertEqual(session.files.stat("large").mode, "0600")
            self.assertEqual(session.files.write("large", data[:5_000_000], append=True), 5_000_000)
            self.assertEqual((self.home.work / "large").stat().st_size, len(data) + 5_000_000)
            self.assertEqual(session.files.write("large", "short"), 5)
            self.assertEqual(session.files.write("empty", ""), 0)
            self.assertEqual((session.files.read("large"), session.files.read("empty")), ("short", ""))


if __name__ == "__main__":
    unittest.main()
