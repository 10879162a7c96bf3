"""The protocol's types: dataclasses for replies, typed dictionaries for params.

Generated from docs/contract/protocol.json by clients/generate; do not edit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from ._display import Shown

if TYPE_CHECKING:
    from typing_extensions import Self

PROTOCOL_VERSION = 1

METHODS: tuple[str, ...] = (
    "agent.assign",
    "agent.assignments",
    "agent.create",
    "agent.heartbeat",
    "agent.list",
    "agent.release",
    "agent.sessions",
    "agent.unassign",
    "agent.use",
    "agent.whoami",
    "contact.accept",
    "contact.block",
    "contact.decline",
    "contact.list",
    "contact.presence",
    "contact.request",
    "events.subscribe",
    "exec.attach",
    "exec.bind",
    "exec.cancel",
    "exec.info",
    "exec.list",
    "exec.output",
    "exec.resize",
    "exec.run",
    "exec.screen",
    "exec.start",
    "exec.stream",
    "exec.wait",
    "exec.write",
    "file.edit",
    "file.list",
    "file.make_dir",
    "file.move",
    "file.read",
    "file.remove",
    "file.stat",
    "file.write",
    "mail.autorespond",
    "mail.await_reply",
    "mail.check_reply",
    "mail.dead_letters",
    "mail.held",
    "mail.inbox",
    "mail.notices",
    "mail.reply",
    "mail.reset",
    "mail.send",
    "mail.send_and_wait",
    "mail.status",
    "mail.subscribe",
    "runtime.grant",
    "runtime.grants",
    "runtime.revoke",
    "session.attach",
    "session.bind",
    "session.create",
    "session.destroy",
    "session.fork",
    "session.info",
    "session.input",
    "session.list",
    "session.rename",
    "session.resize",
    "session.restart",
    "system.info",
    "system.ping",
    "system.runtimes",
    "system.shutdown",
    "system.stats",
)

CODES: tuple[str, ...] = (
    "AGENT_NOT_FOUND",
    "AUTH_FAILED",
    "COMMAND_FAILED",
    "COMMAND_TIMEOUT",
    "CONTACT_REQUIRED",
    "EXEC_NOT_FOUND",
    "FILE_CONFLICT",
    "FILE_DENIED",
    "FILE_EXISTS",
    "FILE_NOT_FOUND",
    "INTERNAL_ERROR",
    "INVALID_PARAMS",
    "ISOLATION_UNAVAILABLE",
    "LABEL_TAKEN",
    "MAX_SESSIONS_REACHED",
    "MESSAGE_NOT_FOUND",
    "METHOD_NOT_FOUND",
    "NAME_TAKEN",
    "PARSE_ERROR",
    "PAYLOAD_TOO_LARGE",
    "RESOURCE_PRESSURE",
    "RUNTIME_NOT_FOUND",
    "RUNTIME_UNAVAILABLE",
    "SESSION_BUSY",
    "SESSION_LIMIT_EXCEEDED",
    "SESSION_NOT_FOUND",
    "SESSION_TERMINATED",
    "SHUTTING_DOWN",
    "WAIT_TIMEOUT",
)

#: A repetition of these changes nothing.
REPEATABLE: frozenset[str] = frozenset((
    "agent.assign",
    "agent.assignments",
    "agent.list",
    "agent.sessions",
    "agent.unassign",
    "agent.whoami",
    "contact.list",
    "contact.presence",
    "events.subscribe",
    "exec.attach",
    "exec.info",
    "exec.list",
    "exec.output",
    "exec.resize",
    "exec.screen",
    "exec.wait",
    "file.list",
    "file.read",
    "file.stat",
    "mail.dead_letters",
    "mail.held",
    "mail.status",
    "runtime.grants",
    "runtime.revoke",
    "session.info",
    "session.list",
    "session.resize",
    "system.info",
    "system.ping",
    "system.runtimes",
    "system.stats",
))

#: The param that makes a repetition of the method harmless.
ID_PARAMS: dict[str, str] = {
    "exec.run": "run_id",
    "exec.start": "run_id",
    "exec.stream": "run_id",
    "exec.write": "write_id",
    "mail.send": "send_id",
    "mail.send_and_wait": "send_id",
}

#: The param that says how long the daemon may wait.
WAITS: dict[str, str] = {
    "exec.wait": "timeout_s",
}

AgentMode = Literal[
    "daemon",
    "self",
]

AssignScope = Literal[
    "session",
    "project",
    "global",
]

Change = Literal[
    "created",
    "ended",
    "lost",
    "restarted",
    "renamed",
    "queued",
    "started",
    "finished",
    "present",
    "released",
    "sent",
    "read",
    "allowed",
    "refused",
]

ContactState = Literal[
    "accepted",
    "declined",
    "blocked",
    "requested",
    "asking",
    "own",
]

Devices = Literal[
    "minimal",
]

Durability = Literal[
    "process",
    "power",
]

Encoding = Literal[
    "base64",
    "utf8",
]

ExecState = Literal[
    "queued",
    "running",
    "finished",
]

FailReason = Literal[
    "unknown_recipient",
    "not_contact",
    "blocked",
    "mailbox_full",
    "too_large",
    "rate_limited",
    "expired",
    "session_closed",
    "dropped",
    "undecryptable",
]

FileKind = Literal[
    "file",
    "directory",
    "symlink",
    "other",
]

GrantState = Literal[
    "active",
    "expired",
    "revoked",
]

HitLimit = Literal[
    "memory",
    "pids",
    "file_size",
    "cpu_time_s",
]

Policy = Literal[
    "primary",
    "broadcast",
    "drop",
]

Profile = Literal[
    "none",
    "workspace",
    "strict",
]

Released = Literal[
    "taken_over",
    "left",
]

RuntimeKind = Literal[
    "local",
    "container",
    "ssh",
    "trl",
]

RuntimeState = Literal[
    "ready",
    "unreachable",
    "unknown",
]

SessionState = Literal[
    "creating",
    "idle",
    "running",
    "terminated",
    "lost",
    "damaged",
]

State = Literal[
    "read",
    "replied",
    "failed",
    "queued",
    "sealed",
    "relayed",
    "delivered",
    "held",
    "routed",
    "offered",
]

Stream = Literal[
    "stdout",
    "stderr",
]

Switch = Literal[
    "on",
    "off",
    "status",
]

Topic = Literal[
    "session",
    "exec",
    "agent",
    "mail",
    "net",
]

Whereabouts = Literal[
    "online",
    "away",
    "unknown",
]


@dataclass(slots=True, kw_only=True)
class AgentAssignmentsReply(Shown):
    #: Those of the harness session that was named, of all projects, and the global one.
    assignments: list[Assignment]
    #: The agent that the named harness session and project get.
    effective: str | None = None

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            assignments=[Assignment.decode(item) for item in data["assignments"]],
            effective=data.get("effective"),
        )


@dataclass(slots=True, kw_only=True)
class AgentCreateReply(Shown):
    address: str
    agent: str

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            address=data["address"],
            agent=data["agent"],
        )


@dataclass(slots=True, kw_only=True)
class AgentHeartbeatReply(Shown):
    label: str
    #: Messages that wait in this session's inbox.
    waiting: int

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            label=data["label"],
            waiting=data["waiting"],
        )


@dataclass(slots=True, kw_only=True)
class AgentListReply(Shown):
    agents: list[AgentRow]

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            agents=[AgentRow.decode(item) for item in data["agents"]],
        )


@dataclass(slots=True, kw_only=True)
class AgentReleaseReply(Shown):
    label: str

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            label=data["label"],
        )


@dataclass(slots=True, kw_only=True)
class AgentRow(Shown):
    address: str
    agent: str
    live_sessions: list[str]

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            address=data["address"],
            agent=data["agent"],
            live_sessions=data["live_sessions"],
        )


@dataclass(slots=True, kw_only=True)
class AgentSessionsReply(Shown):
    sessions: list[SessionRow]

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            sessions=[SessionRow.decode(item) for item in data["sessions"]],
        )


@dataclass(slots=True, kw_only=True)
class AgentUnassignReply(Shown):
    #: False if there was no such assignment.
    removed: bool
    scope: AssignScope

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            removed=data["removed"],
            scope=data["scope"],
        )


@dataclass(slots=True, kw_only=True)
class AgentUseReply(Shown):
    address: str
    agent: str
    label: str
    live_sessions: list[str]
    mode: AgentMode
    #: Why this label was granted.
    reason: str | None = None
    requested: str | None = None
    #: Proves this session on other connections, as param `as`.
    token: str

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            address=data["address"],
            agent=data["agent"],
            label=data["label"],
            live_sessions=data["live_sessions"],
            mode=data["mode"],
            reason=data.get("reason"),
            requested=data.get("requested"),
            token=data["token"],
        )


@dataclass(slots=True, kw_only=True)
class AgentWhoamiReply(Shown):
    address: str
    agent: str
    label: str
    live_sessions: list[str]
    mode: AgentMode

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            address=data["address"],
            agent=data["agent"],
            label=data["label"],
            live_sessions=data["live_sessions"],
            mode=data["mode"],
        )


@dataclass(slots=True, kw_only=True)
class Assignment(Shown):
    agent: str
    #: The harness session id or the directory; missing for `global`.
    key: str | None = None
    scope: AssignScope

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            agent=data["agent"],
            key=data.get("key"),
            scope=data["scope"],
        )


@dataclass(slots=True, kw_only=True)
class ChangeEvent(Shown):
    """One change. What it is not about is left out."""

    agent: str | None = None
    #: RFC 3339, UTC, milliseconds.
    at: str
    background: bool | None = None
    cancelled: bool | None = None
    change: Change
    exec_id: str | None = None
    exit_code: int | None = None
    #: That a session wanted to reach: `name:port`.
    host: str | None = None
    label: str | None = None
    message_id: str | None = None
    #: Of the session.
    name: str | None = None
    #: Why a session ended, or why a host was refused.
    reason: str | None = None
    #: The runtime that the session is on, if that is another daemon.
    runtime: str | None = None
    #: Larger with every change, also across restarts of the daemon.
    seq: int
    session_id: str | None = None
    signal: str | None = None
    #: Of the command.
    state: ExecState | None = None
    timed_out: bool | None = None
    topic: Topic

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            agent=data.get("agent"),
            at=data["at"],
            background=data.get("background"),
            cancelled=data.get("cancelled"),
            change=data["change"],
            exec_id=data.get("exec_id"),
            exit_code=data.get("exit_code"),
            host=data.get("host"),
            label=data.get("label"),
            message_id=data.get("message_id"),
            name=data.get("name"),
            reason=data.get("reason"),
            runtime=data.get("runtime"),
            seq=data["seq"],
            session_id=data.get("session_id"),
            signal=data.get("signal"),
            state=data.get("state"),
            timed_out=data.get("timed_out"),
            topic=data["topic"],
        )


@dataclass(slots=True, kw_only=True)
class ContactListReply(Shown):
    contacts: list[ContactRow]

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            contacts=[ContactRow.decode(item) for item in data["contacts"]],
        )


@dataclass(slots=True, kw_only=True)
class ContactPresenceReply(Shown):
    contacts: list[PresenceRow]

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            contacts=[PresenceRow.decode(item) for item in data["contacts"]],
        )


@dataclass(slots=True, kw_only=True)
class ContactRow(Shown):
    address: str
    since: str
    state: ContactState
    who: str

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            address=data["address"],
            since=data["since"],
            state=data["state"],
            who=data["who"],
        )


@dataclass(slots=True, kw_only=True)
class Cursor(Shown):
    """Counted from 0 at the top left."""

    col: int
    row: int
    visible: bool

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            col=data["col"],
            row=data["row"],
            visible=data["visible"],
        )


@dataclass(slots=True, kw_only=True)
class DeadLetter(Shown):
    at: str
    from_: str
    message_id: str | None
    reason: str

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            at=data["at"],
            from_=data["from"],
            message_id=data["message_id"],
            reason=data["reason"],
        )


@dataclass(slots=True, kw_only=True)
class Enforced(Shown):
    by: str
    what: str

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            by=data["by"],
            what=data["what"],
        )


@dataclass(slots=True, kw_only=True)
class EventsSubscribeReply(Shown):
    """The daemon ends; a later subscription may go on from `next`."""

    events: int
    next: int

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            events=data["events"],
            next=data["next"],
        )


@dataclass(slots=True, kw_only=True)
class ExecAttachReply(Shown):
    """The answer to `exec.stream` and `exec.attach`: `exec.run`'s without the two texts."""

    cancelled: bool
    duration_ms: int
    duration_us: int
    exec_id: str
    #: As the shell saw it; null if nobody saw it.
    exit_code: int | None
    #: The limit of the session that it ran into.
    limit: HitLimit | None = None
    notes: list[str] = field(default_factory=list[str])
    #: The session's shell ended with this command (`exit`, `exec`, a signal).
    shell_ended: bool = False
    #: This command ran in a new shell with the restored state, or ending it cost the
    #: shell.
    shell_replaced: bool = False
    #: The signal that ended the command or its shell, where one is known.
    signal: str | None = None
    stderr_bytes: int
    stderr_lossy: bool = False
    stderr_truncated: bool
    stdout_bytes: int
    stdout_lossy: bool = False
    stdout_truncated: bool
    #: `soft_timeout_s` passed: this is the result so far, and the command continues.
    still_running: bool = False
    #: The shell could not parse the command.
    syntax_error: bool = False
    timed_out: bool
    working_dir: str

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            cancelled=data["cancelled"],
            duration_ms=data["duration_ms"],
            duration_us=data["duration_us"],
            exec_id=data["exec_id"],
            exit_code=data["exit_code"],
            limit=data.get("limit"),
            notes=data.get("notes") or [],
            shell_ended=data.get("shell_ended", False),
            shell_replaced=data.get("shell_replaced", False),
            signal=data.get("signal"),
            stderr_bytes=data["stderr_bytes"],
            stderr_lossy=data.get("stderr_lossy", False),
            stderr_truncated=data["stderr_truncated"],
            stdout_bytes=data["stdout_bytes"],
            stdout_lossy=data.get("stdout_lossy", False),
            stdout_truncated=data["stdout_truncated"],
            still_running=data.get("still_running", False),
            syntax_error=data.get("syntax_error", False),
            timed_out=data["timed_out"],
            working_dir=data["working_dir"],
        )


