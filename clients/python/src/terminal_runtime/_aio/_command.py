"""A command that was started: wait for it, talk to it, watch it."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

from .._failures import TerminalRuntimeError
from .._keys import typed
from .._progress import CommandEvent, CommandProgress, Output, StreamName
from .._results import LogMatch, Screen
from ..protocol import ExecInfo, ExecStreamReply
from ._pipe import INTERRUPTS
from ._stream import AsyncEventStream

if TYPE_CHECKING:
    from ._client import AsyncClient

#: One reply of `exec.output` holds at most this much.
_PIECE = 4 * 1024 * 1024
#: How long an interrupted caller waits for its command to end.
_GRACE_S = 15.0


async def cancel_run(client: AsyncClient, params: dict[str, Any]) -> None:
    """Ends a command that was sent and whose answer nobody waits for.

    Sent again with its `run_id`, it is not started again but told by its id. Why this fails, if it
    does, is of no use to a caller who was interrupted.
    """
    known = {"background": False, **params}
    known.pop("check", None)
    try:
        started = await client.call("exec.start", known)
        command = AsyncCommand(client, str(started["exec_id"]))
        await command.cancel()
        await command.wait(_GRACE_S)
    except TerminalRuntimeError:
        pass


class AsyncCommand:
    """An asyncio handle on a command, running or finished. Only `exec_id` is kept here."""

    def __init__(self, client: AsyncClient, exec_id: str) -> None:
        self.client = client
        self.exec_id = exec_id
        #: Where the next `expect` begins to look, for each stream.
        self._expected: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.exec_id!r})"

    async def info(self) -> ExecInfo:
        return await self.client.exec_info(exec_id=self.exec_id)

    async def wait(self, timeout_s: float | None = None) -> ExecInfo:
        """Waits until the command is over. WaitTimeoutError if it is not in time."""
        return ExecInfo.decode(await self._wait({"exit": True}, timeout_s))

    async def wait_for_log(
        self,
        pattern: str | Sequence[str],
        *,
        regex: bool = False,
        stream: StreamName | None = None,
        from_offset: int | None = None,
        timeout_s: float | None = None,
    ) -> LogMatch:
        """Waits until the command prints this; what it printed before counts.

        CommandFailedError if the command ends first, WaitTimeoutError if the time is over first.
        """
        log: dict[str, Any] = {"regex": regex}
        log.update({"pattern": pattern} if isinstance(pattern, str) else {"patterns": list(pattern)})
        if stream is not None:
            log["stream"] = stream
        if from_offset is not None:
            log["from_offset"] = from_offset
        return LogMatch.decode(await self._wait({"log": log}, timeout_s))

    async def expect(
        self,
        pattern: str | Sequence[str],
        *,
        regex: bool = True,
        stream: StreamName = "stdout",
        timeout_s: float | None = 30.0,
    ) -> LogMatch:
        """Waits for the pattern after the end of the last match. `index` says which of several came."""
        match = await self.wait_for_log(
            pattern,
            regex=regex,
            stream=stream,
            from_offset=self._expected.get(stream),
            timeout_s=timeout_s,
        )
        end = match.end_offset if match.end_offset is not None else match.offset + len(match.text.encode())
        # An empty match moves on as well, or the next one would be the same.
        self._expected[stream] = max(end, match.offset + 1)
        return match

    async def wait_for_port(
        self,
        port: int,
        *,
        host: str | None = None,
        http_path: str | None = None,
        timeout_s: float | None = None,
    ) -> ExecInfo:
        """Waits until the port takes connections or, with `http_path`, answers with a status below 400."""
        until: dict[str, Any] = {"port": port}
        if host is not None:
            until["host"] = host
        if http_path is not None:
            until["http_path"] = http_path
        return ExecInfo.decode(await self._wait({"port": until}, timeout_s))

    async def _wait(self, until: dict[str, Any], timeout_s: float | None) -> dict[str, Any]:
        params: dict[str, Any] = {"exec_id": self.exec_id, "until": until}
        if timeout_s is not None:
            params["timeout_s"] = timeout_s
        return await self.client.call("exec.wait", params)

    async def send(self, data: str | bytes, *, eof: bool = False) -> None:
        """Writes to the command's stdin."""
        if isinstance(data, str):
            await self.client.exec_write(exec_id=self.exec_id, data=data, eof=eof)
        else:
            encoded = base64.b64encode(data).decode()
            await self.client.exec_write(exec_id=self.exec_id, data=encoded, encoding="base64", eof=eof)

    async def send_line(self, line: str = "") -> None:
        await self.send(line + "\n")

    async def send_keys(self, *keys: str) -> None:
        """Presses keys of a terminal: `send_keys("ls", "Enter", "Ctrl-C")`."""
        await self.send("".join(typed(key) for key in keys))

    async def send_eof(self) -> None:
        await self.send("", eof=True)

    async def screen(self) -> Screen:
        return Screen.decode(await self.client.call("exec.screen", {"exec_id": self.exec_id}))

    async def resize(self, rows: int, cols: int) -> None:
        await self.client.exec_resize(exec_id=self.exec_id, rows=rows, cols=cols)

    async def cancel(self, signal: str | int | None = None) -> bool:
        """INT, then TERM, then KILL; or only the signal that is named. False if it had ended."""
        reply = await self.client.exec_cancel(exec_id=self.exec_id, signal=signal)
        return reply.cancelled

    async def output(self, stream: StreamName = "stdout") -> str:
        """All that is kept of what it printed so far."""
        return (await self.output_bytes(stream)).decode("utf-8", "replace")

    async def output_bytes(self, stream: StreamName = "stdout", offset: int = 0) -> bytes:
        found = bytearray()
        while True:
            reply = await self.client.exec_output(
                exec_id=self.exec_id, stream=stream, offset=offset, limit=_PIECE, encoding="base64"
            )
            found += base64.b64decode(reply.base64 or "")
            offset = reply.next_offset
            if offset >= reply.total_bytes:
                return bytes(found)

    def stream(self, *, stdout_offset: int = 0, stderr_offset: int = 0) -> AsyncCommandStream:
        """What it printed from these offsets on, and what it will print."""
        params = {
            "exec_id": self.exec_id,
            "stdout_offset": stdout_offset,
            "stderr_offset": stderr_offset,
        }
        return AsyncCommandStream(self.client, "exec.attach", params, owned=False)


