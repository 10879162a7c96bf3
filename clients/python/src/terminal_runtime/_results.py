"""Results that people look at: the reply's fields, and a form that reads well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ._display import Shown, box, note, short
from ._failures import DaemonError
from ._faults import CommandFailedError, CommandTimeoutError
from .protocol import ExecRunReply, ExecScreenReply, ExecStreamReply

Outcome = ExecRunReply | ExecStreamReply


def ending(of: Outcome) -> str:
    """How a command ended, in a few words."""
    if isinstance(of, ExecRunReply) and of.still_running:
        end = "still running"
    elif of.timed_out:
        end = "timed out"
    elif of.cancelled:
        end = "cancelled"
    elif of.signal is not None:
        end = f"ended by {of.signal}"
    elif of.exit_code is None:
        end = "exit status unknown"
    else:
        end = f"exit {of.exit_code}"
    return f"{end} · {of.duration_us / 1000:.1f} ms · {of.working_dir}"


#: What a result's `repr` tells only if it is so.
_REMARKABLE = ("timed_out", "cancelled", "still_running", "syntax_error", "shell_ended", "shell_replaced")


@dataclass(slots=True, kw_only=True, repr=False)
class RunResult(ExecRunReply):
    """How a command ended and what it printed. `str()` is its stdout."""

    def __repr__(self) -> str:
        told = [f"exit_code={self.exit_code}", f"stdout={short(self.stdout)}", f"stderr={short(self.stderr)}"]
        told += [f"{name}=True" for name in _REMARKABLE if getattr(self, name)]
        told += [f"notes={self.notes}"] if self.notes else []
        return f"RunResult({', '.join(told)}, duration_ms={self.duration_ms})"

    @property
    def ok(self) -> bool:
        """Exit status 0, in time and not cancelled."""
        return self.exit_code == 0 and not self.timed_out and not self.cancelled

    def check(self) -> RunResult:
        """This result, or the exception that `check=True` raises."""
        if self.ok:
            return self
        kind, code = (
            (CommandTimeoutError, "COMMAND_TIMEOUT")
            if self.timed_out
            else (CommandFailedError, "COMMAND_FAILED")
        )
        error = kind(code, f"the command did not succeed: {ending(self)}\n{self.stderr[-2000:]}".rstrip())
        error.result = self
        raise error

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        return self.stdout

    def _repr_html_(self) -> str:
        parts = [box(self.stdout)] if self.stdout else []
        if self.stderr:
            parts.append(box(self.stderr, colour="#b00"))
        parts.append(note(" · ".join([ending(self), *self.notes])))
        return "".join(parts)


@dataclass(slots=True, kw_only=True)
class Screen(ExecScreenReply):
    """What a terminal shows. `str()` is its text, without empty lines at the end."""

    @property
    def text(self) -> str:
        return "\n".join(self.lines).rstrip("\n")

    def __contains__(self, text: str) -> bool:
        return text in self.text

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        frame = "border:1px solid;padding:4px;display:inline-block"
        return f"<div style='{frame}'>{box(chr(10).join(self.lines))}</div>" + note(self.title)


@dataclass(slots=True)
class LogMatch(Shown):
    """Text that a command printed and that was waited for."""

    text: str
    stream: str
    #: Where it begins and, if the daemon tells, ends, in bytes of its stream.
    offset: int
    end_offset: int | None = None
    #: Which of several patterns it was.
    index: int = 0

    @classmethod
    def decode(cls, data: dict[str, Any]) -> LogMatch:
        log = data["matched"]["log"]
        return cls(log["text"], log["stream"], log["offset"], log.get("end_offset"), log.get("index") or 0)

    def __str__(self) -> str:
        return self.text


@dataclass(slots=True)
class FileEntry(Shown):
    """A file, directory or link, as a session sees it."""

    path: str
    #: `file`, `directory`, `symlink` or `other`.
    kind: str
    bytes: int
    #: Permissions, as an octal string.
    mode: str
    modified_at: str
    #: Where a symbolic link leads.
    target: str | None = None

    @classmethod
    def decode(cls, data: dict[str, Any]) -> FileEntry:
        return cls(
            data["path"],
            data["kind"],
            data["bytes"],
            str(data["mode"]),
            data["modified_at"],
            data.get("target"),
        )

    def __str__(self) -> str:
        return self.path


def with_result(error: DaemonError) -> DaemonError:
    """The error, with the command's result if its details have one."""
    details = error.details
    if isinstance(details, dict) and "exit_code" in details and "stdout" in details:
        error.result = RunResult.decode(details)  # pyright: ignore[reportUnknownArgumentType]
    return error