@dataclass(slots=True, kw_only=True)
class ExecBindReply(Shown):
    bound: bool
    exec_id: str

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            bound=data["bound"],
            exec_id=data["exec_id"],
        )


@dataclass(slots=True, kw_only=True)
class ExecCancelReply(Shown):
    #: False if there was nothing to cancel.
    cancelled: bool
    #: The command that was cancelled; null if nothing ran.
    exec_id: str | None

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            cancelled=data["cancelled"],
            exec_id=data["exec_id"],
        )


@dataclass(slots=True, kw_only=True)
class ExecInfo(Shown):
    """What `exec.info` tells, and each row of `exec.list`."""

    background: bool
    cancelled: bool = False
    command: str
    created_at: str
    duration_ms: int | None = None
    duration_us: int | None = None
    exec_id: str
    exit_code: int | None = None
    finished_at: str | None = None
    limit: HitLimit | None = None
    notes: list[str] = field(default_factory=list[str])
    #: Process that runs it: the shell's for a foreground command.
    pid: int | None = None
    session_id: str
    shell_ended: bool = False
    shell_replaced: bool = False
    signal: str | None = None
    started_at: str | None = None
    state: ExecState
    stderr_bytes: int
    stderr_dropped_bytes: int
    stderr_truncated: bool = False
    #: Bytes of its input that wait, because it has not read what came before them.
    stdin_waiting_bytes: int | None = None
    #: Bytes seen so far; may grow after the end, by background children.
    stdout_bytes: int
    #: Bytes that the journal no longer holds.
    stdout_dropped_bytes: int
    stdout_truncated: bool = False
    syntax_error: bool = False
    timed_out: bool = False
    tty: bool
    #: True when the command reads from its terminal and nobody has answered, with the
    #: prompt.
    waiting_for_input: str | None = None
    working_dir: str | None = None

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            background=data["background"],
            cancelled=data.get("cancelled", False),
            command=data["command"],
            created_at=data["created_at"],
            duration_ms=data.get("duration_ms"),
            duration_us=data.get("duration_us"),
            exec_id=data["exec_id"],
            exit_code=data.get("exit_code"),
            finished_at=data.get("finished_at"),
            limit=data.get("limit"),
            notes=data.get("notes") or [],
            pid=data.get("pid"),
            session_id=data["session_id"],
            shell_ended=data.get("shell_ended", False),
            shell_replaced=data.get("shell_replaced", False),
            signal=data.get("signal"),
            started_at=data.get("started_at"),
            state=data["state"],
            stderr_bytes=data["stderr_bytes"],
            stderr_dropped_bytes=data["stderr_dropped_bytes"],
            stderr_truncated=data.get("stderr_truncated", False),
            stdin_waiting_bytes=data.get("stdin_waiting_bytes"),
            stdout_bytes=data["stdout_bytes"],
            stdout_dropped_bytes=data["stdout_dropped_bytes"],
            stdout_truncated=data.get("stdout_truncated", False),
            syntax_error=data.get("syntax_error", False),
            timed_out=data.get("timed_out", False),
            tty=data["tty"],
            waiting_for_input=data.get("waiting_for_input"),
            working_dir=data.get("working_dir"),
        )


