"""The daemon is killed with -9 while commands run; the client must not notice more than it has to."""

from __future__ import annotations

import asyncio
import os
import random
import threading
import unittest
from collections.abc import Callable

from terminal_runtime import Agent, AsyncSession, Output, Session

from .daemon import GUARD_S, TOKEN, DaemonTest, Home, Served, wait_until


class Killer(threading.Thread):
    """Kills the daemon once a condition holds."""

    def __init__(self, home: Home, when: str, holds: Callable[[], bool]) -> None:
        super().__init__()
        self._home, self._when, self._holds = home, when, holds

    def run(self) -> None:
        wait_until(self._when, self._holds)
        self._home.kill()


class Killed(DaemonTest):
    def test_a_run_is_answered_and_runs_once(self) -> None:
        with Session(client=self.client, shell="bash", working_dir=str(self.home.work)) as session:
            session.run("x=kept")
            for number in range(3):
                killer = Killer(self.home, "it runs", lambda n=number: f"{n}" in self.lines("log"))
                killer.start()
                result = session.run(f"echo {number} >> log; sleep 0.3; echo $x {number}", timeout_s=GUARD_S)
                killer.join()
                self.assertEqual((result.stdout, result.exit_code), (f"kept {number}\n", 0))
            self.assertEqual(self.lines("log"), ["0", "1", "2"])
        self.assertEqual(len(set(self.home.killed)), 3)

    def test_never_twice_and_never_gone_whenever_it_dies(self) -> None:
        dice = random.Random(17)
        with Session(client=self.client, shell="bash", working_dir=str(self.home.work)) as session:
            session.run("true")
            for number in range(12):
                pid = self.client.system_info().pid
                timer = threading.Timer(dice.random() * 0.003, self.home.kill, (pid,))
                timer.start()
                result = session.run(f"echo {number} >> log; echo {number}", wait_s=20)
                timer.join()
                self.assertEqual(result.stdout, f"{number}\n")
            self.assertEqual(self.lines("log"), [str(number) for number in range(12)])

    def test_a_stream_goes_on_without_gap_or_repeat(self) -> None:
        with Session(client=self.client, shell="bash") as session:
            stream = session.stream(
                "for i in $(seq 1 4000); do echo line $i; echo e$i >&2; done", timeout_s=60
            )
            heard = {"stdout": bytearray(), "stderr": bytearray()}
            kills = [5_000, 15_000, 25_000]
            for event in stream:
                if isinstance(event, Output):
                    self.assertEqual(event.offset, len(heard[event.stream]))
                    heard[event.stream] += event.data
                    if kills and len(heard["stdout"]) > kills[0]:
                        kills.pop(0)
                        self.home.kill()
            self.assertEqual(kills, [])
            self.assertEqual(heard["stdout"].decode(), "".join(f"line {i}\n" for i in range(1, 4001)))
            self.assertEqual(heard["stderr"].decode(), "".join(f"e{i}\n" for i in range(1, 4001)))
            self.assertEqual(stream.result.exit_code, 0)

    def test_waits_go_on(self) -> None:
        with Session(client=self.client, shell="bash", working_dir=str(self.home.work)) as session:
            command = session.background("while [ ! -e go ]; do sleep 0.02; done; echo ready; sleep 0.2")

            def kill_and_go() -> None:
                self.home.kill()
                (self.home.work / "go").touch()

            for wait in (
                lambda: command.wait_for_log("ready", timeout_s=GUARD_S).text,
                lambda: command.wait(GUARD_S).exit_code,
            ):
                timer = threading.Timer(0.1, kill_and_go)
                timer.start()
                self.assertIn(wait(), ("ready", 0))
                timer.join()

    def test_input_is_given_once(self) -> None:
        with Session(client=self.client, shell="bash") as session:
            command = session.start("cat", stdin_open=True)
            for number in range(6):
                if number % 2:
                    self.home.kill()
                command.send(f"{number}\n")
            command.send_eof()
            command.wait(GUARD_S)
            self.assertEqual(command.output(), "".join(f"{number}\n" for number in range(6)))

    def test_files_are_written_whole(self) -> None:
        content = os.urandom(5_000_000)
        with Session(client=self.client, shell="bash", working_dir=str(self.home.work)) as session:
            session.run("true")
            file = self.home.work / "file"
            killer = Killer(self.home, "it is begun", file.exists)
            killer.start()
            session.files.write("file", content)
            killer.join()
            self.assertEqual(session.files.read_bytes("file"), content)

    def test_changes_go_on(self) -> None:
        changes = self.client.events_subscribe(topics=["session"])
        next(changes)
        with Session("one", client=self.client, keep=True) as session:
            self.assertEqual(getattr(next(changes), "name", None), "one")
            self.home.kill()
            session.destroy()
            for change in changes:
                if getattr(change, "change", None) == "ended":
                    break
        changes.close()

    def test_a_client_that_may_not_start_one_waits_for_it(self) -> None:
        patient = self.home.client(start=False)
        hurried = self.home.client(start=False, reconnect_s=0)
        with Session(client=self.client, shell="bash", working_dir=str(self.home.work)) as session:
            session.run("true")
            mine = Session.existing(session.id, client=patient)
            killer = Killer(self.home, "it runs", lambda: bool(self.lines("log")))
            killer.start()
            starter = threading.Thread(target=lambda: (killer.join(), self.home.client().system_ping()))
            starter.start()
            self.assertEqual(mine.run("echo ran >> log; sleep 0.3; echo done").stdout, "done\n")
            starter.join()
            hurried.system_ping()
            self.home.kill()
            with self.assertRaises(Exception) as raised:
                hurried.system_ping()
            self.assertIn(type(raised.exception).__name__, ("NoDaemonError", "LostError"))
            self.client.system_ping()


