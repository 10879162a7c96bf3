# Made from _aio/_stream.py by clients/generate; do not edit.
"""Events of a request as they come, across cut connections and restarted daemons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .._attempts import Patience
from .._display import Shown
from .._failures import ConnectionEnded, DaemonError, LostError, UnreadableError
from .._progress import Progress
from .._wire import Done, Event, Incoming, request_line
from ._link import Link

if TYPE_CHECKING:
    from typing_extensions import Self

    from ._client import Client

EventT = TypeVar("EventT")
ReplyT = TypeVar("ReplyT", bound=Shown)


class EventStream(Generic[EventT, ReplyT]):
    """A blocking iterator over events. `result` has the reply once the iteration is over.

    The request is sent when the first event is asked for. A stream that is left early does
    not end what it is about: a command runs on.
    """

    def __init__(self, client: Client, progress: Progress[EventT, ReplyT]) -> None:
        self._client = client
        self._progress = progress
        self._link: Link | None = None
        #: The params of the first request, once it may have left.
        self._sent: dict[str, Any] | None = None
        self._result: ReplyT | None = None
        self._over = False
        self._reading = False
        self._patience = Patience()
        self._resuming = False

    @property
    def result(self) -> ReplyT:
        if self._result is None:
            raise RuntimeError("the stream has not ended: iterate over it first")
        return self._result

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> EventT:
        if self._over:
            raise StopIteration
        if self._reading:
            # Both would wait on one connection, and one of them for ever.
            raise RuntimeError("the stream is being read elsewhere: it has one reader at a time")
        self._reading = True
        try:
            event = self._next()
        except BaseException:
            self._over = True
            self._drop()
            raise
        finally:
            self._reading = False
        if event is None:
            raise StopIteration
        return event

    def finish(self) -> ReplyT:
        """Reads what is left and returns the reply."""
        for _ in self:
            pass
        return self.result

    def close(self) -> None:
        self._over = True
        self._drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _next(self) -> EventT | None:
        """None at the end, with the result in its place."""
        while True:
            try:
                incoming = self._incoming()
            except ConnectionEnded as ended:
                self._resume(unread=ended.unread)
                continue
            if isinstance(incoming, Event):
                event = self._accepted(incoming)
                if event is not None:
                    self._patience.renew()
                    return event
            elif isinstance(incoming, Done):
                self._finish(incoming)
                return None
            else:
                self._failed(incoming.error)

    def _incoming(self) -> Incoming:
        if self._link is None:
            self._link = self._send()
        return self._link.next()

    def _send(self) -> Link:
        link = self._client.take_link(resuming=self._resuming)
        self._patience.sent()
        id = self._client.new_id()
        progress = self._progress
        line = request_line(id, progress.method, progress.params)
        self._sent = self._sent or dict(progress.params)
        try:
            link.send(id, progress.method, line, streaming=True)
        except BaseException:
            link.close()
            raise
        return link

    def _accepted(self, event: Event) -> EventT | None:
        try:
            return self._progress.accept(event.name, event.data)
        except (KeyError, TypeError, ValueError) as error:
            raise UnreadableError(self._progress.method, repr(error)) from error

    def _finish(self, done: Done) -> None:
        try:
            self._result = self._progress.finish(done.data)
        except (KeyError, TypeError, ValueError) as error:
            raise UnreadableError(self._progress.method, repr(error)) from error
        self._over = True
        if self._link is not None:
            self._client.keep_link(self._link)
            self._link = None

    def _failed(self, error: DaemonError) -> None:
        """Returns if the stream goes on with the next daemon."""
        if error.code != "SHUTTING_DOWN" or not self._client.may_come_back:
            raise error
        # Its socket still accepts; the end of this connection is the sign that it is gone.
        if self._link is not None:
            self._link.closed()
        self._resume(unread=False)

    def _resume(self, *, unread: bool) -> None:
        self._drop()
        self._resuming = True
        if not self._patience.ended(unread=unread) or not self._progress.resume():
            raise LostError(self._progress.method)

    def _drop(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None