@dataclass(slots=True, kw_only=True)
class ExecListReply(Shown):
    execs: list[ExecInfo]

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            execs=[ExecInfo.decode(item) for item in data["execs"]],
        )


@dataclass(slots=True, kw_only=True)
class ExecOutputReply(Shown):
    """A range of kept output: `text` or `base64`, as asked."""

    base64: str | None = None
    #: Bytes of this stream that are no longer kept.
    dropped_bytes: int
    lossy: bool = False
    next_offset: int
    #: Where this range begins; later than asked if the bytes before are dropped.
    offset: int
    text: str | None = None
    total_bytes: int

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            base64=data.get("base64"),
            dropped_bytes=data["dropped_bytes"],
            lossy=data.get("lossy", False),
            next_offset=data["next_offset"],
            offset=data["offset"],
            text=data.get("text"),
            total_bytes=data["total_bytes"],
        )


@dataclass(slots=True, kw_only=True)
class ExecResizeReply(Shown):
    cols: int
    exec_id: str
    rows: int

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            cols=data["cols"],
            exec_id=data["exec_id"],
            rows=data["rows"],
        )


@dataclass(slots=True, kw_only=True)
class ExecRunReply(Shown):
    """The answer to `exec.run`."""

    cancelled: bool
    duration_ms: int
    duration_us: int
    exec_id: str
    #: As the shell saw it; null if nobody saw it.
    exit_code: int | None
    #: The limit of the session that it ran into.
    limit: HitLimit | None = None
    notes: list[str] = field(default_factory=list[str])
    #: The session's shell ended with this command (`exit`, `exec`, a signal).
    shell_ended: bool = False
    #: This command ran in a new shell with the restored state, or ending it cost the
    #: shell.
    shell_replaced: bool = False
    #: The signal that ended the command or its shell, where one is known.
    signal: str | None = None
    stderr: str
    stderr_bytes: int
    stderr_lossy: bool = False
    stderr_truncated: bool
    stdout: str
    stdout_bytes: int
    stdout_lossy: bool = False
    stdout_truncated: bool
    #: `soft_timeout_s` passed: this is the result so far, and the command continues.
    still_running: bool = False
    #: The shell could not parse the command.
    syntax_error: bool = False
    timed_out: bool
    working_dir: str

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            cancelled=data["cancelled"],
            duration_ms=data["duration_ms"],
            duration_us=data["duration_us"],
            exec_id=data["exec_id"],
            exit_code=data["exit_code"],
            limit=data.get("limit"),
            notes=data.get("notes") or [],
            shell_ended=data.get("shell_ended", False),
            shell_replaced=data.get("shell_replaced", False),
            signal=data.get("signal"),
            stderr=data["stderr"],
            stderr_bytes=data["stderr_bytes"],
            stderr_lossy=data.get("stderr_lossy", False),
            stderr_truncated=data["stderr_truncated"],
            stdout=data["stdout"],
            stdout_bytes=data["stdout_bytes"],
            stdout_lossy=data.get("stdout_lossy", False),
            stdout_truncated=data["stdout_truncated"],
            still_running=data.get("still_running", False),
            syntax_error=data.get("syntax_error", False),
            timed_out=data["timed_out"],
            working_dir=data["working_dir"],
        )


@dataclass(slots=True, kw_only=True)
class ExecScreenReply(Shown):
    """What a person would see on the terminal of a command."""

    #: A full-screen program has the alternate screen.
    alternate: bool
    #: The program wants arrows as `ESC O A` instead of `ESC [ A`.
    application_cursor: bool
    #: The program wants to know where pasted text begins and ends.
    bracketed_paste: bool
    cols: int
    cursor: Cursor
    exec_id: str
    #: As many as `rows`, without blanks at their ends.
    lines: list[str]
    rows: int
    title: str
    #: The prompt, if the command reads from its terminal and nobody has answered.
    waiting_for_input: str | None = None

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            alternate=data["alternate"],
            application_cursor=data["application_cursor"],
            bracketed_paste=data["bracketed_paste"],
            cols=data["cols"],
            cursor=Cursor.decode(data["cursor"]),
            exec_id=data["exec_id"],
            lines=data["lines"],
            rows=data["rows"],
            title=data["title"],
            waiting_for_input=data.get("waiting_for_input"),
        )


@dataclass(slots=True, kw_only=True)
class ExecStartReply(Shown):
    exec_id: str
    pid: int | None = None
    session_id: str
    state: ExecState

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            exec_id=data["exec_id"],
            pid=data.get("pid"),
            session_id=data["session_id"],
            state=data["state"],
        )


