"""The parts without I/O."""

from __future__ import annotations

import json
import os
import pickle
import tempfile
import unittest
from pathlib import Path
from typing import Any
from unittest.mock import patch

from terminal_runtime import _keys, _locate, _trust, errors
from terminal_runtime._attempts import TRIES, UNREAD, Attempts, Patience
from terminal_runtime._http import HttpCodec
from terminal_runtime._progress import ChangeProgress, CommandProgress, Output
from terminal_runtime._results import RunResult
from terminal_runtime._wire import Done, Event, Failed, LineCodec, read, request_line
from terminal_runtime.errors import (
    CommandTimeoutError,
    DaemonError,
    LostError,
    SessionBusyError,
    UnreadableError,
    UntrustedSocketError,
)
from terminal_runtime.protocol import EventsSubscribeReply, ExecStreamReply, GapEvent, StartedEvent


class Lines(unittest.TestCase):
    def test_a_line_is_found_wherever_the_bytes_are_cut(self) -> None:
        text = b'{"id":"1"}\n{"id":"2"}\n'
        for size in range(1, len(text) + 1):
            codec, found = LineCodec(), list[bytes]()
            for at in range(0, len(text), size):
                codec.feed(text[at : at + size])
                while (line := codec.next()) is not None:
                    found.append(line)
            self.assertEqual(found, [b'{"id":"1"}', b'{"id":"2"}'])
            self.assertIsNone(codec.next())

    def test_messages(self) -> None:
        def incoming(message: object) -> object:
            return read(json.dumps(message).encode(), "a", "m")

        self.assertEqual(incoming({"id": "a", "ok": True, "data": {"x": 1}}), Done({"x": 1}))
        self.assertEqual(incoming({"id": "a", "event": "gap", "data": {}}), Event("gap", {}))
        self.assertIsNone(incoming({"id": "b", "ok": True, "data": {}}))
        error: Any = {"code": "SESSION_BUSY", "message": "busy", "details": {"by": 1}}
        for id in ("a", None):
            failed = incoming({"id": id, "ok": False, "error": error})
            assert isinstance(failed, Failed)
            self.assertIsInstance(failed.error, SessionBusyError)
            self.assertEqual((failed.error.code, failed.error.details), ("SESSION_BUSY", {"by": 1}))
        unknown = incoming({"id": "a", "ok": False, "error": {"code": "NEW_ONE", "message": "?"}})
        assert isinstance(unknown, Failed)
        self.assertIs(type(unknown.error), DaemonError)
        for line in (b"nothing", b"[]", b'{"ok":true}', b'{"id":"a"}'):
            self.assertRaises(UnreadableError, read, line, "a", "m")

    def test_a_request_is_one_compact_line(self) -> None:
        line = request_line("1", "exec.run", {"command": "echo 'ä\n'"})
        self.assertEqual(
            line, '{"id":"1","method":"exec.run","params":{"command":"echo \'ä\\n\'"}}\n'.encode()
        )
        self.assertRaises(ValueError, request_line, "1", "exec.run", {"command": "\ud800"})


