"""What can go wrong. The exceptions for the daemon's own codes are in `_faults.py`."""

from __future__ import annotations

from typing import Any


class TerminalRuntimeError(Exception):
    """Base of every exception of this package. `help` says what can be done about it, if known."""

    def __init__(self, message: str, *, help: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.help = help

    def __str__(self) -> str:
        return f"{self.message}\n{self.help}" if self.help else self.message


class DaemonError(TerminalRuntimeError):
    """The daemon refused the request. `code` is one of the protocol's codes."""

    def __init__(self, code: str, message: str, details: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.details = details
        #: The result of the command, where the error is about one (`check=True`).
        self.result: Any = None

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.code, self.message, self.details), {"result": self.result}


class NoDaemonError(TerminalRuntimeError):
    """Nothing listens where the daemon should be."""


class NotStartedError(TerminalRuntimeError):
    """A daemon was to be started and did not come up."""


class UntrustedSocketError(TerminalRuntimeError):
    """The socket may belong to another user. Nothing was sent."""


class LostError(TerminalRuntimeError):
    """The connection ended before the answer came. The request may have been carried out."""

    def __init__(self, method: str) -> None:
        super().__init__(
            f"the daemon went away before it answered {method}",
            help="the request may have been carried out; it was not sent again",
        )
        self.method = method

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.method,)


class UnreadableError(TerminalRuntimeError):
    """An answer does not have the form that this version of the client knows."""

    def __init__(self, method: str, problem: str) -> None:
        super().__init__(
            f"the answer to {method} cannot be read: {problem}",
            help="client and daemon may be of different versions",
        )
        self.method = method
        self.problem = problem

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.method, self.problem)


class ConnectionEnded(Exception):
    """Internal: the connection ended before the answer. Never leaves the package."""

    def __init__(self, *, unread: bool) -> None:
        super().__init__("the connection ended")
        #: The daemon had not read the request whole, so it has done nothing.
        self.unread = unread
