"""How far a stream has come, and how to go on with it over a new connection. No I/O.

A stream that is cut goes on from where it was: no byte is missed, none comes twice.
"""

from __future__ import annotations

import base64
import codecs
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from ._display import Shown, box
from .protocol import (
    ChangeEvent,
    GapEvent,
    MailEvent,
    MissedEvent,
    QueuedEvent,
    StartedEvent,
    SubscribedEvent,
    WaitingEvent,
)

EventT = TypeVar("EventT")
ReplyT = TypeVar("ReplyT", bound=Shown)
StreamName = Literal["stdout", "stderr"]


@dataclass(slots=True)
class Output(Shown):
    """Bytes that a command wrote. `offset` counts from the first byte of its stream."""

    stream: StreamName
    data: bytes = field(repr=False)
    offset: int
    #: The data as text. A character that is cut in two arrives with its second half.
    text: str

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return box(self.text, colour="inherit" if self.stream == "stdout" else "#b00")


CommandEvent = QueuedEvent | StartedEvent | Output | GapEvent | WaitingEvent


class Progress(Generic[EventT, ReplyT]):
    """What a stream has told so far. Subclasses say what its events are and how it is resumed."""

    def __init__(self, method: str, params: dict[str, Any], reply: type[ReplyT]) -> None:
        self.method = method
        self.params = params
        self._reply = reply

    def accept(self, name: str, data: dict[str, Any]) -> EventT | None:
        """The event; None for one that came before, or that this version does not know."""
        raise NotImplementedError

    def resume(self) -> bool:
        """Makes `method` and `params` those of the request that goes on. False: it cannot go on."""
        return False

    def finish(self, data: dict[str, Any]) -> ReplyT:
        return self._reply.decode(data)


class RawProgress(Progress[tuple[str, dict[str, Any]], ReplyT]):
    """A stream that is told as it comes and ends with its connection."""

    def accept(self, name: str, data: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
        return name, data


class CommandProgress(Progress[CommandEvent, ReplyT]):
    """A command, from `exec.stream` or `exec.attach`."""

    def __init__(self, method: str, params: dict[str, Any], reply: type[ReplyT]) -> None:
        super().__init__(method, {**params, "encoding": "base64"}, reply)
        self.exec_id: str | None = params.get("exec_id")
        self._heard = {
            "stdout": int(params.get("stdout_offset", 0)),
            "stderr": int(params.get("stderr_offset", 0)),
        }
        decoder = codecs.getincrementaldecoder("utf-8")
        self._texts = {"stdout": decoder("replace"), "stderr": decoder("replace")}
        self._started = False

    def accept(self, name: str, data: dict[str, Any]) -> CommandEvent | None:
        if name in ("stdout", "stderr"):
            return self._output(name, data)
        if name == "started":
            self.exec_id = str(data["exec_id"])
            repeated, self._started = self._started, True
            return None if repeated else StartedEvent.decode(data)
        if name == "queued":
            repeated, self.exec_id = self.exec_id is not None, str(data["exec_id"])
            return None if repeated else QueuedEvent.decode(data)
        if name == "gap":
            gap = GapEvent.decode(data)
            self._heard[gap.stream] = max(self._heard[gap.stream], gap.to)
            return gap
        if name == "waiting":
            return WaitingEvent.decode(data)
        return None

    def _output(self, stream: StreamName, data: dict[str, Any]) -> Output | None:
        offset = int(data["offset"])
        encoded = data.get("base64")
        piece = str(data["text"]).encode() if encoded is None else base64.b64decode(encoded)
        known = max(0, self._heard[stream] - offset)
        if known >= len(piece):
            return None
        piece = piece[known:]
        offset += known
        self._heard[stream] = offset + len(piece)
        return Output(stream, piece, offset, self._texts[stream].decode(piece))

    def resume(self) -> bool:
        """A command of which nothing was heard is sent again under its `run_id`, so it runs once."""
        if self.exec_id is not None:
            self.method = "exec.attach"
            self.params = {
                "exec_id": self.exec_id,
                "stdout_offset": self._heard["stdout"],
                "stderr_offset": self._heard["stderr"],
                "encoding": "base64",
            }
        return True


class TerminalProgress(Progress[Output, ReplyT]):
    """A session as a person sees it. A new connection begins with the whole screen."""

    def __init__(self, method: str, params: dict[str, Any], reply: type[ReplyT]) -> None:
        super().__init__(method, params, reply)
        self._text = codecs.getincrementaldecoder("utf-8")("replace")

    def accept(self, name: str, data: dict[str, Any]) -> Output | None:
        if name != "stdout":
            return None
        encoded = data.get("base64")
        piece = str(data["text"]).encode() if encoded is None else base64.b64decode(encoded)
        return Output("stdout", piece, int(data["offset"]), self._text.decode(piece))

    def resume(self) -> bool:
        # The host knows the size of the terminal, and perhaps a later one than ours.
        kept = {key: value for key, value in self.params.items() if key not in ("rows", "cols")}
        if not kept.get("read_only"):
            kept["take_over"] = True
        self.params = kept
        self._text.reset()
        return True


class ChangeProgress(Progress[ChangeEvent | MissedEvent | SubscribedEvent, ReplyT]):
    """Changes by number: a new connection begins with the first that was not heard."""

    def accept(self, name: str, data: dict[str, Any]) -> ChangeEvent | MissedEvent | SubscribedEvent | None:
        if name == "change":
            change = ChangeEvent.decode(data)
            if change.seq < self.params.get("from", 0):
                return None
            self._next(change.seq + 1)
            return change
        if name == "missed":
            missed = MissedEvent.decode(data)
            self._next(missed.to)
            return missed
        if name == "subscribed":
            subscribed = SubscribedEvent.decode(data)
            if "from" in self.params:
                return None
            self._next(subscribed.next)
            return subscribed
        return None

    def _next(self, number: int) -> None:
        self.params = {**self.params, "from": number}

    def resume(self) -> bool:
        return True


class MailProgress(Progress[MailEvent, ReplyT]):
    """What waits in an inbox. A new connection tells it anew, if the request says who asks."""

    def accept(self, name: str, data: dict[str, Any]) -> MailEvent | None:
        return MailEvent.decode(data) if name == "mail" else None

    def resume(self) -> bool:
        return "as" in self.params
