# Made from _aio/_files.py by clients/generate; do not edit.
"""Files as a session sees them: its directory, its rights, its isolation."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._session import Session

#: One reply of `file.read` holds at most about this much.
_PIECE = 4 * 1024 * 1024


class Files:
    """A blocking view of a session's files. Relative paths begin at the session's directory."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def _call(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        given = {name: value for name, value in params.items() if value is not None}
        return self._session.client.call(method, {"session_id": self._session.create(), **given})

    def read(self, path: str) -> str:
        """The text of a file. Bytes that are no UTF-8 become U+FFFD."""
        return (self.read_bytes(path)).decode("utf-8", "replace")

    def read_bytes(self, path: str) -> bytes:
        found = bytearray()
        while True:
            params = {"path": path, "offset": len(found), "limit": _PIECE, "encoding": "base64"}
            reply = self._call("file.read", params)
            found += base64.b64decode(reply["base64"])
            if reply["next_offset"] >= reply["total_bytes"] or not reply["base64"]:
                return bytes(found)
