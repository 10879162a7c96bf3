"""A handle on a daemon: one request per connection at a time, over as many as it takes."""

from __future__ import annotations

import itertools
import os
import secrets
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from .. import _launch
from .._attempts import Attempts
from .._display import Shown
from .._failures import ConnectionEnded, NoDaemonError, NotStartedError, UnreadableError
from .._http import HttpCodec
from .._locate import HttpTarget, SocketTarget, Start, target
from .._progress import Progress
from .._trust import check_home, check_path
from .._wire import Done, Event, LineCodec
from ._link import AsyncLink
from ._methods import AsyncMethods
from ._pipe import AsyncPipe, in_thread, pause
from ._stream import AsyncEventStream

if TYPE_CHECKING:
    from typing_extensions import Self

ReplyT = TypeVar("ReplyT", bound=Shown)
EventT = TypeVar("EventT")

_KEPT_IDLE = 16
_CONNECT_TIMEOUT_S = 30.0
#: A daemon may be killed as soon as it listens; the next one is not, unless somebody means it.
_STARTS = 3
#: The longest of the pauses between two looks for a daemon that somebody else has to bring back.
_LONGEST_PAUSE_S = 1.0


class AsyncClient(AsyncMethods):
    """An asyncio client of one daemon.

    Without arguments it uses the daemon that `trl` would use, and starts it if there is none.
    `socket` names another socket. `url` and `token` (default: TRL_AUTH_TOKEN) go over HTTP.
    `program` is the `trl` to start, `start=False` starts none. A daemon that this client may
    not start is waited for `reconnect_s` seconds when it goes away.
    """

    def __init__(
        self,
        socket: str | os.PathLike[str] | None = None,
        *,
        url: str | None = None,
        token: str | None = None,
        program: str | os.PathLike[str] | None = None,
        start: bool = True,
        reconnect_s: float = 30.0,
        tls: ssl.SSLContext | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._environ = dict(os.environ if environ is None else environ)
        self._target = target(socket, url, token, program=program, start=start, environ=self._environ)
        self._reconnect_s = reconnect_s
        self._tls = tls
        if tls is None and isinstance(self._target, HttpTarget) and self._target.tls:
            self._tls = ssl.create_default_context()
        self._idle: list[AsyncLink] = []
        self._process = os.getpid()
        self._prefix = f"p{secrets.token_hex(4)}"
        self._numbers = itertools.count(1)

    def __repr__(self) -> str:
        if isinstance(self._target, SocketTarget):
            return f"{type(self).__name__}({str(self._target.path)!r})"
        scheme = "https" if self._target.tls else "http"
        return f"{type(self).__name__}(url='{scheme}://{self._target.authority}')"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connections. Sessions and commands go on."""
        while self._idle:
            self._idle.pop().close()

    async def call(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Asks one thing and waits for its one answer, as the protocol has it."""
        attempts = Attempts(self.new_id(), method, dict(params or {}))
        resuming = False
        while True:
            link = await self.take_link(resuming=resuming)
            resuming = True
            try:
                await link.send(attempts.id, method, attempts.line(), streaming=False)
                incoming = await link.next()
                while isinstance(incoming, Event):
                    incoming = await link.next()
            except ConnectionEnded as ended:
                link.close()
                attempts.ended(unread=ended.unread)
                continue
            except BaseException:
                link.close()
                raise
            if isinstance(incoming, Done):
                self.keep_link(link)
                return incoming.data
            if incoming.error.code != "SHUTTING_DOWN":
                self.keep_link(link)
                raise incoming.error
            await self._leaving(link)
            attempts.refused(incoming.error, may_come_back=self.may_come_back)

    async def _request(self, method: str, params: dict[str, Any], reply: type[ReplyT]) -> ReplyT:
        data = await self.call(method, params)
        try:
            return reply.decode(data)
        except (KeyError, TypeError, ValueError) as error:
            raise UnreadableError(method, repr(error)) from error

    def _stream(self, progress: Progress[EventT, ReplyT]) -> AsyncEventStream[EventT, ReplyT]:
        if progress.method == "exec.stream":
            progress.params.setdefault("run_id", self.new_id())
        return AsyncEventStream(self, progress)

    def new_id(self) -> str:
        """An id that no other request has."""
        self._notice_fork()
        return f"{self._prefix}-{next(self._numbers)}"

    def _notice_fork(self) -> None:
        """A fork shares its parent's ids and sockets: what came on them would be anybody's."""
        if self._process != os.getpid():
            self._idle, self._process = [], os.getpid()
            self._prefix = f"p{secrets.token_hex(4)}"

    @property
    def may_come_back(self) -> bool:
        """Whether a daemon that goes away is followed by another, as far as this client knows."""
        if isinstance(self._target, SocketTarget) and self._target.start is not None:
            return True
        return self._reconnect_s > 0

    async def _leaving(self, link: AsyncLink) -> None:
        """Waits until a daemon that says goodbye is gone: until then its socket accepts."""
        if isinstance(self._target, SocketTarget):
            await link.closed()
        else:
            link.close()

    # Connections. These are for streams and agents, not for users.

    async def take_link(self, *, resuming: bool = False) -> AsyncLink:
        """A connection that nobody uses, else a new one."""
        self._notice_fork()
        while True:
            try:
                link = self._idle.pop()
            except IndexError:
                return await self.open_link(resuming=resuming)
            if link.is_reusable():
                return link
            link.close()

    def keep_link(self, link: AsyncLink) -> None:
        if len(self._idle) < _KEPT_IDLE and link.is_complete():
            self._idle.append(link)
        else:
            link.close()

    async def open_link(self, *, resuming: bool = False) -> AsyncLink:
        """A new connection, to a new daemon if need be and allowed."""
        waited, next_pause = 0.0, 0.02
        while True:
            try:
                return await self._open_once()
            except NoDaemonError:
                if not resuming or waited >= self._reconnect_s:
                    raise
            await pause(next_pause)
            waited += next_pause
            next_pause = min(next_pause * 2, _LONGEST_PAUSE_S)

    async def _open_once(self) -> AsyncLink:
        where = self._target
        if isinstance(where, HttpTarget):
            return await self._open_http(where)
        try:
            return await self._open_socket(where)
        except NoDaemonError:
            if where.start is None:
                raise
        return await self._start(where, where.start)

    async def _open_http(self, where: HttpTarget) -> AsyncLink:
        codec = HttpCodec(where.authority, where.path, where.token)
        try:
            pipe = await AsyncPipe.tcp(where.host, where.port, self._tls, _CONNECT_TIMEOUT_S)
        except ssl.SSLError as error:
            raise NotStartedError(f"no TLS with {where.authority}: {error}") from error
        except (OSError, TimeoutError) as error:
            raise NoDaemonError(f"cannot connect to {where.authority}: {error}") from error
        return AsyncLink(pipe, codec, local=False)

    async def _open_socket(self, where: SocketTarget) -> AsyncLink:
        check_path(where.path)
        try:
            pipe = await AsyncPipe.unix(where.path)
        except (FileNotFoundError, ConnectionRefusedError, ConnectionResetError) as error:
            # Reset: it was killed while we waited to be accepted.
            raise NoDaemonError(
                f"no daemon listens at {where.path}", help="start one with `trl serve`"
            ) from error
        except OSError as error:
            raise NoDaemonError(f"cannot connect to {where.path}: {error}") from error
        if where.state is not None:
            check_home(where.path, where.state)
        return AsyncLink(pipe, LineCodec(), local=True)

    async def _start(self, where: SocketTarget, start: Start) -> AsyncLink:
        for _ in range(_STARTS):
            refused = await in_thread(lambda: _launch.ensure(start, where.path, self._environ))
            try:
                # Refused because another one is there, and that one answers: all is well.
                return await self._open_socket(where)
            except NoDaemonError:
                if refused is not None:
                    raise NotStartedError(f"the daemon did not start: {refused}") from None
        raise NotStartedError(
            f"the daemon ended as soon as it listened, {_STARTS} times", help=f"{start.log} may say more"
        )
