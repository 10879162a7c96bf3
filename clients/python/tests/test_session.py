"""Sessions, commands, terminals and mail, with a daemon."""

from __future__ import annotations

import os
import signal
import threading
import time
import unittest

from terminal_runtime import (
    Agent,
    Client,
    Command,
    DaemonError,
    Output,
    Session,
    StartedEvent,
    WaitingEvent,
    protocol,
)
from terminal_runtime.errors import (
    CommandFailedError,
    InvalidParamsError,
    NoDaemonError,
    NotStartedError,
    SessionBusyError,
    SessionNotFoundError,
    SessionTerminatedError,
    WaitTimeoutError,
)

from .daemon import GUARD_S, DaemonTest, wait_until


class Running(DaemonTest):
    def test_state_carries_over_and_the_session_ends_with_the_block(self) -> None:
        with Session(client=self.client, shell="bash", working_dir=str(self.home.work)) as session:
            session.run("cd /usr; x=42")
            result = session.run("echo $x; pwd; echo no >&2; exit_code=3; (exit 3)")
            self.assertEqual((result.stdout, result.stderr, result.exit_code), ("42\n/usr\n", "no\n", 3))
            self.assertFalse(result.ok)
            id = session.id
            self.assertEqual(session.info().session_id, id)
        with self.assertRaises((SessionTerminatedError, SessionNotFoundError)):
            self.client.session_info(session_id=id)

    def test_a_session_is_found_by_name(self) -> None:
        with Session("builds", client=self.client, env={"GREETING": "hello"}) as session:
            again = Session.existing("builds", client=self.client)
            self.assertEqual(again.run("echo $GREETING").stdout, "hello\n")
            self.assertEqual([info.name for info in self.client.session_list().sessions], ["builds"])
            self.assertEqual(session.history()[0].command, "echo $GREETING")

    def test_options_of_a_command(self) -> None:
        with Session(client=self.client, shell="bash") as session:
            result = session.run(
                "cat; echo $A; pwd", stdin="typed\n", env={"A": "b"}, working_dir="/usr", timeout_s=20
            )
            self.assertEqual(result.stdout, "typed\nb\n/usr\n")
            late = session.run("echo begun; sleep 60", timeout_s=0.2)
            self.assertEqual((late.timed_out, late.stdout, late.ok), (True, "begun\n", False))

    def test_check(self) -> None:
        with Session(client=self.client) as session:
            self.assertEqual(session.run("echo fine", check=True).stdout, "fine\n")
            with self.assertRaises(CommandFailedError) as raised:
                session.run("echo why >&2; false", check=True)
            self.assertEqual(raised.exception.code, "COMMAND_FAILED")
            self.assertEqual(
                (raised.exception.result.stderr, raised.exception.result.exit_code), ("why\n", 1)
            )

    def test_errors_have_code_and_details(self) -> None:
        with self.assertRaises(InvalidParamsError) as raised:
            self.client.call("exec.run", {"session_id": "x", "comand": "true"})
        self.assertEqual(raised.exception.code, "INVALID_PARAMS")
        self.assertIn("comand", str(raised.exception))
        self.assertIsNotNone(raised.exception.details)
        with Session(client=self.client) as session:
            session.start("sleep 60")
            self.assertRaises(SessionBusyError, session.run, "true")
            self.assertTrue(session.cancel())
            self.assertEqual(session.run("echo free", wait_s=20).stdout, "free\n")

    def test_a_program_that_cannot_be_started_is_said(self) -> None:
        client = Client(program="/nowhere/trl", environ={"TRL_HOME": str(self.home.path / "other")})
        self.assertRaises(NotStartedError, client.system_ping)
        broken = Client(program="/bin/true", environ={"TRL_HOME": str(self.home.path / "other")})
        self.assertRaises(NotStartedError, broken.system_ping)
        nobody = Client(start=False, environ={"TRL_HOME": str(self.home.path / "other")})
        self.assertRaises(NoDaemonError, nobody.system_ping)

    def test_clients_that_race_start_one_daemon(self) -> None:
        pids: list[int] = []
        threads = [
            threading.Thread(target=lambda: pids.append(self.home.client().system_info().pid))
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(GUARD_S)
        self.assertEqual(len(pids), 8)
        self.assertEqual(len(set(pids)), 1)

    def test_threads_share_a_client(self) -> None:
        outputs: dict[int, str] = {}

        def work(number: int) -> None:
            with Session(client=self.client, shell="bash") as session:
                for _ in range(5):
                    outputs[number] = session.run(f"echo {number}").stdout

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(GUARD_S)
        self.assertEqual(outputs, {number: f"{number}\n" for number in range(6)})

    def test_ctrl_c_cancels_the_command_and_leaves_the_session(self) -> None:
        with Session(client=self.client, shell="bash", working_dir=str(self.home.work)) as session:
            session.run("x=kept")
            # A shell that starts tests in the background has them ignore Ctrl-C.
            before = signal.signal(signal.SIGINT, signal.default_int_handler)
            self.addCleanup(signal.signal, signal.SIGINT, before)

            def press() -> None:
                wait_until("it runs", lambda: self.lines("log") == ["ran"])
                os.kill(os.getpid(), signal.SIGINT)

            presser = threading.Thread(target=press)
            presser.start()
            with self.assertRaises(KeyboardInterrupt):
                session.run("echo ran >> log; sleep 60; echo on >> log")
            presser.join()
            self.assertEqual(session.run("echo $x").stdout, "kept\n")
            self.assertTrue(session.history()[1].cancelled)
            self.assertEqual(self.lines("log"), ["ran"])


class Streaming(DaemonTest):
    def test_events_come_as_they_happen(self) -> None:
        with Session(client=self.client, shell="bash", working_dir=str(self.home.work)) as session:
            stream = session.stream("echo one; while [ ! -e go ]; do sleep 0.02; done; echo two >&2; exit_=1")
            events = iter(stream)
            self.assertIsInstance(next(events), StartedEvent)
            first = next(events)
            assert isinstance(first, Output)
            self.assertEqual((first.stream, first.text), ("stdout", "one\n"))
            (self.home.work / "go").touch()
            rest = [event for event in events if isinstance(event, Output)]
            self.assertEqual([(event.stream, event.text) for event in rest], [("stderr", "two\n")])
            self.assertEqual(stream.result.exit_code, 0)

    def test_bytes_are_exact(self) -> None:
        with Session(client=self.client, shell="bash") as session:
            with session.stream("head -c 3000000 /dev/zero; printf '\\377\\376'") as stream:
                data = b"".join(output.data for output in stream.output())
            self.assertEqual((len(data), data[-2:]), (3_000_002, b"\xff\xfe"))
            command = stream.command
            assert command is not None
            self.assertEqual(command.output_bytes()[-3:], b"\0\xff\xfe")

    def test_lines_and_text(self) -> None:
        with Session(client=self.client, shell="bash") as session:
            script = "printf 'a\\nb'; sleep 0.05; printf 'c\\nd'; echo e >&2"
            self.assertEqual(list(session.stream(script).lines()), ["a", "bc", "d"])
            self.assertEqual(sorted("".join(session.stream(script).text())), sorted("a\nbc\nde\n"))

    def test_a_stream_that_is_left_early_ends_nothing(self) -> None:
        with Session(client=self.client, shell="bash", working_dir=str(self.home.work)) as session:
            with session.stream("echo begun; while [ ! -e go ]; do sleep 0.02; done; echo done") as stream:
                next(stream.output())
            (self.home.work / "go").touch()
            command = stream.command
            assert command is not None
            self.assertEqual(command.wait(GUARD_S).exit_code, 0)
            self.assertEqual(command.output(), "begun\ndone\n")
            self.assertEqual(list(command.stream(stdout_offset=6).text()), ["done\n"])

    def test_changes_are_told(self) -> None:
        changes = self.client.events_subscribe(topics=["session"])
        self.assertEqual(type(next(changes)).__name__, "SubscribedEvent")
        with Session("watched", client=self.client):
            created = next(changes)
            self.assertEqual(getattr(created, "change", None), "created")
            self.assertEqual(getattr(created, "name", None), "watched")
        changes.close()


class Background(DaemonTest):
    def test_a_server_is_waited_for_and_ended(self) -> None:
        with Session(client=self.client, shell="bash", working_dir=str(self.home.work)) as session:
            script = (
                "import http.server; s = http.server.HTTPServer(('127.0.0.1', 0), "
                "http.server.SimpleHTTPRequestHandler); print('port', s.server_port, flush=True); "
                "s.serve_forever()"
            )
            server = session.background(f'python3 -c "{script}"')
            match = server.wait_for_log(r"port \d+", regex=True, timeout_s=GUARD_S)
            port = int(match.text.split()[1])
            self.assertEqual(server.wait_for_port(port, http_path="/", timeout_s=GUARD_S).state, "running")
            self.assertEqual(session.run("echo the shell is free").stdout, "the shell is free\n")
            self.assertTrue(server.cancel())
            self.assertEqual(server.wait(GUARD_S).state, "finished")

    def test_waiting_ends_in_time_or_with_the_command(self) -> None:
        with Session(client=self.client) as session:
            command = session.background("sleep 60")
            self.assertRaises(WaitTimeoutError, command.wait, 0.1)
            self.assertRaises(WaitTimeoutError, command.wait_for_log, "never", timeout_s=0.1)
            command.cancel("KILL")
            with self.assertRaises(CommandFailedError):
                command.wait_for_log("never", timeout_s=GUARD_S)


class Terminals(DaemonTest):
    def test_a_conversation_with_a_program(self) -> None:
        with Session(client=self.client, shell="bash") as session:
            program = session.start(
                "python3 -q", tty=True, merge_stderr=True, env={"PYTHON_BASIC_REPL": "1", "TERM": "dumb"}
            )
            program.expect(">>> ", regex=False, timeout_s=GUARD_S)
            program.send_line("6 * 7")
            self.assertEqual(program.expect(r"^42\b", timeout_s=GUARD_S).text, "42")
            self.assertIn("6 * 7", program.screen())
            self.assertIn("42", str(session.screen()))
            # Between two prompts the terminal takes the key for an end of file that nobody reads.
            program.expect(">>> ", regex=False, timeout_s=GUARD_S)
            session.send_keys("Ctrl-D")
            self.assertEqual(program.wait(GUARD_S).exit_code, 0)
            self.assertRaises(RuntimeError, session.send_keys, "x")

    def test_keys_and_sizes(self) -> None:
        with Session(client=self.client, shell="bash") as session:
            program = session.start(
                "stty -echo; IFS= read -rn1 key; stty size; printf '<%q>' \"$key\"", tty=True
            )
            program.resize(rows=30, cols=100)
            program.send_keys("Tab")
            program.wait(GUARD_S)
            self.assertIn("30 100", program.output())
            self.assertIn("<$'\\t'>", program.output())

    def test_stdin_stays_open(self) -> None:
        with Session(client=self.client, shell="bash") as session:
            program = session.start("cat", stdin_open=True)
            program.send("one\n")
            program.send(b"two\n")
            self.assertEqual(program.wait_for_log("two", timeout_s=GUARD_S).stream, "stdout")
            program.send_eof()
            self.assertEqual(program.wait(GUARD_S).exit_code, 0)
            self.assertEqual(program.output(), "one\ntwo\n")

    def test_a_question_is_told(self) -> None:
        with Session(client=self.client, shell="bash") as session:
            stream = session.stream("read -p 'name? ' name; echo hello $name", tty=True)
            for event in stream:
                if isinstance(event, WaitingEvent):
                    Command(self.client, event.exec_id).send_line("ada")
            assert stream.command is not None
            self.assertIn("hello ada", stream.command.output())

    def test_a_person_sees_the_session(self) -> None:
        with Session(client=self.client, shell="bash") as session:
            view = session.attach(rows=24, cols=80)
            seen = ""
            session.start("echo shown; sleep 60", tty=True)
            for output in view:
                seen += output.text
                if "shown" in seen:
                    break
            view.close()
            session.cancel()
            self.assertIn("shown", seen)


class InFiles(DaemonTest):
    def setUp(self) -> None:
        if "file.read" not in protocol.METHODS:
            self.skipTest("the protocol has no files")
        super().setUp()

    def test_files_of_a_session(self) -> None:
        with Session(client=self.client, shell="bash", working_dir=str(self.home.work)) as session:
            files = session.files
            self.assertEqual(files.write("a/b.txt", "one\ntwo\n", make_parents=True), 8)
            self.assertEqual(files.read("a/b.txt"), "one\ntwo\n")
            self.assertEqual(session.run("cat a/b.txt").stdout, "one\ntwo\n")
            self.assertEqual(files.edit("a/b.txt", "two", "three"), 1)
            with self.assertRaises(DaemonError) as raised:
                files.edit("a/b.txt", "missing", "x")
            self.assertEqual(raised.exception.code, "FILE_CONFLICT")
            data = bytes(range(256)) * 20_000
            files.write("big", data, mode=0o600)
            self.assertEqual(files.read_bytes("big"), data)
            self.assertEqual((self.home.work / "big").stat().st_mode & 0o777, 0o600)
            session.run("cd a")
            self.assertEqual(files.stat("b.txt").kind, "file")
            session.run("cd ..")
            self.assertEqual(sorted(entry.kind for entry in files.list()), ["directory", "file"])
            files.move("big", "small")
            self.assertEqual((files.exists("big"), files.exists("small")), (False, True))
            files.make_dir("x/y", parents=True)
            files.remove("x", recursive=True)
            self.assertFalse((self.home.work / "x").exists())


class Mail(DaemonTest):
    def test_a_question_and_its_answer(self) -> None:
        with Agent("ada", client=self.client) as ada, Agent("bob", client=self.client) as bob:
            self.assertEqual(ada.inbox(), [])
            sent = ada.send("bob", "which port?")
            (message,) = bob.inbox(wait_s=GUARD_S)
            self.assertEqual((message.from_, message.text), ("ada", "which port?"))
            bob.reply(message, "8080")
            reply = ada.await_reply(sent.message_id, timeout_s=GUARD_S).reply
            assert reply is not None
            self.assertEqual(reply.text, "8080")
            self.assertEqual(ada.status(sent.message_id).state, "replied")
            self.assertEqual([row.label for row in bob.sessions().sessions], [bob.label])

    def test_mail_is_announced_and_answered(self) -> None:
        with Agent("ada", client=self.client) as ada, Agent("bob", client=self.client) as bob:
            announced = bob.subscribe()

            def answer() -> None:
                for event in announced:
                    if event.count:
                        for message in bob.inbox():
                            bob.reply(message, message.text.upper())
                        return

            answering = threading.Thread(target=answer)
            answering.start()
            reply = ada.ask("bob", "hello", timeout_s=GUARD_S)
            answering.join(GUARD_S)
            announced.close()
            assert reply is not None
            self.assertEqual(reply.text, "HELLO")

    def test_an_agent_outlives_the_daemon(self) -> None:
        with Agent("ada", client=self.client) as ada, Agent("bob", client=self.client) as bob:
            label = ada.label
            sent = ada.send("bob", "before")
            self.home.kill()
            self.assertEqual([message.text for message in bob.inbox(wait_s=GUARD_S)], ["before"])
            self.assertEqual(bob.inbox(), [])
            wait_until("it counts as read", lambda: ada.status(sent.message_id).state == "read")
            self.assertEqual(ada.label, label)


class Figures(DaemonTest):
    def test_a_fork_has_connections_of_its_own(self) -> None:
        with Session(client=self.client, shell="bash", working_dir=str(self.home.work)) as session:
            session.run("true")
            child = os.fork()
            if child == 0:
                try:
                    os._exit(0 if session.run("echo child >> log", wait_s=20).ok else 1)
                finally:
                    os._exit(2)
            self.assertEqual(session.run("echo parent >> log", wait_s=20).exit_code, 0)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.assertEqual(sorted(self.lines("log")), ["child", "parent"])

    def test_the_clock_of_a_wait_is_the_daemons(self) -> None:
        with Session(client=self.client) as session:
            began = time.monotonic()
            self.assertRaises(WaitTimeoutError, session.background("sleep 60").wait, 0.3)
            self.assertGreaterEqual(time.monotonic() - began, 0.3)


if __name__ == "__main__":
    unittest.main()
