"""A session: a living shell."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .._attempts import TRIES
from .._failures import DaemonError, LostError
from .._progress import Output
from .._results import RunResult, Screen, with_result
from ..protocol import ExecInfo, SessionAttachReply, SessionInfo
from ._client import AsyncClient
from ._command import AsyncCommand, AsyncCommandStream, cancel_run
from ._files import AsyncFiles
from ._pipe import INTERRUPTS, AsyncLock
from ._stream import AsyncEventStream

if TYPE_CHECKING:
    from typing_extensions import Self

_default: AsyncClient | None = None


def default_client() -> AsyncClient:
    """The client of sessions that are given none."""
    global _default
    if _default is None:
        _default = AsyncClient()
    return _default


def given(**params: Any) -> dict[str, Any]:
    """The params that have a value."""
    return {name: value for name, value in params.items() if value is not None}


class AsyncSession:
    """An asyncio session: a living shell whose variables and directory carry over.

    It is made when it is first used, or by `with`, and ends with that `with`; `keep=True`
    leaves it to others. `AsyncSession.existing(name)` is a handle on one that is there.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        client: AsyncClient | None = None,
        shell: str | None = None,
        env: Mapping[str, str] | None = None,
        working_dir: str | None = None,
        timeout_s: float | None = None,
        idle_timeout_s: float | None = None,
        tty: bool | None = None,
        rc: bool | None = None,
        limits: Mapping[str, Any] | None = None,
        isolation: Any = None,
        runtime: str | None = None,
        durability: str | None = None,
        replace_env: bool | None = None,
        keep_state: str | None = None,
        restore_state: str | None = None,
        keep: bool = False,
    ) -> None:
        self.client = client if client is not None else default_client()
        self._id: str | None = None
        self._making = AsyncLock()
        self._keep = keep
        self._create = given(
            name=name,
            shell=shell,
            env=dict(env) if env is not None else None,
            working_dir=working_dir,
            timeout_s=timeout_s,
            idle_timeout_s=idle_timeout_s,
            tty=tty,
            rc=rc,
            limits=dict(limits) if limits is not None else None,
            isolation=isolation,
            runtime=runtime,
            durability=durability,
            replace_env=replace_env,
            keep_state=keep_state,
            restore_state=restore_state,
        )
        self.files = AsyncFiles(self)

    @classmethod
    def existing(cls, session: str, *, client: AsyncClient | None = None) -> AsyncSession:
        """A handle on a session that is there, by id or name. Nothing is asked yet."""
        handle = cls(client=client, keep=True)
        handle._id = session
        return handle

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._id or 'not made yet'!r})"

    async def __aenter__(self) -> Self:
        await self.create()
        return self

    async def __aexit__(self, *_: object) -> None:
        if not self._keep:
            await self._end()

    async def _end(self) -> None:
        for left in reversed(range(TRIES)):
            try:
                await self.destroy()
                return
            except LostError:
                # It is the id of one session for ever, so asking again ends no other.
                if not left:
                    raise
            except DaemonError as error:
                # Somebody else ended it, or the daemon that went away: that is what was wanted.
                if error.code not in ("SESSION_NOT_FOUND", "SESSION_TERMINATED"):
                    raise
                return

    @property
    def id(self) -> str:
        """The session's id, or the name by which it was found."""
        if self._id is None:
            raise RuntimeError("the session is not made yet: use `with`, create() or run()")
        return self._id

    async def create(self) -> str:
        """Makes the session unless it is made; returns its id."""
        if self._id is None:
            # Callers that share this object make one session between them.
            async with self._making:
                if self._id is None:
                    made = await self.client.call("session.create", self._create)
                    self._id = str(made["session_id"])
        return self._id

    # Commands.

    async def run(
        self,
        command: str | Sequence[str],
        *,
        timeout_s: float | None = None,
        stdin: str | bytes | None = None,
        env: Mapping[str, str] | None = None,
        working_dir: str | None = None,
        max_output_bytes: int | None = None,
        tty: bool | None = None,
        merge_stderr: bool | None = None,
        check: bool = False,
        wait_s: float | None = None,
        background: bool | None = None,
        replace_env: bool | None = None,
        soft_timeout_s: float | None = None,
    ) -> RunResult:
        """Runs a command and waits for its end. A list of words is run without a shell's reading.

        An interrupted call (Ctrl-C; a cancelled task) cancels the command.
        """
        params = await self._command(
            command,
            given(
                timeout_s=timeout_s,
                stdin=stdin,
                env=env,
                working_dir=working_dir,
                max_output_bytes=max_output_bytes,
                tty=tty,
                merge_stderr=merge_stderr,
                check=check or None,
                wait_s=wait_s,
                background=background,
                replace_env=replace_env,
                soft_timeout_s=soft_timeout_s,
            ),
        )
        try:
            return RunResult.decode(await self.client.call("exec.run", params))
        except DaemonError as error:
            raise with_result(error) from None
        except INTERRUPTS:
            await cancel_run(self.client, params)
            raise

    def stream(
        self,
        command: str | Sequence[str],
        *,
        timeout_s: float | None = None,
        stdin: str | bytes | None = None,
        stdin_open: bool | None = None,
        env: Mapping[str, str] | None = None,
        working_dir: str | None = None,
        tty: bool | None = None,
        merge_stderr: bool | None = None,
        check: bool = False,
        wait_s: float | None = None,
        replace_env: bool | None = None,
    ) -> AsyncCommandStream:
        """Runs a command and iterates over its output as it comes."""
        params = self._params(
            command,
            given(
                timeout_s=timeout_s,
                stdin=stdin,
                stdin_open=stdin_open,
                env=env,
                working_dir=working_dir,
                tty=tty,
                merge_stderr=merge_stderr,
                check=check or None,
                wait_s=wait_s,
                replace_env=replace_env,
            ),
        )
        return _SessionStream(self, params)

    async def start(
        self,
        command: str | Sequence[str],
        *,
        background: bool = False,
        timeout_s: float | None = None,
        stdin: str | bytes | None = None,
        stdin_open: bool | None = None,
        env: Mapping[str, str] | None = None,
        working_dir: str | None = None,
        tty: bool | None = None,
        merge_stderr: bool | None = None,
        wait_s: float | None = None,
        replace_env: bool | None = None,
    ) -> AsyncCommand:
        """Starts a command in the session's shell and returns at once; good for programs to talk to."""
        params = await self._command(
            command,
            given(
                background=background,
                timeout_s=timeout_s,
                stdin=stdin,
                stdin_open=stdin_open,
                env=env,
                working_dir=working_dir,
                tty=tty,
                merge_stderr=merge_stderr,
                wait_s=wait_s,
                replace_env=replace_env,
            ),
        )
        started = await self.client.call("exec.start", params)
        return AsyncCommand(self.client, str(started["exec_id"]))

    async def background(
        self,
        command: str | Sequence[str],
        *,
        timeout_s: float | None = 0.0,
        stdin: str | bytes | None = None,
        stdin_open: bool | None = None,
        env: Mapping[str, str] | None = None,
        working_dir: str | None = None,
        tty: bool | None = None,
        merge_stderr: bool | None = None,
        replace_env: bool | None = None,
    ) -> AsyncCommand:
        """Starts a command beside the shell, which stays free. No deadline unless one is given."""
        return await self.start(
            command,
            background=True,
            timeout_s=timeout_s,
            stdin=stdin,
            stdin_open=stdin_open,
            env=env,
            working_dir=working_dir,
            tty=tty,
            merge_stderr=merge_stderr,
            replace_env=replace_env,
        )

    async def _command(self, command: str | Sequence[str], params: dict[str, Any]) -> dict[str, Any]:
        params["session_id"] = await self.create()
        return self._params(command, params)

    def _params(self, command: str | Sequence[str], params: dict[str, Any]) -> dict[str, Any]:
        """What is said about the command, in the form of the protocol."""
        if isinstance(command, str):
            params["command"] = command
        else:
            params["argv"] = list(command)
        if "env" in params:
            params["env"] = dict(params["env"])
        if isinstance(params.get("stdin"), bytes):
            params["stdin"] = base64.b64encode(params["stdin"]).decode()
            params["stdin_encoding"] = "base64"
        params["run_id"] = self.client.new_id()
        return params

    async def cancel(self, signal: str | int | None = None) -> bool:
        """Ends what runs in the shell now. The shell and its state stay."""
        return (await self.client.exec_cancel(session_id=await self.create(), signal=signal)).cancelled

    async def commands(self) -> list[AsyncCommand]:
        """Handles on the commands that the session knows, oldest first."""
        return [AsyncCommand(self.client, info.exec_id) for info in await self.history()]

    async def history(self) -> list[ExecInfo]:
        return (await self.client.exec_list(session_id=await self.create())).execs

    # The terminal.

    async def screen(self) -> Screen:
        """The terminal of the command that runs, or ran last."""
        return Screen.decode(await self.client.call("exec.screen", {"session_id": await self.create()}))

    async def send_keys(self, *keys: str) -> None:
        """Presses keys at the command that runs in the shell: `send_keys("q")`, `send_keys("Ctrl-C")`."""
        running = (await self.info()).running
        if running is None:
            raise RuntimeError("nothing runs in the session that keys could be sent to")
        await AsyncCommand(self.client, running).send_keys(*keys)

    async def attach(
        self,
        *,
        read_only: bool = True,
        take_over: bool = False,
        rows: int | None = None,
        cols: int | None = None,
    ) -> AsyncEventStream[Output, SessionAttachReply]:
        """The session as a person sees it: bytes for a terminal."""
        return self.client.session_attach(
            session_id=await self.create(), read_only=read_only, take_over=take_over, rows=rows, cols=cols
        )

    async def resize(self, rows: int, cols: int) -> None:
        await self.client.session_resize(session_id=await self.create(), rows=rows, cols=cols)

    # The session itself.

    async def info(self) -> SessionInfo:
        return await self.client.session_info(session_id=await self.create())

    async def restart(self) -> None:
        """A fresh shell with directory, variables, functions, aliases and options restored."""
        await self.client.session_restart(session_id=await self.create())

    async def rename(self, name: str) -> None:
        await self.client.call("session.rename", {"session_id": await self.create(), "name": name})

    async def fork(self, name: str | None = None) -> AsyncSession:
        """A new session with the state of this one."""
        params = given(session_id=await self.create(), name=name)
        made = await self.client.call("session.fork", params)
        fork = type(self)(client=self.client)
        fork._id = str(made["session_id"])
        return fork

    async def destroy(self, *, force: bool = False) -> None:
        """Ends the session. No process that it ever started is left."""
        if self._id is not None:
            await self.client.session_destroy(session_id=self._id, force=force or None)


class _SessionStream(AsyncCommandStream):
    """A stream that makes its session first, if that is not made yet."""

    def __init__(self, session: AsyncSession, params: dict[str, Any]) -> None:
        super().__init__(session.client, "exec.stream", params, owned=True)
        self._session: AsyncSession | None = session

    async def _next(self) -> Any:
        if self._session is not None:
            self._progress.params["session_id"] = await self._session.create()
            self._session = None
        return await super()._next()