@dataclass(slots=True, kw_only=True)
class ExecStreamReply(Shown):
    """The answer to `exec.stream` and `exec.attach`: `exec.run`'s without the two texts."""

    cancelled: bool
    duration_ms: int
    duration_us: int
    exec_id: str
    #: As the shell saw it; null if nobody saw it.
    exit_code: int | None
    #: The limit of the session that it ran into.
    limit: HitLimit | None = None
    notes: list[str] = field(default_factory=list[str])
    #: The session's shell ended with this command (`exit`, `exec`, a signal).
    shell_ended: bool = False
    #: This command ran in a new shell with the restored state, or ending it cost the
    #: shell.
    shell_replaced: bool = False
    #: The signal that ended the command or its shell, where one is known.
    signal: str | None = None
    stderr_bytes: int
    stderr_lossy: bool = False
    stderr_truncated: bool
    stdout_bytes: int
    stdout_lossy: bool = False
    stdout_truncated: bool
    #: `soft_timeout_s` passed: this is the result so far, and the command continues.
    still_running: bool = False
    #: The shell could not parse the command.
    syntax_error: bool = False
    timed_out: bool
    working_dir: str

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            cancelled=data["cancelled"],
            duration_ms=data["duration_ms"],
            duration_us=data["duration_us"],
            exec_id=data["exec_id"],
            exit_code=data["exit_code"],
            limit=data.get("limit"),
            notes=data.get("notes") or [],
            shell_ended=data.get("shell_ended", False),
            shell_replaced=data.get("shell_replaced", False),
            signal=data.get("signal"),
            stderr_bytes=data["stderr_bytes"],
            stderr_lossy=data.get("stderr_lossy", False),
            stderr_truncated=data["stderr_truncated"],
            stdout_bytes=data["stdout_bytes"],
            stdout_lossy=data.get("stdout_lossy", False),
            stdout_truncated=data["stdout_truncated"],
            still_running=data.get("still_running", False),
            syntax_error=data.get("syntax_error", False),
            timed_out=data["timed_out"],
            working_dir=data["working_dir"],
        )


@dataclass(slots=True, kw_only=True)
class ExecWaitOffsets(Shown):
    """A place in each stream of a command, in bytes."""

    stderr: int | None = None
    stdout: int | None = None

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            stderr=data.get("stderr"),
            stdout=data.get("stdout"),
        )


@dataclass(slots=True, kw_only=True)
class ExecWaitReply(Shown):
    """The answer to `exec.wait`."""

    background: bool
    cancelled: bool = False
    command: str
    created_at: str
    duration_ms: int | None = None
    duration_us: int | None = None
    exec_id: str
    exit_code: int | None = None
    finished_at: str | None = None
    limit: HitLimit | None = None
    matched: Matched
    notes: list[str] = field(default_factory=list[str])
    #: Process that runs it: the shell's for a foreground command.
    pid: int | None = None
    session_id: str
    shell_ended: bool = False
    shell_replaced: bool = False
    signal: str | None = None
    started_at: str | None = None
    state: ExecState
    stderr_bytes: int
    stderr_dropped_bytes: int
    stderr_truncated: bool = False
    #: Bytes of its input that wait, because it has not read what came before them.
    stdin_waiting_bytes: int | None = None
    #: Bytes seen so far; may grow after the end, by background children.
    stdout_bytes: int
    #: Bytes that the journal no longer holds.
    stdout_dropped_bytes: int
    stdout_truncated: bool = False
    syntax_error: bool = False
    timed_out: bool = False
    tty: bool
    #: True when the command reads from its terminal and nobody has answered, with the
    #: prompt.
    waiting_for_input: str | None = None
    working_dir: str | None = None

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            background=data["background"],
            cancelled=data.get("cancelled", False),
            command=data["command"],
            created_at=data["created_at"],
            duration_ms=data.get("duration_ms"),
            duration_us=data.get("duration_us"),
            exec_id=data["exec_id"],
            exit_code=data.get("exit_code"),
            finished_at=data.get("finished_at"),
            limit=data.get("limit"),
            matched=Matched.decode(data["matched"]),
            notes=data.get("notes") or [],
            pid=data.get("pid"),
            session_id=data["session_id"],
            shell_ended=data.get("shell_ended", False),
            shell_replaced=data.get("shell_replaced", False),
            signal=data.get("signal"),
            started_at=data.get("started_at"),
            state=data["state"],
            stderr_bytes=data["stderr_bytes"],
            stderr_dropped_bytes=data["stderr_dropped_bytes"],
            stderr_truncated=data.get("stderr_truncated", False),
            stdin_waiting_bytes=data.get("stdin_waiting_bytes"),
            stdout_bytes=data["stdout_bytes"],
            stdout_dropped_bytes=data["stdout_dropped_bytes"],
            stdout_truncated=data.get("stdout_truncated", False),
            syntax_error=data.get("syntax_error", False),
            timed_out=data.get("timed_out", False),
            tty=data["tty"],
            waiting_for_input=data.get("waiting_for_input"),
            working_dir=data.get("working_dir"),
        )


@dataclass(slots=True, kw_only=True)
class ExecWriteReply(Shown):
    bytes: int
    #: This write had been applied before.
    duplicate: bool = False
    eof: bool
    exec_id: str

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            bytes=data["bytes"],
            duplicate=data.get("duplicate", False),
            eof=data["eof"],
            exec_id=data["exec_id"],
        )


@dataclass(slots=True, kw_only=True)
class FileEditReply(Shown):
    #: Occurrences that were replaced.
    replaced: int
    #: Of the whole file afterwards.
    sha256: str

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            replaced=data["replaced"],
            sha256=data["sha256"],
        )


@dataclass(slots=True, kw_only=True)
class FileEntry(Shown):
    bytes: int
    kind: FileKind
    mode: str
    #: RFC 3339, UTC.
    modified_at: str
    #: Can be given to other requests of the session as it is.
    path: str
    #: Where a symbolic link leads, as it is written there.
    target: str | None = None

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            bytes=data["bytes"],
            kind=data["kind"],
            mode=data["mode"],
            modified_at=data["modified_at"],
            path=data["path"],
            target=data.get("target"),
        )


@dataclass(slots=True, kw_only=True)
class FileListReply(Shown):
    #: Sorted by path.
    entries: list[FileEntry]
    #: There are more entries than are listed.
    truncated: bool

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            entries=[FileEntry.decode(item) for item in data["entries"]],
            truncated=data["truncated"],
        )


@dataclass(slots=True, kw_only=True)
class FileMakeDirReply(Shown):
    path: str

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            path=data["path"],
        )


@dataclass(slots=True, kw_only=True)
class FileMoveReply(Shown):
    from_: str
    to: str

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            from_=data["from"],
            to=data["to"],
        )


@dataclass(slots=True, kw_only=True)
class FileReadReply(Shown):
    base64: str | None = None
    #: The bytes are not UTF-8; U+FFFD stands for what is not.
    lossy: bool = False
    #: Where the next part begins.
    next_offset: int
    offset: int
    #: Of the whole file, if this reply has all of it.
    sha256: str | None = None
    text: str | None = None
    total_bytes: int

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            base64=data.get("base64"),
            lossy=data.get("lossy", False),
            next_offset=data["next_offset"],
            offset=data["offset"],
            sha256=data.get("sha256"),
            text=data.get("text"),
            total_bytes=data["total_bytes"],
        )


@dataclass(slots=True, kw_only=True)
class FileRemoveReply(Shown):
    path: str

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            path=data["path"],
        )


@dataclass(slots=True, kw_only=True)
class FileWriteReply(Shown):
    #: Bytes that were written.
    bytes: int
    #: Of the whole file afterwards; missing if something was added to a large one.
    sha256: str | None = None
    #: Size of the file afterwards.
    total_bytes: int

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            bytes=data["bytes"],
            sha256=data.get("sha256"),
            total_bytes=data["total_bytes"],
        )


@dataclass(slots=True, kw_only=True)
class Foreign(Shown):
    #: Its name on that daemon, which is no name here.
    name: str | None

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            name=data["name"],
        )


@dataclass(slots=True, kw_only=True)
class GapEvent(Shown):
    """Bytes between the two offsets are no longer kept."""

    from_: int
    stream: Stream
    to: int

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            from_=data["from"],
            stream=data["stream"],
            to=data["to"],
        )


