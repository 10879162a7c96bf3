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

#: Daemons that may go away with one request before it is given up.
TRIES = 4
#: A daemon that is killed closes its connections first and its socket a moment later: whoever asks again at
#: once may reach it once more. What nobody has read costs no try. This many are a peer that closes them all.
UNREAD = 32
#: A daemon that had a request for this long did not fall over it: a command may outlive any number of them.
LIVED_S = 5.0


class Patience:
    """How often a request that loses its connection is tried again."""

    __slots__ = ("_left", "_sent", "_unread")

    def __init__(self) -> None:
        self._sent = float("inf")
        self.renew()

    def renew(self) -> None:
        """The daemon did something with it."""
        self._left, self._unread = TRIES, UNREAD

    def sent(self) -> None:
        self._sent = time.monotonic()

    def ended(self, *, unread: bool) -> bool:
        """The connection ended. False: that was the last."""
        if time.monotonic() - self._sent >= LIVED_S:
            self.renew()
        if unread:
            self._unread -= 1
        else:
            self._left -= 1
        return self._left > 0 and self._unread > 0


class Attempts:
    """One request, however often it is sent."""

    __slots__ = ("_again", "_began", "_line", "_params", "_patience", "_repeatable", "id", "method")

    def __init__(self, id: str, method: str, params: dict[str, Any]) -> None:
        self.id = id
        self.method = method
        param = ID_PARAMS.get(method)
        if param is not None and param not in params:
            params = {**params, param: id}
        self._params = params
        self._repeatable = param is not None or method in REPEATABLE
        self._patience = Patience()
        self._again = False
        self._began = time.monotonic() if method in WAITS else 0.0
        self._line = request_line(id, method, params)

    def line(self) -> bytes:
        """The request as it is sent now: what is left of its time gets shorter with each try."""
        self._patience.sent()
        wait = WAITS.get(self.method)
        if wait is None or not self._again or not self._params.get(wait):
            return self._line
        # Not 0, which is for ever.
        left = max(self._params[wait] - (time.monotonic() - self._began), 0.001)
        return request_line(self.id, self.method, {**self._params, wait: left})

    def ended(self, *, unread: bool) -> None:
        """The connection ended. Returns if the request may be sent again."""
        self._again = True
        if not self._patience.ended(unread=unread) or not (unread or self._repeatable):
            raise LostError(self.method)

    def refused(self, error: DaemonError, *, may_come_back: bool) -> None:
        """The daemon answered with an error. Returns if the next daemon may do better."""
        self._again = True
        may_try = self._patience.ended(unread=False)
        if error.code != "SHUTTING_DOWN" or not may_come_back or not may_try:
            raise error