class KilledAsync(DaemonTest):
    def test_many_sessions_at_once(self) -> None:
        asyncio.run(asyncio.wait_for(self.swarm(), 120))

    async def swarm(self) -> None:
        client = self.home.async_client()

        async def work(number: int) -> list[str]:
            async with AsyncSession(client=client, shell="bash", working_dir=str(self.home.work)) as session:
                outputs: list[str] = []
                for turn in range(3):
                    script = f"echo {number}.{turn} >> log; sleep 0.1; echo {number}.{turn}"
                    outputs.append((await session.run(script, timeout_s=60)).stdout)
                return outputs

        work_items = [asyncio.create_task(work(number)) for number in range(8)]

        def some(count: int) -> bool:
            # Nobody knows whether a session was made whose answer is lost, so all are there first.
            lines = self.lines("log")
            return len(lines) >= count and len({line.split(".")[0] for line in lines}) == 8

        for count in (9, 17):
            await asyncio.to_thread(wait_until, "some run", lambda n=count: some(n))
            await asyncio.to_thread(self.home.kill)
        outputs = await asyncio.gather(*work_items)
        expected = [[f"{number}.{turn}\n" for turn in range(3)] for number in range(8)]
        self.assertEqual(outputs, expected)
        self.assertEqual(sorted(self.lines("log")), sorted(line.strip() for row in expected for line in row))
        await client.aclose()

    def test_a_stream_goes_on(self) -> None:
        asyncio.run(asyncio.wait_for(self.stream(), 60))

    async def stream(self) -> None:
        client = self.home.async_client()
        async with AsyncSession(client=client, shell="bash") as session:
            stream = session.stream("for i in $(seq 1 4000); do echo line $i; done", timeout_s=60)
            heard = b""
            killed = False
            async for output in stream.output():
                heard += output.data
                if len(heard) > 8_000 and not killed:
                    killed = True
                    await asyncio.to_thread(self.home.kill)
            self.assertEqual(heard.decode(), "".join(f"line {i}\n" for i in range(1, 4001)))
        await client.aclose()

    def test_a_cancelled_task_cancels_its_command(self) -> None:
        asyncio.run(asyncio.wait_for(self.cancelled(), 60))

    async def cancelled(self) -> None:
        client = self.home.async_client()
        async with AsyncSession(client=client, shell="bash", working_dir=str(self.home.work)) as session:
            task = asyncio.create_task(session.run("x=kept; echo ran >> log; sleep 60; echo on >> log"))
            await asyncio.to_thread(wait_until, "it runs", lambda: self.lines("log") == ["ran"])
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.assertTrue((await session.history())[0].cancelled)
            self.assertEqual((await session.run("echo $x")).stdout, "kept\n")
            self.assertEqual(self.lines("log"), ["ran"])
        await client.aclose()