@dataclass(slots=True, kw_only=True)
class GrantRow(Shown):
    address: str
    agent: str
    #: RFC 3339.
    created_at: str
    expires_at: str | None
    grant_id: str
    granted_by: str
    limits: SessionLimits
    max_sessions: int | None = None
    profile: Profile
    revoked_at: str | None = None
    #: Sessions under it that live.
    sessions: list[str]
    state: GrantState
    working_dir: str | None = None

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            address=data["address"],
            agent=data["agent"],
            created_at=data["created_at"],
            expires_at=data["expires_at"],
            grant_id=data["grant_id"],
            granted_by=data["granted_by"],
            limits=SessionLimits.decode(data["limits"]),
            max_sessions=data.get("max_sessions"),
            profile=data["profile"],
            revoked_at=data.get("revoked_at"),
            sessions=data["sessions"],
            state=data["state"],
            working_dir=data.get("working_dir"),
        )


@dataclass(slots=True, kw_only=True)
class HeldRow(Shown):
    #: When it goes back to its sender.
    bounces_at: str | None
    from_: str
    message_id: str
    since: str
    to_session: str | None

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            bounces_at=data["bounces_at"],
            from_=data["from"],
            message_id=data["message_id"],
            since=data["since"],
            to_session=data["to_session"],
        )


@dataclass(slots=True, kw_only=True)
class HistoryRow(Shown):
    at: str
    reason: FailReason | None = None
    state: State

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            at=data["at"],
            reason=data.get("reason"),
            state=data["state"],
        )


@dataclass(slots=True, kw_only=True)
class IsolationReport(Shown):
    """What is enforced, and by what."""

    enforced: list[Enforced]
    #: What was asked for and cannot be enforced here; only with `best_effort`.
    missing: list[Missing]
    requested: SessionInfoIsolation

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            enforced=[Enforced.decode(item) for item in data["enforced"]],
            missing=[Missing.decode(item) for item in data["missing"]],
            requested=SessionInfoIsolation.decode(data["requested"]),
        )


@dataclass(slots=True, kw_only=True)
class LimitsInfo(Shown):
    default_timeout_s: float
    journal_bytes: int
    max_command_bytes: int
    max_idle_s: float
    max_line_bytes: int
    max_output_bytes: int
    max_sessions: int
    max_stdin_bytes: int
    session_ttl_s: float

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            default_timeout_s=data["default_timeout_s"],
            journal_bytes=data["journal_bytes"],
            max_command_bytes=data["max_command_bytes"],
            max_idle_s=data["max_idle_s"],
            max_line_bytes=data["max_line_bytes"],
            max_output_bytes=data["max_output_bytes"],
            max_sessions=data["max_sessions"],
            max_stdin_bytes=data["max_stdin_bytes"],
            session_ttl_s=data["session_ttl_s"],
        )


@dataclass(slots=True, kw_only=True)
class MailAutorespondReply(Shown):
    answered_today: int
    command: list[str] | None
    #: Whether the command may use the network.
    network: bool
    on: bool
    #: What keeps the command to its one task: `namespaces+landlock+seccomp`,
    #: `landlock+seccomp` where namespaces are not allowed, or `none` where the system has
    #: neither.
    sandbox: str

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            answered_today=data["answered_today"],
            command=data["command"],
            network=data["network"],
            on=data["on"],
            sandbox=data["sandbox"],
        )


@dataclass(slots=True, kw_only=True)
class MailAwaitReplyReply(Shown):
    #: No reply can come: the message itself failed.
    failed: FailReason | None = None
    message_id: str
    reply: Message | None
    timed_out: bool

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            failed=data.get("failed"),
            message_id=data["message_id"],
            reply=(None if (item := data["reply"]) is None else Message.decode(item)),
            timed_out=data["timed_out"],
        )


@dataclass(slots=True, kw_only=True)
class MailCheckReplyReply(Shown):
    reply: Message | None

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            reply=(None if (item := data["reply"]) is None else Message.decode(item)),
        )


@dataclass(slots=True, kw_only=True)
class MailDeadLettersReply(Shown):
    dead_letters: list[DeadLetter]

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            dead_letters=[DeadLetter.decode(item) for item in data["dead_letters"]],
        )


@dataclass(slots=True, kw_only=True)
class MailEvent(Shown):
    """An event of `mail.subscribe`: counts and ids, never a body."""

    count: int
    ids: list[str]

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            count=data["count"],
            ids=data["ids"],
        )


@dataclass(slots=True, kw_only=True)
class MailHeldReply(Shown):
    messages: list[HeldRow]

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            messages=[HeldRow.decode(item) for item in data["messages"]],
        )


@dataclass(slots=True, kw_only=True)
class MailInboxReply(Shown):
    messages: list[Message]
    remaining: int

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            messages=[Message.decode(item) for item in data["messages"]],
            remaining=data["remaining"],
        )


@dataclass(slots=True, kw_only=True)
class MailNoticesReply(Shown):
    #: Missing if the harness session speaks for no agent.
    agent: str | None = None
    #: A process waits to wake this session.
    has_waiter: bool = False
    label: str | None = None
    #: Messages that nobody has announced to this session, oldest first.
    new: list[Notice]
    #: The caller was a waiter, and another has taken its place or the harness session has
    #: ended.
    over: bool = False
    #: All that wait for this session.
    unread: int

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            agent=data.get("agent"),
            has_waiter=data.get("has_waiter", False),
            label=data.get("label"),
            new=[Notice.decode(item) for item in data["new"]],
            over=data.get("over", False),
            unread=data["unread"],
        )


@dataclass(slots=True, kw_only=True)
class MailReplyReply(Shown):
    #: The same message had been sent within `unless_sent_within_s`, and was not sent
    #: again.
    duplicate: bool = False
    from_session: str
    message_id: str
    state: State
    to_session: str | None
    #: The relay that carries it.
    via: str

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            duplicate=data.get("duplicate", False),
            from_session=data["from_session"],
            message_id=data["message_id"],
            state=data["state"],
            to_session=data["to_session"],
            via=data["via"],
        )


@dataclass(slots=True, kw_only=True)
class MailResetReply(Shown):
    """New keys are exchanged with a peer; what it has not confirmed is sealed and sent
    again.
    """

    address: str
    #: Messages that are sent again.
    resent: int
    who: str

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            address=data["address"],
            resent=data["resent"],
            who=data["who"],
        )


@dataclass(slots=True, kw_only=True)
class MailSendAndWaitReply(Shown):
    #: No reply can come: the message itself failed.
    failed: FailReason | None = None
    message_id: str
    reply: Message | None
    timed_out: bool

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            failed=data.get("failed"),
            message_id=data["message_id"],
            reply=(None if (item := data["reply"]) is None else Message.decode(item)),
            timed_out=data["timed_out"],
        )


@dataclass(slots=True, kw_only=True)
class MailSendReply(Shown):
    #: The same message had been sent within `unless_sent_within_s`, and was not sent
    #: again.
    duplicate: bool = False
    from_session: str
    message_id: str
    state: State
    to_session: str | None
    #: The relay that carries it.
    via: str

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            duplicate=data.get("duplicate", False),
            from_session=data["from_session"],
            message_id=data["message_id"],
            state=data["state"],
            to_session=data["to_session"],
            via=data["via"],
        )


@dataclass(slots=True, kw_only=True)
class MailStatusReply(Shown):
    history: list[HistoryRow]
    message_id: str
    reason: FailReason | None = None
    state: State

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            history=[HistoryRow.decode(item) for item in data["history"]],
            message_id=data["message_id"],
            reason=data.get("reason"),
            state=data["state"],
        )


