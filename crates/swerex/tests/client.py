"""SWE-ReX's own client, unchanged, against `trl swerex`.

    TRL_PROGRAM=target/debug/trl python3 crates/swerex/tests/client.py

Needs the package `swe-rex`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

from pexpect.exceptions import TIMEOUT
from swerex.exceptions import (
    BashIncorrectSyntaxError,
    CommandTimeoutError,
    NonZeroExitCodeError,
    SessionDoesNotExistError,
    SessionExistsError,
)
from swerex.runtime.abstract import (
    BashAction,
    BashInterruptAction,
    CloseBashSessionRequest,
    Command,
    CreateBashSessionRequest,
    ReadFileRequest,
    UploadRequest,
    WriteFileRequest,
)
from swerex.runtime.remote import RemoteRuntime

TOKEN = "a-token-for-tests"
TRL = os.environ["TRL_PROGRAM"]


class Server:
    """`trl swerex` with a daemon of its own."""

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="trl-swerex-"))
        # A home of its own: the start-up files of whoever runs the tests are theirs.
        self.env = {**os.environ, "TRL_HOME": str(self.home / "trl"), "HOME": str(self.home)}
        command = [TRL, "swerex", "--auth-token", TOKEN, "--host", "127.0.0.1", "--port", "0"]
        self.child = subprocess.Popen(command, env=self.env, cwd=self.home, stderr=subprocess.PIPE, text=True)
        assert self.child.stderr is not None
        said = self.child.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)", said)
        assert found is not None, said
        self.port = int(found.group(1))

    def end(self) -> None:
        self.child.terminate()
        assert self.child.wait(30) == 0
        assert self.child.stderr is not None
        self.child.stderr.close()
        listed = subprocess.run([TRL, "ls", "--json"], env=self.env, capture_output=True, text=True, check=True)
        assert '"session_id"' not in listed.stdout, f"sessions are left: {listed.stdout}"
        subprocess.run([TRL, "shutdown"], env=self.env, capture_output=True, check=True)
        shutil.rmtree(self.home)


class SwerexTest(unittest.IsolatedAsyncioTestCase):
    server: Server

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = Server()
        cls.addClassCleanup(cls.server.end)

    async def asyncSetUp(self) -> None:
        self.runtime = RemoteRuntime(host="http://127.0.0.1", port=self.server.port, auth_token=TOKEN)
        self.output = (await self.runtime.create_session(CreateBashSessionRequest())).output

    async def asyncTearDown(self) -> None:
        await self.runtime.close()

    async def run_it(self, command: str, **options: object):
        return await self.runtime.run_in_session(BashAction(command=command, **{"timeout": 20, **options}))

    # Commands.

    async def test_state_and_exit_codes(self) -> None:
        await self.run_it("cd /usr; x=42; f() { echo f $1; }")
        r = await self.run_it("echo $x; pwd; f 1; echo err >&2; (exit 3)", check="silent")
        self.assertEqual((r.output, r.exit_code, r.expect_string), ("42\n/usr\nf 1\nerr\n", 3, "SHELLPS1PREFIX"))
        with self.assertRaises(NonZeroExitCodeError) as raised:
            await self.run_it("echo why; false", check="raise", error_msg="oh no")
        self.assertIn("oh no", str(raised.exception))
        self.assertIn("why", str(raised.exception))
        self.assertIsNone((await self.run_it("false", check="ignore")).exit_code)

    async def test_several_commands_heredocs_and_nothing(self) -> None:
        self.assertEqual((await self.run_it("echo a\necho b\n(exit 4)", check="silent")).exit_code, 4)
        self.assertEqual((await self.run_it("cat <<EOF\none\n$((1+1))\nEOF")).output, "one\n2\n")
        for nothing in ("", "  \n", "# only words"):
            r = await self.run_it(nothing)
            self.assertEqual((r.output, r.exit_code), ("", 0))

    async def test_a_syntax_error_runs_nothing(self) -> None:
        with self.assertRaises(BashIncorrectSyntaxError) as raised:
            await self.run_it("echo ran > ran; (a")
        self.assertEqual(set(raised.exception.extra_info), {"bash_stdout", "bash_stderr"})
        self.assertFalse((self.server.home / "ran").exists())

    async def test_output_is_that_of_a_terminal(self) -> None:
        r = await self.run_it("printf '\\033[31mred\\033[0m\\n'; test -t 1 && echo terminal; echo SHELLPS1PREFIX")
        self.assertEqual(r.output, "red\nterminal\nSHELLPS1PREFIX\n")

    async def test_a_timeout_leaves_the_shell_and_an_interrupt_frees_it(self) -> None:
        await self.run_it("kept=1")
        with self.assertRaises(CommandTimeoutError):
            await self.run_it("echo begun; sleep 60", timeout=0.5)
        r = await self.runtime.run_in_session(BashInterruptAction())
        self.assertEqual(r.exit_code, 0)
        self.assertIn("begun", r.output)
        self.assertEqual((await self.run_it("echo $kept")).output, "1\n")
        self.assertEqual((await self.runtime.run_in_session(BashInterruptAction())).output, "")

    async def test_a_program_that_ignores_ctrl_c_is_ended(self) -> None:
        with self.assertRaises(CommandTimeoutError):
            await self.run_it("trap '' INT; sleep 60; sleep 60", timeout=0.5)
        await self.runtime.run_in_session(BashInterruptAction(n_retry=1))
        self.assertEqual((await self.run_it("echo free")).output, "free\n")

    async def test_expectations(self) -> None:
        r = await self.run_it("echo one; echo two; sleep 0.2; echo three", expect=["tw.", "never"], check="silent")
        self.assertEqual((r.expect_string, r.exit_code), ("tw.", 0))
        self.assertEqual(r.output, "one\n\nthree\n")

    async def test_an_interactive_program(self) -> None:
        def ask(command: str, **options: object):
            return self.run_it(command, is_interactive_command=True, **options)

        await ask("python3 -q", expect=[">>> "])
        r = await ask("print(6 * 7)", expect=[">>> "])
        self.assertEqual((r.output, r.expect_string), ("42", ">>> "))
        with self.assertRaises(CommandTimeoutError):
            await ask("import time; time.sleep(60)", expect=[">>> "], timeout=0.5)
        r = await self.runtime.run_in_session(BashInterruptAction(expect=[">>> "], timeout=5))
        self.assertEqual(r.expect_string, ">>> ")
        self.assertIn("KeyboardInterrupt", r.output)
        await self.run_it("quit()", is_interactive_quit=True)
        self.assertEqual((await self.run_it("echo back")).output, "back\n")

    # Sessions.

    async def test_sessions(self) -> None:
        with self.assertRaises(SessionExistsError):
            await self.runtime.create_session(CreateBashSessionRequest())
        with self.assertRaises(SessionDoesNotExistError):
            await self.run_it("true", session="other")
        source = self.server.home / "startup"
        source.write_text("echo from the file; sourced=yes\n")
        made = await self.runtime.create_session(
            CreateBashSessionRequest(session="other", startup_source=[str(source)], startup_timeout=20)
        )
        self.assertEqual(made.output, "from the file\n")
        self.assertEqual((await self.run_it("echo $sourced", session="other")).output, "yes\n")
        self.assertEqual((await self.run_it("echo [$sourced]")).output, "[]\n")
        await self.runtime.close_session(CloseBashSessionRequest(session="other"))
        with self.assertRaises(SessionDoesNotExistError):
            await self.runtime.close_session(CloseBashSessionRequest(session="other"))
        source.write_text("sleep 60\n")
        with self.assertRaises(TIMEOUT):
            await self.runtime.create_session(
                CreateBashSessionRequest(session="slow", startup_source=[str(source)], startup_timeout=0.5)
            )

    # Commands without a session.

    async def test_execute(self) -> None:
        r = await self.runtime.execute(Command(command="echo out; echo err >&2; exit 3", shell=True, timeout=20))
        self.assertEqual((r.stdout, r.stderr, r.exit_code), ("out\n", "err\n", 3))
        r = await self.runtime.execute(Command(command=["printf", "%s|", "a b", "it's"], cwd="/usr", timeout=20))
        self.assertEqual(r.stdout, "a b|it's|")
        r = await self.runtime.execute(Command(command="pwd; env", shell=True, cwd="/usr", env={"ONLY": "this"}))
        self.assertIn("/usr\n", r.stdout)
        self.assertIn("ONLY=this\n", r.stdout)
        self.assertNotIn("HOME=", r.stdout)
        merged = Command(command="echo out; echo err >&2", shell=True, merge_output_streams=True)
        self.assertEqual((await self.runtime.execute(merged)).stdout, "out\nerr\n")
        r = await self.runtime.execute(Command(command=["cat"], timeout=20))
        self.assertEqual((r.stdout, r.exit_code), ("", 0))
        with self.assertRaises(CommandTimeoutError):
            await self.runtime.execute(Command(command=["sleep", "60"], timeout=0.3))
        with self.assertRaises(NonZeroExitCodeError):
            await self.runtime.execute(Command(command=["false"], check=True))
        with self.assertRaises(FileNotFoundError):
            await self.runtime.execute(Command(command="no such program"))

    # Files.

    async def test_files(self) -> None:
        path = self.server.home / "deep" / "er" / "file"
        await self.runtime.write_file(WriteFileRequest(path=str(path), content="ä\n"))
        self.assertEqual((await self.runtime.read_file(ReadFileRequest(path=str(path)))).content, "ä\n")
        with self.assertRaises(FileNotFoundError):
            await self.runtime.read_file(ReadFileRequest(path=str(path) + "x"))
        path.write_bytes(b"a\xff")
        read = ReadFileRequest(path=str(path), errors="backslashreplace")
        self.assertEqual((await self.runtime.read_file(read)).content, "a\\xff")

    async def test_uploads(self) -> None:
        source = self.server.home / "source"
        (source / "sub").mkdir(parents=True)
        (source / "sub" / "text").write_text("hello " * 1000)
        (source / "bytes").write_bytes(bytes(range(256)))
        target = self.server.home / "target" / "here"
        await self.runtime.upload(UploadRequest(source_path=str(source), target_path=str(target)))
        self.assertEqual((target / "sub" / "text").read_text(), "hello " * 1000)
        self.assertEqual((target / "bytes").read_bytes(), bytes(range(256)))
        single = self.server.home / "single" / "file"
        await self.runtime.upload(UploadRequest(source_path=str(source / "bytes"), target_path=str(single)))
        self.assertEqual(single.read_bytes(), bytes(range(256)))
        shutil.rmtree(source)

    # Who may, and once only.

    def ask(self, path: str, body: bytes | None, headers: dict[str, str]) -> int:
        request = urllib.request.Request(f"http://127.0.0.1:{self.server.port}{path}", body, headers)
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    async def test_the_version_is_told_without_a_token(self) -> None:
        told = subprocess.run([TRL, "swerex", "--version"], capture_output=True, text=True, check=True)
        self.assertRegex(told.stdout, r"\d+\.\d+\.\d+")

    async def test_tokens(self) -> None:
        for path in ("/", "/is_alive", "//is_alive", "/execute", "/nothing"):
            self.assertEqual(self.ask(path, None, {}), 403)
            self.assertEqual(self.ask(path, None, {"X-API-Key": "wrong"}), 401)
        self.assertEqual(self.ask("/nothing", None, {"X-API-Key": TOKEN}), 404)
        self.assertTrue((await self.runtime.is_alive(timeout=20)).is_alive)

    async def test_a_repeated_request_runs_once(self) -> None:
        counter = self.server.home / "count"
        body = b'{"command": "sleep 0.1; echo x >> %s", "shell": true}' % str(counter).encode()
        headers = {"X-API-Key": TOKEN, "X-Request-ID": f"once-{time.time()}", "Content-Type": "application/json"}
        for _ in range(3):
            self.assertEqual(self.ask("/execute", body, headers), 200)
        # One that ran behind our back would have written by now.
        await self.runtime.execute(Command(command=["sleep", "0.5"]))
        self.assertEqual(counter.read_text(), "x\n")


if __name__ == "__main__":
    unittest.main()