class AsyncCommandStream(AsyncEventStream[CommandEvent, ExecStreamReply]):
    """An asyncio iterator over what a command does; `result` says how it ended.

    The events are `QueuedEvent` (it waits for its turn), `StartedEvent`, `Output`, `GapEvent`
    (bytes that are no longer kept) and `WaitingEvent` (the command reads from its terminal).
    """

    def __init__(self, client: AsyncClient, method: str, params: dict[str, Any], *, owned: bool) -> None:
        self._command_progress = CommandProgress(method, params, ExecStreamReply)
        #: Whether the command was started for this stream, and so ends when the reader is interrupted.
        self._owned = owned
        super().__init__(client, self._command_progress)

    async def __anext__(self) -> CommandEvent:
        try:
            return await super().__anext__()
        except INTERRUPTS:
            if self._owned and self._sent is not None:
                await cancel_run(self._client, self._sent)
            raise

    @property
    def command(self) -> AsyncCommand | None:
        """The command, once the daemon has said that it exists."""
        exec_id = self._command_progress.exec_id
        return None if exec_id is None else AsyncCommand(self._client, exec_id)

    async def output(self) -> AsyncIterator[Output]:
        """Only what it prints."""
        async for event in self:
            if isinstance(event, Output):
                yield event

    async def text(self) -> AsyncIterator[str]:
        """What it prints, stdout and stderr as they come."""
        async for output in self.output():
            yield output.text

    async def lines(self, stream: StreamName | None = "stdout") -> AsyncIterator[str]:
        """Whole lines without their ends; of both streams if `stream` is None."""
        begun = {"stdout": "", "stderr": ""}
        async for output in self.output():
            if stream not in (None, output.stream):
                continue
            *whole, begun[output.stream] = (begun[output.stream] + output.text).split("\n")
            for line in whole:
                yield line.removesuffix("\r")
        for rest in begun.values():
            if rest:
                yield rest