@dataclass(slots=True, kw_only=True)
class MailSubscribeReply(Shown):
    """How `mail.subscribe` is answered when the daemon ends."""

    #: How many events were sent.
    events: int

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            events=data["events"],
        )


@dataclass(slots=True, kw_only=True)
class Matched(Shown):
    """What was waited for and came."""

    exit: bool = False
    log: MatchedLog | None = None
    port: MatchedPort | None = None

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            exit=data.get("exit", False),
            log=(None if (item := data.get("log")) is None else MatchedLog.decode(item)),
            port=(None if (item := data.get("port")) is None else MatchedPort.decode(item)),
        )


@dataclass(slots=True, kw_only=True)
class MatchedLog(Shown):
    #: Where in the stream it ends.
    end_offset: int
    #: Which of several patterns it is.
    index: int
    #: Where to go on: behind the match in its stream, and where the search began in the
    #: other.
    next_offsets: ExecWaitOffsets
    #: Where in the stream it begins.
    offset: int
    stream: Stream
    text: str

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            end_offset=data["end_offset"],
            index=data["index"],
            next_offsets=ExecWaitOffsets.decode(data["next_offsets"]),
            offset=data["offset"],
            stream=data["stream"],
            text=data["text"],
        )


@dataclass(slots=True, kw_only=True)
class MatchedPort(Shown):
    host: str
    http_status: int | None = None
    port: int

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            host=data["host"],
            http_status=data.get("http_status"),
            port=data["port"],
        )


@dataclass(slots=True, kw_only=True)
class Message(Shown):
    """A message as its reader sees it."""

    auto: bool
    #: Names of fields that the sender filled with something unsafe; they were dropped.
    dropped: list[str] = field(default_factory=list[str])
    #: The sender's petname, else its address.
    from_: str
    #: Checked: the message was encrypted by this identity's device.
    from_address: str
    from_session: str | None
    in_reply_to: str | None
    #: Unique in this agent's mail and safe to print.
    message_id: str
    role: str | None
    text: str
    timestamp: str
    to_session: str | None

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            auto=data["auto"],
            dropped=data.get("dropped") or [],
            from_=data["from"],
            from_address=data["from_address"],
            from_session=data["from_session"],
            in_reply_to=data["in_reply_to"],
            message_id=data["message_id"],
            role=data["role"],
            text=data["text"],
            timestamp=data["timestamp"],
            to_session=data["to_session"],
        )


@dataclass(slots=True, kw_only=True)
class MissedEvent(Shown):
    """Changes from `from` up to, not with, `to` are no longer known."""

    from_: int
    to: int

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            from_=data["from"],
            to=data["to"],
        )


@dataclass(slots=True, kw_only=True)
class Missing(Shown):
    #: What would make it available.
    remedy: str | None = None
    what: str
    why: str

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            remedy=data.get("remedy"),
            what=data["what"],
            why=data["why"],
        )


@dataclass(slots=True, kw_only=True)
class NetAllow(Shown):
    """Only these hosts, through a proxy: `api.example.com`, `*.example.org:443`."""

    allow: list[str]

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            allow=data["allow"],
        )


@dataclass(slots=True, kw_only=True)
class Notice(Shown):
    """A message that waits to be read: who wrote it, never what it says."""

    #: The sender's petname, else its address.
    from_: str
    from_session: str | None = None
    message_id: str

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            from_=data["from"],
            from_session=data.get("from_session"),
            message_id=data["message_id"],
        )


@dataclass(slots=True, kw_only=True)
class OutputEvent(Shown):
    """`text` or `base64`, as asked."""

    base64: str | None = None
    offset: int
    text: str | None = None

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            base64=data.get("base64"),
            offset=data["offset"],
            text=data.get("text"),
        )


@dataclass(slots=True, kw_only=True)
class PresenceRow(Shown):
    address: str
    #: Labels that mail can be sent to now.
    live_sessions: list[str]
    whereabouts: Whereabouts
    who: str

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            address=data["address"],
            live_sessions=data["live_sessions"],
            whereabouts=data["whereabouts"],
            who=data["who"],
        )


@dataclass(slots=True, kw_only=True)
class QueuedEvent(Shown):
    exec_id: str

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            exec_id=data["exec_id"],
        )


@dataclass(slots=True, kw_only=True)
class RuntimeFound(Shown):
    active_sessions: int
    arch: str
    #: Whether sessions can be made there now.
    available: bool
    cpus: int
    #: Where sessions are made unless they say otherwise.
    default: bool
    #: Until when that access is granted; RFC 3339.
    expires_at: str | None = None
    #: The agent that has granted access to it.
    granted_by: str | None = None
    hostname: str
    isolation: list[str]
    kind: RuntimeKind
    labels: list[str]
    #: Of the last minute.
    load: float | None = None
    max_sessions: int
    memory_bytes: int | None = None
    name: str
    os: str
    #: Why it is unreachable.
    reason: str | None = None
    #: How long it took to answer, when it was last asked.
    rtt_ms: float | None = None
    #: The same as `active_sessions`.
    sessions: int
    shells: list[ShellFound]
    #: Since when the state is what it is; RFC 3339.
    since: str
    state: RuntimeState
    #: What a configured name stands for, as `runtime` of `session.create` takes it, too.
    target: str | None = None
    version: str

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            active_sessions=data["active_sessions"],
            arch=data["arch"],
            available=data["available"],
            cpus=data["cpus"],
            default=data["default"],
            expires_at=data.get("expires_at"),
            granted_by=data.get("granted_by"),
            hostname=data["hostname"],
            isolation=data["isolation"],
            kind=data["kind"],
            labels=data["labels"],
            load=data.get("load"),
            max_sessions=data["max_sessions"],
            memory_bytes=data.get("memory_bytes"),
            name=data["name"],
            os=data["os"],
            reason=data.get("reason"),
            rtt_ms=data.get("rtt_ms"),
            sessions=data["sessions"],
            shells=[ShellFound.decode(item) for item in data["shells"]],
            since=data["since"],
            state=data["state"],
            target=data.get("target"),
            version=data["version"],
        )


@dataclass(slots=True, kw_only=True)
class RuntimeGrantReply(Shown):
    address: str
    #: The name of who got access, and the address.
    agent: str
    #: RFC 3339.
    expires_at: str | None
    grant_id: str
    #: The agent of this daemon that grants, and its address.
    granted_by: str
    granted_by_address: str
    #: The message that carries the token; `mail.status` of the granting agent tells what
    #: became of it.
    message_id: str
    profile: Profile
    #: Where the other daemon finds this one.
    url: str

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            address=data["address"],
            agent=data["agent"],
            expires_at=data["expires_at"],
            grant_id=data["grant_id"],
            granted_by=data["granted_by"],
            granted_by_address=data["granted_by_address"],
            message_id=data["message_id"],
            profile=data["profile"],
            url=data["url"],
        )


@dataclass(slots=True, kw_only=True)
class RuntimeGrantsReply(Shown):
    #: Oldest first.
    grants: list[GrantRow]

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            grants=[GrantRow.decode(item) for item in data["grants"]],
        )


@dataclass(slots=True, kw_only=True)
class RuntimeRevokeReply(Shown):
    agent: str
    grant_id: str
    #: Sessions under the grant that were ended with it.
    sessions: list[str]

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            agent=data["agent"],
            grant_id=data["grant_id"],
            sessions=data["sessions"],
        )


@dataclass(slots=True, kw_only=True)
class SessionAttachReply(Shown):
    """The end of `session.attach`."""

    reason: Released
    session_id: str

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            reason=data["reason"],
            session_id=data["session_id"],
        )