class Http(unittest.TestCase):
    def setUp(self) -> None:
        self.home = Home()
        self.addCleanup(self.home.end)
        self.served = Served(self.home)
        self.served.start()
        self.addCleanup(self.served.kill)

    def test_everything_over_http(self) -> None:
        client = self.home.client(url=self.served.url, token=TOKEN)
        with Session(client=client, shell="bash") as session:
            self.assertEqual(session.run("x=5; echo $((x+1))").stdout, "6\n")
            self.assertEqual(list(session.stream("echo a; sleep 0.05; echo b").lines()), ["a", "b"])
            command = session.background("echo ready; sleep 60")
            self.assertEqual(command.wait_for_log("ready", timeout_s=GUARD_S).text, "ready")
            self.assertTrue(command.cancel())
        client.close()

    def test_a_wrong_token_is_refused(self) -> None:
        client = self.home.client(url=self.served.url, token="wrong")
        with self.assertRaises(Exception) as raised:
            client.system_ping()
        self.assertEqual(getattr(raised.exception, "code", None), "AUTH_FAILED")

    def test_a_killed_daemon_comes_back(self) -> None:
        client = self.home.client(url=self.served.url, token=TOKEN)
        work = self.home.work
        with Session(client=client, shell="bash", working_dir=str(work)) as session:
            session.run("true")

            def replace() -> None:
                wait_until("it runs", lambda: (work / "log").exists())
                self.served.kill()
                self.served.start()

            replacing = threading.Thread(target=replace)
            replacing.start()
            result = session.run("echo ran >> log; sleep 0.3; echo done", timeout_s=GUARD_S)
            replacing.join()
            self.assertEqual((result.stdout, (work / "log").read_text()), ("done\n", "ran\n"))
            (work / "log").unlink()
            replacing = threading.Thread(target=replace)
            replacing.start()
            script = "touch log; for i in $(seq 1 400); do echo line $i; sleep 0.002; done"
            heard = b"".join(output.data for output in session.stream(script, timeout_s=60).output())
            replacing.join()
            self.assertEqual(heard.decode(), "".join(f"line {i}\n" for i in range(1, 401)))
        client.close()

    def test_another_agent_is_let_in_and_shut_out(self) -> None:
        client = self.home.client()
        self.addCleanup(client.close)
        with Agent("ada", client=client) as ada, Agent("bob", client=client) as bob:
            granted = bob.grant("ada", profile="none", max_sessions=1, expires_s=600)
            self.assertEqual((granted.agent, granted.granted_by), ("ada", "bob"))

            def given() -> list[str]:
                return [row.name for row in client.system_runtimes().runtimes if row.granted_by is not None]

            wait_until("the grant arrives by mail", lambda: given() != [])
            (row,) = bob.grants()
            self.assertEqual((row.state, row.max_sessions, ada.grants()), ("active", 1, []))
            self.assertEqual(bob.revoke(granted).agent, "ada")
            wait_until("the runtime is gone", lambda: given() == [])
            self.assertEqual([row.state for row in bob.grants()], ["revoked"])

    def test_asyncio_over_http(self) -> None:
        async def work() -> list[str]:
            client = self.home.async_client(url=self.served.url, token=TOKEN)
            async with AsyncSession(client=client, shell="bash") as session:
                lines = [(await session.run("echo one")).stdout]
                async for line in session.stream("echo two; echo three").lines():
                    lines.append(line)
            await client.aclose()
            return lines

        self.assertEqual(asyncio.run(work()), ["one\n", "two", "three"])


if __name__ == "__main__":
    unittest.main()
