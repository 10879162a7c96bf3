"""Decides whether a request may be sent again. No I/O.

Three things make that safe: the method only reads; the request carries an id by which
the daemon knows a repetition; or the daemon has not had the request whole.
"""

from __future__ import annotations

import time
from typing import Any

from ._failures import DaemonError, LostError
from ._wire import request_line
from .protocol import ID_PARAMS, REPEATABLE, WAITS

#: A daemon that is being replaced costs one or two.
TRIES = 4


class Attempts:
    """One request, however often it is sent."""

    __slots__ = ("_began", "_left", "_line", "_params", "_repeatable", "id", "method")

    def __init__(self, id: str, method: str, params: dict[str, Any]) -> None:
        self.id = id
        self.method = method
        param = ID_PARAMS.get(method)
        if param is not None and param not in params:
            params = {**params, param: id}
        self._params = params
        self._repeatable = param is not None or method in REPEATABLE
        self._left = TRIES
        self._began = time.monotonic() if method in WAITS else 0.0
        self._line = request_line(id, method, params)

    def line(self) -> bytes:
        """The request as it is sent now: what is left of its time gets shorter with each try."""
        wait = WAITS.get(self.method)
        if wait is None or self._left == TRIES or not self._params.get(wait):
            return self._line
        # Not 0, which is for ever.
        left = max(self._params[wait] - (time.monotonic() - self._began), 0.001)
        return request_line(self.id, self.method, {**self._params, wait: left})

    def ended(self, *, unread: bool) -> None:
        """The connection ended. Returns if the request may be sent again."""
        self._left -= 1
        if self._left == 0 or not (unread or self._repeatable):
            raise LostError(self.method)

    def refused(self, error: DaemonError, *, may_come_back: bool) -> None:
        """The daemon answered with an error. Returns if the next daemon may do better."""
        self._left -= 1
        if error.code != "SHUTTING_DOWN" or not may_come_back or self._left == 0:
            raise error