@dataclass(slots=True, kw_only=True)
class SessionBindReply(Shown):
    bound: bool
    session_id: str

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            bound=data["bound"],
            session_id=data["session_id"],
        )


@dataclass(slots=True, kw_only=True)
class SessionCreateReply(Shown):
    #: RFC 3339, UTC, milliseconds.
    created_at: str
    name: str | None
    #: The shell's pid.
    pid: int | None
    #: Where it runs.
    runtime: str | None = None
    #: Why it runs there, if the request left the choice to the daemon.
    runtime_reason: str | None = None
    session_id: str
    shell: str
    state: SessionState
    working_dir: str

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            created_at=data["created_at"],
            name=data["name"],
            pid=data["pid"],
            runtime=data.get("runtime"),
            runtime_reason=data.get("runtime_reason"),
            session_id=data["session_id"],
            shell=data["shell"],
            state=data["state"],
            working_dir=data["working_dir"],
        )


@dataclass(slots=True, kw_only=True)
class SessionDestroyReply(Shown):
    session_id: str
    state: SessionState

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            session_id=data["session_id"],
            state=data["state"],
        )


@dataclass(slots=True, kw_only=True)
class SessionForkReply(Shown):
    #: RFC 3339, UTC, milliseconds.
    created_at: str
    name: str | None
    #: The shell's pid.
    pid: int | None
    #: Where it runs.
    runtime: str | None = None
    #: Why it runs there, if the request left the choice to the daemon.
    runtime_reason: str | None = None
    session_id: str
    shell: str
    state: SessionState
    working_dir: str

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            created_at=data["created_at"],
            name=data["name"],
            pid=data["pid"],
            runtime=data.get("runtime"),
            runtime_reason=data.get("runtime_reason"),
            session_id=data["session_id"],
            shell=data["shell"],
            state=data["state"],
            working_dir=data["working_dir"],
        )


@dataclass(slots=True, kw_only=True)
class SessionInfo(Shown):
    """What `session.info` tells, and each row of `session.list`."""

    command_count: int
    created_at: str
    #: Of a damaged session: what is wrong with it, and what can be done.
    damage: str | None = None
    #: Names of the variables given at creation and exported since; never a value.
    env_keys: list[str]
    #: Of a session that somebody else has made on another daemon. It is used by its id,
    #: and stays when this daemon ends.
    foreign: Foreign | None = None
    host_pid: int
    idle_timeout_s: float
    #: Of a session with isolation or limits.
    isolation: IsolationReport | None = None
    last_activity: str
    #: As asked for.
    limits: SessionLimits | None = None
    name: str | None
    pid: int | None
    queued: int
    #: How often the shell had to be replaced.
    restarts: int
    #: The command that runs in the foreground.
    running: str | None = None
    #: Where it runs.
    runtime: str | None = None
    session_id: str
    shell: str
    #: What the shell's start-up files (`rc`) have written, the last 64 KiB of it.
    startup_output: str | None = None
    state: SessionState
    stderr_bytes: int
    #: All that its commands have printed since its host began, kept or not.
    stdout_bytes: int
    timeout_s: float
    tty: bool
    #: Its host does not answer at the moment (it may be stopped); the rest is what was
    #: last known.
    unresponsive: bool = False
    #: As cgroups account for it, else as its processes tell.
    usage: Usage | None = None
    working_dir: str

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            command_count=data["command_count"],
            created_at=data["created_at"],
            damage=data.get("damage"),
            env_keys=data["env_keys"],
            foreign=(None if (item := data.get("foreign")) is None else Foreign.decode(item)),
            host_pid=data["host_pid"],
            idle_timeout_s=data["idle_timeout_s"],
            isolation=(None if (item := data.get("isolation")) is None else IsolationReport.decode(item)),
            last_activity=data["last_activity"],
            limits=(None if (item := data.get("limits")) is None else SessionLimits.decode(item)),
            name=data["name"],
            pid=data["pid"],
            queued=data["queued"],
            restarts=data["restarts"],
            running=data.get("running"),
            runtime=data.get("runtime"),
            session_id=data["session_id"],
            shell=data["shell"],
            startup_output=data.get("startup_output"),
            state=data["state"],
            stderr_bytes=data["stderr_bytes"],
            stdout_bytes=data["stdout_bytes"],
            timeout_s=data["timeout_s"],
            tty=data["tty"],
            unresponsive=data.get("unresponsive", False),
            usage=(None if (item := data.get("usage")) is None else Usage.decode(item)),
            working_dir=data["working_dir"],
        )


@dataclass(slots=True, kw_only=True)
class SessionInfoIsolation(Shown):
    """`"workspace"` is short for `{"profile":"workspace"}`. An object without a profile is
    one of `workspace`.
    """

    #: Accept what this machine can enforce; `session.info` tells what is missing.
    best_effort: bool
    devices: Devices
    #: Paths that appear empty.
    hide: list[str] = field(default_factory=list[str])
    net: Literal["none", "full"] | NetAllow
    profile: Profile
    #: Paths that can be read beyond what the profile gives.
    read: list[str] = field(default_factory=list[str])
    #: A directory with an unpacked system that becomes `/`. Changes in it are temporary
    #: unless it is also in `write`.
    root: str | None = None
    #: Paths that can be written beyond the workspace.
    write: list[str] = field(default_factory=list[str])

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            best_effort=data["best_effort"],
            devices=data["devices"],
            hide=data.get("hide") or [],
            net=data["net"],
            profile=data["profile"],
            read=data.get("read") or [],
            root=data.get("root"),
            write=data.get("write") or [],
        )


@dataclass(slots=True, kw_only=True)
class SessionInputReply(Shown):
    bytes: int
    session_id: str

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            bytes=data["bytes"],
            session_id=data["session_id"],
        )


@dataclass(slots=True, kw_only=True)
class SessionLimits(Shown):
    """Bounds of one session; what is missing takes the daemon's default."""

    #: Processors' worth of time, such as 1.5.
    cpu: float | None = None
    #: Processor time that each process may use.
    cpu_time_s: float | None = None
    #: Size of the private directories of an isolated session.
    disk: int | str | None = None
    #: Largest file that a process may write.
    file_size: int | str | None = None
    #: Kept output of each stream of one command on disk.
    journal_bytes: int | None = None
    #: Commands that this session runs before it refuses more.
    max_commands: int | None = None
    #: Commands that may wait in its queue.
    max_queue: int | None = None
    #: Memory of everything that it runs: bytes, or `512M`.
    memory: int | str | None = None
    #: Files that each process may have open.
    open_files: int | None = None
    #: Processes and threads that it may have at once.
    pids: int | None = None

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            cpu=data.get("cpu"),
            cpu_time_s=data.get("cpu_time_s"),
            disk=data.get("disk"),
            file_size=data.get("file_size"),
            journal_bytes=data.get("journal_bytes"),
            max_commands=data.get("max_commands"),
            max_queue=data.get("max_queue"),
            memory=data.get("memory"),
            open_files=data.get("open_files"),
            pids=data.get("pids"),
        )


@dataclass(slots=True, kw_only=True)
class SessionListReply(Shown):
    sessions: list[SessionInfo]
    #: Other daemons that did not answer in time: of their sessions, what was last known is
    #: listed.
    unanswered: list[str] = field(default_factory=list[str])

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            sessions=[SessionInfo.decode(item) for item in data["sessions"]],
            unanswered=data.get("unanswered") or [],
        )


@dataclass(slots=True, kw_only=True)
class SessionRenameReply(Shown):
    name: str
    session_id: str

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            name=data["name"],
            session_id=data["session_id"],
        )