class Http(unittest.TestCase):
    def answers(self, answer: bytes, size: int, *, end: bool = False) -> tuple[list[bytes], bool]:
        codec = HttpCodec("h:1", "/v1/rpc", "t")
        sent = codec.encode(b"{}\n", streaming=True)
        self.assertIn(b"Authorization: Bearer t\r\n", sent)
        self.assertIn(b"Content-Length: 3\r\n\r\n{}\n", sent)
        found: list[bytes] = []
        for at in range(0, len(answer), size):
            codec.feed(answer[at : at + size])
        if end:
            codec.end()
        while (line := codec.next()) is not None:
            found.append(line)
        return found, codec.reusable

    def test_bodies_however_the_bytes_are_cut(self) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
        with_length = head + b'Content-Length: 8\r\n\r\n{"id":1}'
        chunked = head + b'Transfer-Encoding: chunked\r\n\r\n3\r\n{"i\r\n5;x=y\r\nd":1}\r\n0\r\nT: r\r\n\r\n'
        after_continue = b"HTTP/1.1 100 Continue\r\n\r\n" + with_length
        for answer in (with_length, chunked, after_continue):
            for size in (1, 2, 3, 7, len(answer)):
                self.assertEqual(self.answers(answer, size), ([b'{"id":1}'], True))
        until_end = b'HTTP/1.0 200 OK\r\n\r\n{"id":1}'
        self.assertEqual(self.answers(until_end, 5, end=True), ([b'{"id":1}'], False))
        closing = head + b'Connection: close\r\nContent-Length: 8\r\n\r\n{"id":1}'
        self.assertEqual(self.answers(closing, 4), ([b'{"id":1}'], False))

    def test_server_sent_events(self) -> None:
        body = b'event: stdout\ndata: {"a":1}\n\n: a comment\n\n'
        body += b'event: response\r\ndata:{"b":\r\ndata: 2}\r\n\r\n'
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        answer = head + f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n"
        for size in (1, 3, 10, len(answer)):
            self.assertEqual(self.answers(answer, size), ([b'{"a":1}', b'{"b":\n2}'], True))

    def test_what_is_no_answer_of_a_daemon_is_said(self) -> None:
        page = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 4\r\n\r\noops"
        for answer in (
            page,
            b"nonsense\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        ):
            self.assertRaises(UnreadableError, self.answers, answer, 100)
        self.assertRaises(ValueError, HttpCodec, "h", "/", "a\r\nb")


class Streams(unittest.TestCase):
    def test_a_cut_command_goes_on_from_where_it_was(self) -> None:
        progress = CommandProgress("exec.stream", {"run_id": "r"}, ExecStreamReply)
        self.assertTrue(progress.resume())
        self.assertEqual(progress.method, "exec.stream", "nothing was heard, so it is sent again")
        self.assertIsInstance(progress.accept("started", {"exec_id": "e-1"}), StartedEvent)
        first = progress.accept("stdout", {"base64": "YWJj", "offset": 0})
        assert isinstance(first, Output)
        self.assertEqual((first.data, first.text, first.offset), (b"abc", "abc", 0))
        self.assertTrue(progress.resume())
        self.assertEqual(progress.method, "exec.attach")
        self.assertEqual((progress.params["stdout_offset"], progress.params["stderr_offset"]), (3, 0))
        self.assertIsNone(progress.accept("started", {"exec_id": "e-1"}))
        self.assertIsNone(progress.accept("stdout", {"base64": "YWI=", "offset": 0}))
        again = progress.accept("stdout", {"base64": "Y2Rl", "offset": 2})
        assert isinstance(again, Output)
        self.assertEqual((again.data, again.offset), (b"de", 3))
        gap = progress.accept("gap", {"stream": "stderr", "from": 0, "to": 9})
        self.assertIsInstance(gap, GapEvent)
        progress.resume()
        self.assertEqual((progress.params["stdout_offset"], progress.params["stderr_offset"]), (5, 9))
        self.assertIsNone(progress.accept("something_new", {}))

    def test_a_command_that_waits_is_told_and_known(self) -> None:
        progress = CommandProgress("exec.stream", {"run_id": "r"}, ExecStreamReply)
        queued = progress.accept("queued", {"exec_id": "e-1"})
        self.assertEqual((type(queued).__name__, progress.exec_id), ("QueuedEvent", "e-1"))
        progress.resume()
        self.assertEqual((progress.method, progress.params["exec_id"]), ("exec.attach", "e-1"))
        self.assertIsNone(progress.accept("queued", {"exec_id": "e-1"}))
        self.assertIsInstance(progress.accept("started", {"exec_id": "e-1"}), StartedEvent)

    def test_a_character_in_two_pieces_is_one(self) -> None:
        progress = CommandProgress("exec.stream", {}, ExecStreamReply)
        pieces = [
            progress.accept("stdout", {"base64": "w6TD", "offset": 0}),
            progress.accept("stdout", {"base64": "tg==", "offset": 3}),
        ]
        self.assertEqual([str(piece) for piece in pieces], ["ä", "ö"])

    def test_changes_go_on_by_number(self) -> None:
        progress = ChangeProgress("events.subscribe", {}, EventsSubscribeReply)
        self.assertIsNotNone(progress.accept("subscribed", {"next": 5}))
        change = {"seq": 5, "at": "", "topic": "session", "change": "created"}
        self.assertIsNotNone(progress.accept("change", change))
        self.assertIsNone(progress.accept("change", change))
        self.assertEqual(progress.params["from"], 6)
        self.assertIsNone(progress.accept("subscribed", {"next": 9}))
        self.assertIsNotNone(progress.accept("missed", {"from": 6, "to": 8}))
        self.assertEqual(progress.params["from"], 8)


class Repetition(unittest.TestCase):
    def test_what_may_be_sent_again(self) -> None:
        for method, unread, again in [
            ("session.create", False, False),
            ("session.create", True, True),
            ("session.destroy", False, False),
            ("exec.info", False, True),
            ("exec.run", False, True),
            ("exec.write", False, True),
        ]:
            attempts = Attempts("1", method, {})
            if again:
                attempts.ended(unread=unread)
            else:
                self.assertRaises(LostError, attempts.ended, unread=unread)

    def test_it_ends_sometime(self) -> None:
        attempts = Attempts("1", "system.ping", {})
        for _ in range(TRIES - 1):
            attempts.ended(unread=False)
        self.assertRaises(LostError, attempts.ended, unread=False)
        unread = Attempts("1", "session.create", {})
        for _ in range(UNREAD - 1):
            unread.ended(unread=True)
        self.assertRaises(LostError, unread.ended, unread=True)

    def test_what_nobody_had_costs_no_try(self) -> None:
        attempts = Attempts("1", "exec.run", {})
        # Each daemon that is killed takes the request, and its socket takes it once more.
        for _ in range(TRIES - 1):
            attempts.line()
            attempts.ended(unread=False)
            attempts.line()
            attempts.ended(unread=True)
        self.assertRaises(LostError, attempts.ended, unread=False)

    def test_a_long_wait_may_see_many_daemons(self) -> None:
        with patch("terminal_runtime._attempts.time.monotonic", side_effect=range(0, 1000, 10)):
            patience = Patience()
            for _ in range(3 * TRIES):
                patience.sent()
                self.assertTrue(patience.ended(unread=False))

    def test_a_run_has_an_id_of_its_own_unless_it_is_given_one(self) -> None:
        self.assertEqual(json.loads(Attempts("7", "exec.run", {}).line())["params"], {"run_id": "7"})
        given = {"run_id": "mine"}
        self.assertEqual(json.loads(Attempts("7", "exec.run", given).line())["params"], given)

    def test_a_wait_that_is_repeated_gets_shorter(self) -> None:
        attempts = Attempts("1", "exec.wait", {"timeout_s": 5})
        self.assertEqual(json.loads(attempts.line())["params"]["timeout_s"], 5)
        attempts.ended(unread=False)
        self.assertLess(json.loads(attempts.line())["params"]["timeout_s"], 5)
        forever = Attempts("1", "exec.wait", {"timeout_s": 0})
        forever.ended(unread=False)
        self.assertEqual(json.loads(forever.line())["params"]["timeout_s"], 0)

    def test_only_a_daemon_that_leaves_is_followed_by_another(self) -> None:
        leaving, other = DaemonError("SHUTTING_DOWN", ""), DaemonError("INTERNAL_ERROR", "")
        Attempts("1", "session.create", {}).refused(leaving, may_come_back=True)
        for error, back in ((leaving, False), (other, True)):
            with self.assertRaises(DaemonError):
                Attempts("1", "session.create", {}).refused(error, may_come_back=back)


class Places(unittest.TestCase):
    def socket(self, environ: dict[str, str], **options: Any) -> str:
        given: dict[str, Any] = {"program": "trl", "start": True, **options}
        found = _locate.target(None, None, None, environ=environ, **given)
        assert isinstance(found, _locate.SocketTarget)
        return str(found.path)

    def test_the_socket(self) -> None:
        home = tempfile.mkdtemp()
        self.addCleanup(os.rmdir, home)
        self.assertEqual(self.socket({"HOME": home}), f"/tmp/trl-{os.geteuid()}/trl.sock")
        self.assertEqual(self.socket({"XDG_RUNTIME_DIR": "/run/u"}), "/run/u/trl/trl.sock")
        self.assertEqual(self.socket({"XDG_RUNTIME_DIR": "u"}), f"/tmp/trl-{os.geteuid()}/trl.sock")
        self.assertEqual(self.socket({"TRL_HOME": "/h", "XDG_RUNTIME_DIR": "/run/u"}), "/h/run/trl.sock")
        self.assertEqual(self.socket({"TRL_HOME": "/h", "TRL_SOCKET_PATH": "/s"}), "/s")

    def test_the_config_file_names_the_socket(self) -> None:
        with tempfile.TemporaryDirectory() as home:
            config = Path(home) / "config"
            config.mkdir()
            (config / "config.toml").write_text('# socket_path = "/no"\n  socket_path = "/from/file"\n')
            self.assertEqual(self.socket({"TRL_HOME": home}), "/from/file")
            self.assertEqual(self.socket({"TRL_HOME": home, "TRL_SOCKET_PATH": "/s"}), "/s")

    def test_a_daemon_is_started_as_trl_would(self) -> None:
        found = _locate.target(None, None, None, program="/x/trl", start=True, environ={"TRL_HOME": "/h"})
        assert isinstance(found, _locate.SocketTarget) and found.start is not None
        self.assertEqual(found.start.args, ("serve", "--detached", "--socket", "/h/run/trl.sock"))
        self.assertEqual(str(found.start.lock), "/h/run/start.lock")

    def test_urls(self) -> None:
        found = _locate.target(
            None, "https://box:7700/", None, program=None, start=True, environ={"TRL_AUTH_TOKEN": "t"}
        )
        assert isinstance(found, _locate.HttpTarget)
        self.assertEqual((found.host, found.port, found.authority), ("box", 7700, "box:7700"))
        self.assertEqual((found.path, found.tls, found.token), ("/v1/rpc", True, "t"))
        for url in ("box:7700", "ftp://box", "http://"):
            with self.assertRaises(ValueError):
                _locate.target(None, url, None, program=None, start=True, environ={})

    def test_only_what_nobody_else_can_replace_is_trusted(self) -> None:
        with tempfile.TemporaryDirectory() as home:
            inside = Path(home) / "open" / "mine"
            inside.mkdir(parents=True)
            link = Path(home) / "link"
            link.symlink_to("open/mine")
            for path in (inside / "s", link / "s"):
                for mode, trusted in ((0o755, True), (0o777, False), (0o775, False), (0o1777, True)):
                    inside.parent.chmod(mode)
                    if trusted:
                        _trust.check_path(path)
                    else:
                        self.assertRaises(UntrustedSocketError, _trust.check_path, path)
            link.unlink()
            link.symlink_to("link")
            self.assertRaises(UntrustedSocketError, _trust.check_path, link / "s")
            if os.geteuid() == 0:
                os.chown(inside, 65534, 65534)
                self.assertRaises(UntrustedSocketError, _trust.check_path, inside / "s")

    def test_a_daemon_of_another_home_is_not_used(self) -> None:
        with tempfile.TemporaryDirectory() as home:
            path, ours = Path(home) / "trl.sock", Path(home) / "ours"
            _trust.check_home(path, ours)
            (Path(home) / "state-dir").write_text(str(Path(home) / "theirs"))
            self.assertRaises(UntrustedSocketError, _trust.check_home, path, ours)
            (Path(home) / "theirs").mkdir()
            ours.symlink_to("theirs")
            _trust.check_home(path, ours)

        def compared(environ: dict[str, str], socket: str | None = None) -> Path | None:
            found = _locate.target(socket, None, None, program="trl", start=True, environ=environ)
            assert isinstance(found, _locate.SocketTarget)
            return found.state

        self.assertEqual(compared({"HOME": "/h"}), Path("/h/.local/state/trl"))
        self.assertIsNone(compared({"HOME": "/h"}, "/named"))
        self.assertIsNone(compared({"HOME": "/h", "TRL_HOME": "/t"}))
        self.assertIsNone(compared({"HOME": "/h", "XDG_RUNTIME_DIR": "/run/u"}))


class Keys(unittest.TestCase):
    def test_names(self) -> None:
        for key, sent in [
            ("Enter", "\r"),
            ("Ctrl-C", "\x03"),
            ("C-d", "\x04"),
            ("ctrl+[", "\x1b"),
            ("Up", "\x1b[A"),
            ("Alt-x", "\x1bx"),
            ("M-Enter", "\x1b\r"),
            ("ls -l", "ls -l"),
            ("c", "c"),
            ("C-", "C-"),
        ]:
            self.assertEqual(_keys.typed(key), sent, key)


class Results(unittest.TestCase):
    def result(self, **fields: Any) -> RunResult:
        plain: dict[str, Any] = {
            "exec_id": "e-1",
            "stdout": "out <b>\n",
            "stderr": "",
            "exit_code": 0,
            "duration_ms": 1,
            "duration_us": 900,
            "timed_out": False,
            "cancelled": False,
            "stdout_bytes": 8,
            "stderr_bytes": 0,
            "stdout_truncated": False,
            "stderr_truncated": False,
            "working_dir": "/",
        }
        return RunResult.decode({**plain, **fields})

    def test_it_reads_well(self) -> None:
        good = self.result()
        self.assertEqual((str(good), bool(good), good.check()), ("out <b>\n", True, good))
        shown = good._repr_html_()
        self.assertIn("out &lt;b&gt;", shown)
        self.assertIn("exit 0", shown)
        late = self.result(timed_out=True, stderr="no time")
        self.assertIn("timed out", late._repr_html_())
        with self.assertRaises(CommandTimeoutError) as raised:
            late.check()
        self.assertEqual((raised.exception.code, raised.exception.result), ("COMMAND_TIMEOUT", late))

    def test_a_long_result_is_told_by_its_beginning(self) -> None:
        long = self.result(stdout="x" * 1000, timed_out=True)
        self.assertIn("timed_out=True", repr(long))
        self.assertIn("(1000 characters)", repr(long))
        self.assertLess(len(repr(long)), 400)

    def test_a_field_that_is_not_known_yet_does_no_harm(self) -> None:
        self.assertTrue(self.result(something_new=[1]).ok)


class Exceptions(unittest.TestCase):
    def test_they_travel_between_processes(self) -> None:
        failed = errors.CommandFailedError("COMMAND_FAILED", "it failed", {"exit_code": 1})
        failed.result = "its result"
        for error in (
            failed,
            errors.LostError("exec.run"),
            errors.UnreadableError("exec.run", "no JSON"),
            errors.NoDaemonError("nobody", help="start one"),
        ):
            again = pickle.loads(pickle.dumps(error))
            self.assertEqual((type(again), str(again), vars(again)), (type(error), str(error), vars(error)))

    def test_a_number_that_json_does_not_have_is_said(self) -> None:
        with self.assertRaisesRegex(ValueError, r"exec\.run"):
            request_line("1", "exec.run", {"timeout_s": float("nan")})


if __name__ == "__main__":
    unittest.main()
