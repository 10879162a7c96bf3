"""Shells that never lose their place: a client of the Terminal Runtime daemon, `trl`.

    from terminal_runtime import Session

    with Session() as s:
        s.run("cd /tmp; x=42")
        print(s.run("echo $x; pwd").stdout)

`Session`, `Command`, `Agent` and `Client` block; `AsyncSession`, `AsyncCommand`,
`AsyncAgent` and `AsyncClient` are the same with asyncio.
"""

from . import errors, protocol
from ._aio._agent import AsyncAgent
from ._aio._client import AsyncClient
from ._aio._command import AsyncCommand, AsyncCommandStream
from ._aio._files import AsyncFiles
from ._aio._session import AsyncSession
from ._aio._stream import AsyncEventStream
from ._progress import CommandEvent, Output
from ._results import FileEntry, LogMatch, RunResult, Screen
from ._sync._agent import Agent
from ._sync._client import Client
from ._sync._command import Command, CommandStream
from ._sync._files import Files
from ._sync._session import Session
from ._sync._stream import EventStream
from .errors import DaemonError, TerminalRuntimeError
from .protocol import GapEvent, QueuedEvent, StartedEvent, WaitingEvent

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "AsyncAgent",
    "AsyncClient",
    "AsyncCommand",
    "AsyncCommandStream",
    "AsyncEventStream",
    "AsyncFiles",
    "AsyncSession",
    "Client",
    "Command",
    "CommandEvent",
    "CommandStream",
    "DaemonError",
    "EventStream",
    "FileEntry",
    "Files",
    "GapEvent",
    "LogMatch",
    "Output",
    "QueuedEvent",
    "RunResult",
    "Screen",
    "Session",
    "StartedEvent",
    "TerminalRuntimeError",
    "WaitingEvent",
    "errors",
    "protocol",
]
