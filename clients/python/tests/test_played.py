"""A daemon played by the test cuts connections where a real one is hard to hit."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import tempfile
import threading
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

from terminal_runtime import AsyncClient, Client
from terminal_runtime.errors import InternalError, LostError, UnreadableError, UntrustedSocketError

from .daemon import GUARD_S

Played = Callable[["Side"], None]


class Side:
    """The daemon's end of one connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.lines = connection.makefile("rb")

    def request(self) -> dict[str, Any]:
        return json.loads(self.lines.readline())

    def say(self, message: dict[str, Any]) -> None:
        self.connection.sendall(json.dumps(message).encode() + b"\n")

    def close(self) -> None:
        self.lines.close()
        self.connection.close()


class PlayedTest(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = Path(directory.name) / "s"
        self.listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(self.listener.close)
        self.listener.bind(str(self.path))
        self.listener.listen()
        self.listener.settimeout(GUARD_S)

    def play(self, *connections: Played) -> None:
        """One function for each connection, in the order in which they come."""

        def run() -> None:
            for play in connections:
                side = Side(self.listener.accept()[0])
                try:
                    play(side)
                finally:
                    side.close()

        thread = threading.Thread(target=run)
        thread.start()
        self.addCleanup(thread.join, GUARD_S)

    def both(self, method: str, params: dict[str, Any], check: Callable[[Callable[[], Any]], None]) -> None:
        """The same call with each API."""
        client = Client(self.path, start=False)
        self.addCleanup(client.close)
        check(lambda: client.call(method, params))

        async def ask() -> Any:
            other = AsyncClient(self.path, start=False)
            try:
                return await other.call(method, params)
            finally:
                await other.aclose()

        check(lambda: asyncio.run(ask()))


def answer(data: dict[str, Any]) -> Played:
    def play(side: Side) -> None:
        side.say({"id": side.request()["id"], "ok": True, "data": data})

    return play


def read_and_go(side: Side) -> None:
    side.request()


def go_unread(side: Side) -> None:
    """Closed with a request unread in it, the kernel resets the connection."""
    side.connection.recv(1)


class Cut(PlayedTest):
    def test_what_may_have_been_done_is_not_done_again(self) -> None:
        self.play(read_and_go, read_and_go)

        def lost(call: Callable[[], Any]) -> None:
            with self.assertRaises(LostError) as raised:
                call()
            self.assertEqual(raised.exception.method, "session.create")

        self.both("session.create", {}, lost)

    def test_what_was_not_read_is_sent_again(self) -> None:
        made = answer({"session_id": "s-1"})
        self.play(go_unread, made, go_unread, made)
        self.both("session.create", {}, lambda call: self.assertEqual(call(), {"session_id": "s-1"}))

    def test_a_command_is_sent_again_under_the_same_id(self) -> None:
        ids: list[str] = []

        def note(then: Played) -> Played:
            def play(side: Side) -> None:
                request = side.request()
                ids.append(request["params"]["run_id"])
                if then is answered:
                    side.say({"id": request["id"], "ok": True, "data": {}})

            return play

        def answered(side: Side) -> None: ...

        self.play(note(read_and_go), note(answered), note(read_and_go), note(answered))
        self.both("exec.run", {"session_id": "x", "command": "y"}, lambda call: self.assertEqual(call(), {}))
        self.assertEqual((ids[0], ids[2]), (ids[1], ids[3]))
        self.assertNotEqual(ids[0], ids[2])

    def test_half_an_answer_is_none(self) -> None:
        def half(side: Side) -> None:
            side.request()
            side.connection.sendall(b'{"id":')

        self.play(half, answer({"version": "1"}), half, answer({"version": "1"}))
        self.both("system.ping", {}, lambda call: self.assertEqual(call(), {"version": "1"}))

    def test_a_daemon_that_leaves_is_waited_for(self) -> None:
        def leave(side: Side) -> None:
            error = {"code": "SHUTTING_DOWN", "message": "going"}
            side.say({"id": side.request()["id"], "ok": False, "error": error})

        self.play(leave, answer({"session_id": "s-1"}), leave, answer({"session_id": "s-1"}))
        self.both("session.create", {}, lambda call: self.assertEqual(call(), {"session_id": "s-1"}))

    def test_an_answer_that_cannot_be_read_is_said(self) -> None:
        def nonsense(side: Side) -> None:
            side.request()
            side.connection.sendall(b"nonsense\n")

        self.play(nonsense, nonsense)
        self.both("system.ping", {}, lambda call: self.assertRaises(UnreadableError, call))

    def test_an_error_without_an_id_is_ours(self) -> None:
        def refuse(side: Side) -> None:
            side.request()
            side.say({"id": None, "ok": False, "error": {"code": "INTERNAL_ERROR", "message": "no"}})

        self.play(refuse, refuse)
        self.both("system.ping", {}, lambda call: self.assertRaises(InternalError, call))


class Owner(PlayedTest):
    def test_nothing_is_sent_to_a_daemon_of_another_user(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("only root can play another user")
        self.listener.close()
        self.path.unlink()
        self.path.parent.chmod(0o755)
        heard: list[bytes] = []
        # Credentials of a listener are those of whoever called listen().
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(str(self.path))
        os.seteuid(65534)
        try:
            listener.listen()
        finally:
            os.seteuid(0)

        def play() -> None:
            for _ in range(2):
                connection, _ = listener.accept()
                heard.append(connection.recv(100))
                connection.close()

        thread = threading.Thread(target=play)
        thread.start()
        self.both("system.ping", {}, lambda call: self.assertRaises(UntrustedSocketError, call))
        thread.join(GUARD_S)
        self.assertEqual(heard, [b"", b""])


if __name__ == "__main__":
    unittest.main()
