# Made from _aio/_files.py by clients/generate; do not edit.
"""Files as a session sees them: its directory, its rights, its isolation."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from .._attempts import TRIES
from .._failures import DaemonError, LostError
from .._results import FileEntry

if TYPE_CHECKING:
    from ._session import Session

#: One request or reply holds at most about this much.
_PIECE = 4 * 1024 * 1024


class Files:
    """A blocking view of a session's files. Relative paths begin at the session's directory."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        given = {name: value for name, value in params.items() if value is not None}
        return self._session.client.call(method, {"session_id": self._session.create(), **given})

    def _call_again(self, method: str, **params: Any) -> dict[str, Any]:
        """The same for what changes nothing if it is done twice: a daemon may go away in the middle of it."""
        left = TRIES
        while True:
            try:
                return self._call(method, **params)
            except LostError:
                left -= 1
                if left == 0:
                    raise

    def read(self, path: str) -> str:
        """The text of a file. Bytes that are no UTF-8 become U+FFFD."""
        return (self.read_bytes(path)).decode("utf-8", "replace")

    def read_bytes(self, path: str) -> bytes:
        found = bytearray()
        while True:
            reply = self._call(
                "file.read", path=path, offset=len(found), limit=_PIECE, encoding="base64"
            )
            piece = base64.b64decode(reply["base64"])
            found += piece
            if not piece or reply["next_offset"] >= reply["total_bytes"]:
                return bytes(found)

    def write(
        self,
        path: str,
        content: str | bytes,
        *,
        append: bool = False,
        mode: int | None = None,
        make_parents: bool = False,
        if_sha256: str | None = None,
    ) -> int:
        """Replaces a file as a whole: a reader sees the old content or the new one.

        More than 4 MiB are written in pieces, and a reader may see some of them. Returns how many
        bytes were written. `if_sha256` writes only if the file now has this content; else
        FileConflictError.
        """
        data = content.encode() if isinstance(content, str) else content
        written = 0
        for begin in range(0, max(len(data), 1), _PIECE):
            is_first = begin == 0
            is_once = append or (is_first and if_sha256 is not None)
            call = self._call if is_once else self._call_again
            reply = call(
                "file.write",
                path=path,
                content=base64.b64encode(data[begin : begin + _PIECE]).decode(),
                encoding="base64",
                append=append or None,
                offset=None if append or is_first else begin,
                mode=f"{mode:04o}" if is_first and mode is not None else None,
                make_parents=(is_first and make_parents) or None,
                if_sha256=if_sha256 if is_first else None,
            )
            written += int(reply["bytes"])
        return written

    def edit(self, path: str, old: str, new: str, *, all: bool = False) -> int:
        """Replaces text that occurs exactly once, or with `all` everywhere. Returns how often."""
        reply = self._call("file.edit", path=path, old=old, new=new, all=all or None)
        return int(reply["replaced"])

    def list(
        self, path: str = ".", *, depth: int | None = None, glob: str | None = None
    ) -> list[FileEntry]:
        reply = self._call("file.list", path=path, depth=depth, glob=glob)
        return [FileEntry.decode(entry) for entry in reply["entries"]]

    def stat(self, path: str) -> FileEntry:
        return FileEntry.decode(self._call("file.stat", path=path))

    def exists(self, path: str) -> bool:
        try:
            self.stat(path)
        except DaemonError as error:
            if error.code == "FILE_NOT_FOUND":
                return False
            raise
        return True

    def move(self, source: str, target: str, *, overwrite: bool = False) -> None:
        self._call("file.move", **{"from": source, "to": target, "overwrite": overwrite or None})

    def remove(self, path: str, *, recursive: bool = False) -> None:
        self._call("file.remove", path=path, recursive=recursive or None)

    def make_dir(self, path: str, *, parents: bool = False) -> None:
        self._call("file.make_dir", path=path, parents=parents or None)