@dataclass(slots=True, kw_only=True)
class SessionResizeReply(Shown):
    cols: int
    rows: int
    session_id: str

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            cols=data["cols"],
            rows=data["rows"],
            session_id=data["session_id"],
        )


@dataclass(slots=True, kw_only=True)
class SessionRestartReply(Shown):
    pid: int | None
    restarts: int
    session_id: str
    state: SessionState
    working_dir: str

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            pid=data["pid"],
            restarts=data["restarts"],
            session_id=data["session_id"],
            state=data["state"],
            working_dir=data["working_dir"],
        )


@dataclass(slots=True, kw_only=True)
class SessionRow(Shown):
    cwd: str | None
    label: str
    last_seen: str
    pid: int | None
    #: Whether this is the caller.
    self_: bool
    started_at: str

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            cwd=data["cwd"],
            label=data["label"],
            last_seen=data["last_seen"],
            pid=data["pid"],
            self_=data["self"],
            started_at=data["started_at"],
        )


@dataclass(slots=True, kw_only=True)
class ShellFound(Shown):
    name: str
    path: str

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            name=data["name"],
            path=data["path"],
        )


@dataclass(slots=True, kw_only=True)
class StartedEvent(Shown):
    exec_id: str
    #: Process that runs it: the shell's for a foreground command. Missing while it is
    #: queued.
    pid: int | None = None

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            exec_id=data["exec_id"],
            pid=data.get("pid"),
        )


@dataclass(slots=True, kw_only=True)
class SubscribedEvent(Shown):
    """The subscription holds: every change from this one on will be told."""

    next: int

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            next=data["next"],
        )


@dataclass(slots=True, kw_only=True)
class SystemInfoReply(Shown):
    features: list[str]
    host_protocol_version: int
    #: Profiles that this machine can enforce in full.
    isolation: list[str]
    #: Why it cannot enforce the others, and limits that it cannot enforce for a session as
    #: a whole.
    isolation_missing: list[Missing] = field(default_factory=list[Missing])
    limits: LimitsInfo
    pid: int
    protocol_version: int
    shells: list[ShellFound]
    version: str

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            features=data["features"],
            host_protocol_version=data["host_protocol_version"],
            isolation=data["isolation"],
            isolation_missing=[Missing.decode(item) for item in data.get("isolation_missing", ())],
            limits=LimitsInfo.decode(data["limits"]),
            pid=data["pid"],
            protocol_version=data["protocol_version"],
            shells=[ShellFound.decode(item) for item in data["shells"]],
            version=data["version"],
        )


@dataclass(slots=True, kw_only=True)
class SystemPingReply(Shown):
    uptime_s: float
    version: str

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            uptime_s=data["uptime_s"],
            version=data["version"],
        )


@dataclass(slots=True, kw_only=True)
class SystemRuntimesReply(Shown):
    """What this daemon can reach, for those who must choose."""

    runtimes: list[RuntimeFound]

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            runtimes=[RuntimeFound.decode(item) for item in data["runtimes"]],
        )


@dataclass(slots=True, kw_only=True)
class SystemShutdownReply(Shown):
    keep_sessions: bool
    pid: int

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            keep_sessions=data["keep_sessions"],
            pid=data["pid"],
        )


@dataclass(slots=True, kw_only=True)
class SystemStatsReply(Shown):
    active_sessions: int
    connections: int
    memory_rss_bytes: int
    open_fds: int
    running_commands: int
    total_commands_run: int
    uptime_s: float
    #: What the living sessions have used together; `memory_peak_bytes` is the largest of
    #: theirs.
    usage: Usage

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            active_sessions=data["active_sessions"],
            connections=data["connections"],
            memory_rss_bytes=data["memory_rss_bytes"],
            open_fds=data["open_fds"],
            running_commands=data["running_commands"],
            total_commands_run=data["total_commands_run"],
            uptime_s=data["uptime_s"],
            usage=Usage.decode(data["usage"]),
        )


@dataclass(slots=True, kw_only=True)
class Usage(Shown):
    """What everything that a session has started has used together."""

    cpu_s: float | None = None
    memory_bytes: int | None = None
    memory_peak_bytes: int | None = None
    processes: int | None = None
    #: For how long its processor limit has held it back.
    throttled_s: float | None = None
    #: By its programs, to files, pipes and terminals.
    written_bytes: int | None = None

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            cpu_s=data.get("cpu_s"),
            memory_bytes=data.get("memory_bytes"),
            memory_peak_bytes=data.get("memory_peak_bytes"),
            processes=data.get("processes"),
            throttled_s=data.get("throttled_s"),
            written_bytes=data.get("written_bytes"),
        )


@dataclass(slots=True, kw_only=True)
class WaitingEvent(Shown):
    """The command reads from its terminal."""

    exec_id: str
    prompt: str

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        return cls(
            exec_id=data["exec_id"],
            prompt=data["prompt"],
        )


class ExecWaitOffsetsParam(TypedDict, total=False):
    stderr: int
    stdout: int


class LogUntilParam(TypedDict, total=False):
    #: Matches begin here or later, counted in bytes of each stream. Without `stream` it
    #: holds for both.
    from_offset: int
    #: The same, one for each stream; what `next_offsets` of the last match says.
    from_offsets: ExecWaitOffsetsParam | None
    #: A text, or with `regex` an expression whose `^` and `$` are ends of lines, also of
    #: one that waits.
    pattern: str | None
    #: Several instead of `pattern`. The match that begins first counts; `index` says which
    #: one it is.
    patterns: Sequence[str]
    regex: bool
    #: Only in this stream; default: in both.
    stream: Stream | None


class NetAllowParam(TypedDict):
    allow: Sequence[str]


class NoParamsParam(TypedDict, total=False):
    pass


class _PortUntilParamRequired(TypedDict):
    port: int



class PortUntilParam(_PortUntilParamRequired, total=False):
    #: Default: the machine that the session runs on.
    host: str | None
    #: A path that must be answered with a status below 400.
    http_path: str | None


class SessionCreateIsolationParam(TypedDict, total=False):
    #: Accept what this machine can enforce; `session.info` tells what is missing.
    best_effort: bool
    devices: Devices
    #: Paths that appear empty.
    hide: Sequence[str]
    net: Literal["none", "full"] | NetAllowParam
    profile: Profile
    #: Paths that can be read beyond what the profile gives.
    read: Sequence[str]
    #: A directory with an unpacked system that becomes `/`. Changes in it are temporary
    #: unless it is also in `write`.
    root: str | None
    #: Paths that can be written beyond the workspace.
    write: Sequence[str]


class SessionLimitsParam(TypedDict, total=False):
    #: Processors' worth of time, such as 1.5.
    cpu: float | None
    #: Processor time that each process may use.
    cpu_time_s: float | None
    #: Size of the private directories of an isolated session.
    disk: int | str | None
    #: Largest file that a process may write.
    file_size: int | str | None
    #: Kept output of each stream of one command on disk.
    journal_bytes: int | None
    #: Commands that this session runs before it refuses more.
    max_commands: int | None
    #: Commands that may wait in its queue.
    max_queue: int | None
    #: Memory of everything that it runs: bytes, or `512M`.
    memory: int | str | None
    #: Files that each process may have open.
    open_files: int | None
    #: Processes and threads that it may have at once.
    pids: int | None


class UntilParam(TypedDict, total=False):
    #: The end of the command.
    exit: bool | NoParamsParam | None
    #: Something in its output.
    log: LogUntilParam | None
    #: A port that takes connections.
    port: PortUntilParam | None
