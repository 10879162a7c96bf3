# Made from _aio/_methods.py by clients/generate; do not edit.
"""Every method of the protocol, one stub each.

Generated from docs/contract/protocol.json by clients/generate; do not edit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from .._display import Shown
from .._progress import (
    ChangeProgress,
    CommandEvent,
    CommandProgress,
    MailProgress,
    Output,
    Progress,
    TerminalProgress,
)
from ..protocol import (
    AgentAssignmentsReply,
    AgentCreateReply,
    AgentHeartbeatReply,
    AgentListReply,
    AgentReleaseReply,
    AgentSessionsReply,
    AgentUnassignReply,
    AgentUseReply,
    AgentWhoamiReply,
    Assignment,
    AssignScope,
    ChangeEvent,
    ContactListReply,
    ContactPresenceReply,
    ContactRow,
    Durability,
    Encoding,
    EventsSubscribeReply,
    ExecAttachReply,
    ExecBindReply,
    ExecCancelReply,
    ExecInfo,
    ExecListReply,
    ExecOutputReply,
    ExecResizeReply,
    ExecRunReply,
    ExecScreenReply,
    ExecStartReply,
    ExecStreamReply,
    ExecWaitReply,
    ExecWriteReply,
    FileEditReply,
    FileEntry,
    FileListReply,
    FileMakeDirReply,
    FileMoveReply,
    FileReadReply,
    FileRemoveReply,
    FileWriteReply,
    MailAutorespondReply,
    MailAwaitReplyReply,
    MailCheckReplyReply,
    MailDeadLettersReply,
    MailEvent,
    MailHeldReply,
    MailInboxReply,
    MailNoticesReply,
    MailReplyReply,
    MailResetReply,
    MailSendAndWaitReply,
    MailSendReply,
    MailStatusReply,
    MailSubscribeReply,
    MissedEvent,
    Policy,
    Profile,
    RuntimeGrantReply,
    RuntimeGrantsReply,
    RuntimeRevokeReply,
    SessionAttachReply,
    SessionBindReply,
    SessionCreateIsolationParam,
    SessionCreateReply,
    SessionDestroyReply,
    SessionForkReply,
    SessionInfo,
    SessionInputReply,
    SessionLimitsParam,
    SessionListReply,
    SessionRenameReply,
    SessionResizeReply,
    SessionRestartReply,
    Stream,
    SubscribedEvent,
    Switch,
    SystemInfoReply,
    SystemPingReply,
    SystemRuntimesReply,
    SystemShutdownReply,
    SystemStatsReply,
    Topic,
    UntilParam,
)
from ._stream import EventStream

ReplyT = TypeVar("ReplyT", bound=Shown)
EventT = TypeVar("EventT")


def _given(params: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if value is not None}


class Methods:
    """The protocol as it is: what each method means is told by docs/protocol.md."""

    def _request(self, method: str, params: dict[str, Any], reply: type[ReplyT]) -> ReplyT:
        raise NotImplementedError

    def _stream(self, progress: Progress[EventT, ReplyT]) -> EventStream[EventT, ReplyT]:
        raise NotImplementedError

    def agent_assign(
        self,
        *,
        agent: str,
        harness_session_id: str | None = None,
        project: str | None = None,
        scope: AssignScope | None = None,
    ) -> Assignment:
        """`agent.assign`: Assigns an agent to a harness session, a project directory, or
        everything else.
        """
        params = _given(
            {
                "agent": agent,
                "harness_session_id": harness_session_id,
                "project": project,
                "scope": scope,
            }
        )
        return self._request("agent.assign", params, Assignment)

    def agent_assignments(
        self,
        *,
        harness_session_id: str | None = None,
        project: str | None = None,
    ) -> AgentAssignmentsReply:
        """`agent.assignments`: Lists assignments, and tells which agent a harness session or
        directory gets.
        """
        params = _given(
            {
                "harness_session_id": harness_session_id,
                "project": project,
            }
        )
        return self._request("agent.assignments", params, AgentAssignmentsReply)

    def agent_create(
        self,
        *,
        name: str,
        policy: Policy | None = None,
    ) -> AgentCreateReply:
        """`agent.create`: Creates an agent."""
        params = _given(
            {
                "name": name,
                "policy": policy,
            }
        )
        return self._request("agent.create", params, AgentCreateReply)

    def agent_heartbeat(
        self,
        *,
        as_: str | None = None,
    ) -> AgentHeartbeatReply:
        """`agent.heartbeat`: Says that a session of an agent is still there."""
        params = _given(
            {
                "as": as_,
            }
        )
        return self._request("agent.heartbeat", params, AgentHeartbeatReply)

    def agent_list(
        self,
    ) -> AgentListReply:
        """`agent.list`: Lists the agents of this daemon."""
        params = _given(
            {
            }
        )
        return self._request("agent.list", params, AgentListReply)

    def agent_release(
        self,
        *,
        as_: str | None = None,
        harness_session_id: str | None = None,
    ) -> AgentReleaseReply:
        """`agent.release`: Ends a session of an agent."""
        params = _given(
            {
                "as": as_,
                "harness_session_id": harness_session_id,
            }
        )
        return self._request("agent.release", params, AgentReleaseReply)

    def agent_sessions(
        self,
        *,
        agent: str | None = None,
        as_: str | None = None,
    ) -> AgentSessionsReply:
        """`agent.sessions`: Lists the sessions of an agent."""
        params = _given(
            {
                "agent": agent,
                "as": as_,
            }
        )
        return self._request("agent.sessions", params, AgentSessionsReply)

    def agent_unassign(
        self,
        *,
        harness_session_id: str | None = None,
        project: str | None = None,
        scope: AssignScope | None = None,
    ) -> AgentUnassignReply:
        """`agent.unassign`: Removes an assignment."""
        params = _given(
            {
                "harness_session_id": harness_session_id,
                "project": project,
                "scope": scope,
            }
        )
        return self._request("agent.unassign", params, AgentUnassignReply)

    def agent_use(
        self,
        *,
        agent: str | None = None,
        cwd: str | None = None,
        harness: str | None = None,
        harness_session_id: str | None = None,
        label: str | None = None,
        pid: int | None = None,
        primary: bool | None = None,
        project: str | None = None,
        terminal: str | None = None,
        usual: bool | None = None,
    ) -> AgentUseReply:
        """`agent.use`: Opens a session of an agent and binds it to the connection."""
        params = _given(
            {
                "agent": agent,
                "cwd": cwd,
                "harness": harness,
                "harness_session_id": harness_session_id,
                "label": label,
                "pid": pid,
                "primary": primary,
                "project": project,
                "terminal": terminal,
                "usual": usual,
            }
        )
        return self._request("agent.use", params, AgentUseReply)

    def agent_whoami(
        self,
        *,
        as_: str | None = None,
    ) -> AgentWhoamiReply:
        """`agent.whoami`: Tells which agent and session the caller is."""
        params = _given(
            {
                "as": as_,
            }
        )
        return self._request("agent.whoami", params, AgentWhoamiReply)

    def contact_accept(
        self,
        *,
        who: str,
        as_: str | None = None,
    ) -> ContactRow:
        """`contact.accept`: Accepts a contact."""
        params = _given(
            {
                "who": who,
                "as": as_,
            }
        )
        return self._request("contact.accept", params, ContactRow)

    def contact_block(
        self,
        *,
        who: str,
        as_: str | None = None,
    ) -> ContactRow:
        """`contact.block`: Blocks a contact."""
        params = _given(
            {
                "who": who,
                "as": as_,
            }
        )
        return self._request("contact.block", params, ContactRow)

    def contact_decline(
        self,
        *,
        who: str,
        as_: str | None = None,
    ) -> ContactRow:
        """`contact.decline`: Declines a contact."""
        params = _given(
            {
                "who": who,
                "as": as_,
            }
        )
        return self._request("contact.decline", params, ContactRow)

    def contact_list(
        self,
        *,
        as_: str | None = None,
    ) -> ContactListReply:
        """`contact.list`: Lists the contacts."""
        params = _given(
            {
                "as": as_,
            }
        )
        return self._request("contact.list", params, ContactListReply)

    def contact_presence(
        self,
        *,
        as_: str | None = None,
    ) -> ContactPresenceReply:
        """`contact.presence`: Tells which contacts can be reached now."""
        params = _given(
            {
                "as": as_,
            }
        )
        return self._request("contact.presence", params, ContactPresenceReply)

    def contact_request(
        self,
        *,
        who: str,
        as_: str | None = None,
    ) -> ContactRow:
        """`contact.request`: Asks another agent to become a contact."""
        params = _given(
            {
                "who": who,
                "as": as_,
            }
        )
        return self._request("contact.request", params, ContactRow)

    def events_subscribe(
        self,
        *,
        from_: int | None = None,
        own: bool | None = None,
        topics: Sequence[Topic] | None = None,
    ) -> EventStream[ChangeEvent | MissedEvent | SubscribedEvent, EventsSubscribeReply]:
        """`events.subscribe`: Sends an event for each change of sessions, commands, agents
        and mail.
        """
        params = _given(
            {
                "from": from_,
                "own": own,
                "topics": topics,
            }
        )
        return self._stream(ChangeProgress("events.subscribe", params, EventsSubscribeReply))

    def exec_attach(
        self,
        *,
        exec_id: str,
        encoding: Encoding | None = None,
        stderr_offset: int | None = None,
        stdout_offset: int | None = None,
    ) -> EventStream[CommandEvent, ExecAttachReply]:
        """`exec.attach`: Sends the output of a command, running or finished, as events from
        an offset on.
        """
        params = _given(
            {
                "exec_id": exec_id,
                "encoding": encoding,
                "stderr_offset": stderr_offset,
                "stdout_offset": stdout_offset,
            }
        )
        return self._stream(CommandProgress("exec.attach", params, ExecAttachReply))

    def exec_bind(
        self,
        *,
        exec_id: str,
        bound: bool | None = None,
    ) -> ExecBindReply:
        """`exec.bind`: Ends a command when the connection that asked closes, or no longer."""
        params = _given(
            {
                "exec_id": exec_id,
                "bound": bound,
            }
        )
        return self._request("exec.bind", params, ExecBindReply)

    def exec_cancel(
        self,
        *,
        exec_id: str | None = None,
        session_id: str | None = None,
        signal: int | str | None = None,
    ) -> ExecCancelReply:
        """`exec.cancel`: Ends a command with signals; its shell and the shell's state stay."""
        params = _given(
            {
                "exec_id": exec_id,
                "session_id": session_id,
                "signal": signal,
            }
        )
        return self._request("exec.cancel", params, ExecCancelReply)

    def exec_info(
        self,
        *,
        exec_id: str,
    ) -> ExecInfo:
        """`exec.info`: Describes one command."""
        params = _given(
            {
                "exec_id": exec_id,
            }
        )
        return self._request("exec.info", params, ExecInfo)

    def exec_list(
        self,
        *,
        own: bool | None = None,
        session_id: str | None = None,
    ) -> ExecListReply:
        """`exec.list`: Lists the commands of one session or of all."""
        params = _given(
            {
                "own": own,
                "session_id": session_id,
            }
        )
        return self._request("exec.list", params, ExecListReply)

    def exec_output(
        self,
        *,
        exec_id: str,
        stream: Stream,
        encoding: Encoding | None = None,
        limit: int | None = None,
        offset: int | None = None,
    ) -> ExecOutputReply:
        """`exec.output`: Returns a range of a command's kept output."""
        params = _given(
            {
                "exec_id": exec_id,
                "stream": stream,
                "encoding": encoding,
                "limit": limit,
                "offset": offset,
            }
        )
        return self._request("exec.output", params, ExecOutputReply)

    def exec_resize(
        self,
        *,
        cols: int,
        exec_id: str,
        rows: int,
    ) -> ExecResizeReply:
        """`exec.resize`: Changes the size of a command's terminal."""
        params = _given(
            {
                "cols": cols,
                "exec_id": exec_id,
                "rows": rows,
            }
        )
        return self._request("exec.resize", params, ExecResizeReply)

    def exec_run(
        self,
        *,
        argv: Sequence[str] | None = None,
        background: bool | None = None,
        check: bool | None = None,
        command: str | None = None,
        encoding: Encoding | None = None,
        env: Mapping[str, str] | None = None,
        max_output_bytes: int | None = None,
        merge_stderr: bool | None = None,
        replace_env: bool | None = None,
        run_id: str | None = None,
        session_id: str | None = None,
        soft_timeout_s: float | None = None,
        stdin: str | None = None,
        stdin_encoding: Encoding | None = None,
        stdin_open: bool | None = None,
        timeout_s: float | None = None,
        tty: bool | None = None,
        wait_s: float | None = None,
        working_dir: str | None = None,
    ) -> ExecRunReply:
        """`exec.run`: Runs a command and answers with its output when it has ended."""
        params = _given(
            {
                "argv": argv,
                "background": background,
                "check": check,
                "command": command,
                "encoding": encoding,
                "env": env,
                "max_output_bytes": max_output_bytes,
                "merge_stderr": merge_stderr,
                "replace_env": replace_env,
                "run_id": run_id,
                "session_id": session_id,
                "soft_timeout_s": soft_timeout_s,
                "stdin": stdin,
                "stdin_encoding": stdin_encoding,
                "stdin_open": stdin_open,
                "timeout_s": timeout_s,
                "tty": tty,
                "wait_s": wait_s,
                "working_dir": working_dir,
            }
        )
        return self._request("exec.run", params, ExecRunReply)

    def exec_screen(
        self,
        *,
        exec_id: str | None = None,
        session_id: str | None = None,
    ) -> ExecScreenReply:
        """`exec.screen`: Returns the screen of a command's terminal."""
        params = _given(
            {
                "exec_id": exec_id,
                "session_id": session_id,
            }
        )
        return self._request("exec.screen", params, ExecScreenReply)

    def exec_start(
        self,
        *,
        argv: Sequence[str] | None = None,
        background: bool | None = None,
        check: bool | None = None,
        command: str | None = None,
        encoding: Encoding | None = None,
        env: Mapping[str, str] | None = None,
        max_output_bytes: int | None = None,
        merge_stderr: bool | None = None,
        replace_env: bool | None = None,
        run_id: str | None = None,
        session_id: str | None = None,
        soft_timeout_s: float | None = None,
        stdin: str | None = None,
        stdin_encoding: Encoding | None = None,
        stdin_open: bool | None = None,
        timeout_s: float | None = None,
        tty: bool | None = None,
        wait_s: float | None = None,
        working_dir: str | None = None,
    ) -> ExecStartReply:
        """`exec.start`: Starts a command and answers at once."""
        params = _given(
            {
                "argv": argv,
                "background": background,
                "check": check,
                "command": command,
                "encoding": encoding,
                "env": env,
                "max_output_bytes": max_output_bytes,
                "merge_stderr": merge_stderr,
                "replace_env": replace_env,
                "run_id": run_id,
                "session_id": session_id,
                "soft_timeout_s": soft_timeout_s,
                "stdin": stdin,
                "stdin_encoding": stdin_encoding,
                "stdin_open": stdin_open,
                "timeout_s": timeout_s,
                "tty": tty,
                "wait_s": wait_s,
                "working_dir": working_dir,
            }
        )
        return self._request("exec.start", params, ExecStartReply)

    def exec_stream(
        self,
        *,
        argv: Sequence[str] | None = None,
        background: bool | None = None,
        check: bool | None = None,
        command: str | None = None,
        encoding: Encoding | None = None,
        env: Mapping[str, str] | None = None,
        max_output_bytes: int | None = None,
        merge_stderr: bool | None = None,
        replace_env: bool | None = None,
        run_id: str | None = None,
        session_id: str | None = None,
        soft_timeout_s: float | None = None,
        stdin: str | None = None,
        stdin_encoding: Encoding | None = None,
        stdin_open: bool | None = None,
        timeout_s: float | None = None,
        tty: bool | None = None,
        wait_s: float | None = None,
        working_dir: str | None = None,
    ) -> EventStream[CommandEvent, ExecStreamReply]:
        """`exec.stream`: Runs a command; its output comes as events."""
        params = _given(
            {
                "argv": argv,
                "background": background,
                "check": check,
                "command": command,
                "encoding": encoding,
                "env": env,
                "max_output_bytes": max_output_bytes,
                "merge_stderr": merge_stderr,
                "replace_env": replace_env,
                "run_id": run_id,
                "session_id": session_id,
                "soft_timeout_s": soft_timeout_s,
                "stdin": stdin,
                "stdin_encoding": stdin_encoding,
                "stdin_open": stdin_open,
                "timeout_s": timeout_s,
                "tty": tty,
                "wait_s": wait_s,
                "working_dir": working_dir,
            }
        )
        return self._stream(CommandProgress("exec.stream", params, ExecStreamReply))

    def exec_wait(
        self,
        *,
        exec_id: str,
        timeout_s: float | None = None,
        until: UntilParam | None = None,
    ) -> ExecWaitReply:
        """`exec.wait`: Waits until a command ends, prints something or opens a port."""
        params = _given(
            {
                "exec_id": exec_id,
                "timeout_s": timeout_s,
                "until": until,
            }
        )
        return self._request("exec.wait", params, ExecWaitReply)

    def exec_write(
        self,
        *,
        exec_id: str,
        data: str | None = None,
        encoding: Encoding | None = None,
        eof: bool | None = None,
        stdin_encoding: Encoding | None = None,
        write_id: str | None = None,
    ) -> ExecWriteReply:
        """`exec.write`: Writes to the stdin of a running command."""
        params = _given(
            {
                "exec_id": exec_id,
                "data": data,
                "encoding": encoding,
                "eof": eof,
                "stdin_encoding": stdin_encoding,
                "write_id": write_id,
            }
        )
        return self._request("exec.write", params, ExecWriteReply)

    def file_edit(
        self,
        *,
        new: str,
        old: str,
        path: str,
        session_id: str,
        all: bool | None = None,
    ) -> FileEditReply:
        """`file.edit`: Replaces a text in a file."""
        params = _given(
            {
                "new": new,
                "old": old,
                "path": path,
                "session_id": session_id,
                "all": all,
            }
        )
        return self._request("file.edit", params, FileEditReply)

    def file_list(
        self,
        *,
        session_id: str,
        depth: int | None = None,
        glob: str | None = None,
        path: str | None = None,
    ) -> FileListReply:
        """`file.list`: Lists a directory."""
        params = _given(
            {
                "session_id": session_id,
                "depth": depth,
                "glob": glob,
                "path": path,
            }
        )
        return self._request("file.list", params, FileListReply)

    def file_make_dir(
        self,
        *,
        path: str,
        session_id: str,
        parents: bool | None = None,
    ) -> FileMakeDirReply:
        """`file.make_dir`: Makes a directory."""
        params = _given(
            {
                "path": path,
                "session_id": session_id,
                "parents": parents,
            }
        )
        return self._request("file.make_dir", params, FileMakeDirReply)

    def file_move(
        self,
        *,
        from_: str,
        session_id: str,
        to: str,
        overwrite: bool | None = None,
    ) -> FileMoveReply:
        """`file.move`: Renames a file or directory."""
        params = _given(
            {
                "from": from_,
                "session_id": session_id,
                "to": to,
                "overwrite": overwrite,
            }
        )
        return self._request("file.move", params, FileMoveReply)

    def file_read(
        self,
        *,
        path: str,
        session_id: str,
        encoding: Encoding | None = None,
        limit: int | None = None,
        offset: int | None = None,
    ) -> FileReadReply:
        """`file.read`: Reads a part of a file, as the session sees it."""
        params = _given(
            {
                "path": path,
                "session_id": session_id,
                "encoding": encoding,
                "limit": limit,
                "offset": offset,
            }
        )
        return self._request("file.read", params, FileReadReply)

    def file_remove(
        self,
        *,
        path: str,
        session_id: str,
        recursive: bool | None = None,
    ) -> FileRemoveReply:
        """`file.remove`: Removes a file or directory."""
        params = _given(
            {
                "path": path,
                "session_id": session_id,
                "recursive": recursive,
            }
        )
        return self._request("file.remove", params, FileRemoveReply)

    def file_stat(
        self,
        *,
        path: str,
        session_id: str,
        follow: bool | None = None,
    ) -> FileEntry:
        """`file.stat`: Describes one file, directory or symbolic link."""
        params = _given(
            {
                "path": path,
                "session_id": session_id,
                "follow": follow,
            }
        )
        return self._request("file.stat", params, FileEntry)

    def file_write(
        self,
        *,
        content: str,
        path: str,
        session_id: str,
        append: bool | None = None,
        encoding: Encoding | None = None,
        if_sha256: str | None = None,
        make_parents: bool | None = None,
        mode: str | None = None,
        offset: int | None = None,
    ) -> FileWriteReply:
        """`file.write`: Writes a file as a whole, or adds to its end."""
        params = _given(
            {
                "content": content,
                "path": path,
                "session_id": session_id,
                "append": append,
                "encoding": encoding,
                "if_sha256": if_sha256,
                "make_parents": make_parents,
                "mode": mode,
                "offset": offset,
            }
        )
        return self._request("file.write", params, FileWriteReply)

    def mail_autorespond(
        self,
        *,
        action: Switch | None = None,
        as_: str | None = None,
        command: Sequence[str] | str | None = None,
        network: bool | None = None,
        off: bool | None = None,
        on: bool | None = None,
        status: bool | None = None,
    ) -> MailAutorespondReply:
        """`mail.autorespond`: Switches the automatic responder, or tells its state."""
        params = _given(
            {
                "action": action,
                "as": as_,
                "command": command,
                "network": network,
                "off": off,
                "on": on,
                "status": status,
            }
        )
        return self._request("mail.autorespond", params, MailAutorespondReply)

    def mail_await_reply(
        self,
        *,
        message_id: str,
        as_: str | None = None,
        peek: bool | None = None,
        timeout_s: float | None = None,
    ) -> MailAwaitReplyReply:
        """`mail.await_reply`: Waits for the reply to a message."""
        params = _given(
            {
                "message_id": message_id,
                "as": as_,
                "peek": peek,
                "timeout_s": timeout_s,
            }
        )
        return self._request("mail.await_reply", params, MailAwaitReplyReply)

    def mail_check_reply(
        self,
        *,
        message_id: str,
        as_: str | None = None,
        peek: bool | None = None,
    ) -> MailCheckReplyReply:
        """`mail.check_reply`: Returns the reply to a message if there is one."""
        params = _given(
            {
                "message_id": message_id,
                "as": as_,
                "peek": peek,
            }
        )
        return self._request("mail.check_reply", params, MailCheckReplyReply)

    def mail_dead_letters(
        self,
        *,
        as_: str | None = None,
    ) -> MailDeadLettersReply:
        """`mail.dead_letters`: Lists mail that could not be delivered."""
        params = _given(
            {
                "as": as_,
            }
        )
        return self._request("mail.dead_letters", params, MailDeadLettersReply)

    def mail_held(
        self,
        *,
        as_: str | None = None,
    ) -> MailHeldReply:
        """`mail.held`: Lists mail that is held back."""
        params = _given(
            {
                "as": as_,
            }
        )
        return self._request("mail.held", params, MailHeldReply)

    def mail_inbox(
        self,
        *,
        ack: Sequence[str] | None = None,
        as_: str | None = None,
        limit: int | None = None,
        peek: bool | None = None,
        wait_s: float | None = None,
    ) -> MailInboxReply:
        """`mail.inbox`: Returns messages that wait for the caller's session."""
        params = _given(
            {
                "ack": ack,
                "as": as_,
                "limit": limit,
                "peek": peek,
                "wait_s": wait_s,
            }
        )
        return self._request("mail.inbox", params, MailInboxReply)

    def mail_notices(
        self,
        *,
        agent: str | None = None,
        announced: Sequence[str] | None = None,
        as_: str | None = None,
        claim: bool | None = None,
        harness_pids: Sequence[int] | None = None,
        harness_session_id: str | None = None,
        known: Sequence[str] | None = None,
        project: str | None = None,
        prompted: bool | None = None,
        respond: bool | None = None,
        wait_s: float | None = None,
        waiter: bool | None = None,
        wake: bool | None = None,
    ) -> MailNoticesReply:
        """`mail.notices`: Tells of new mail by sender and id, or waits for some."""
        params = _given(
            {
                "agent": agent,
                "announced": announced,
                "as": as_,
                "claim": claim,
                "harness_pids": harness_pids,
                "harness_session_id": harness_session_id,
                "known": known,
                "project": project,
                "prompted": prompted,
                "respond": respond,
                "wait_s": wait_s,
                "waiter": waiter,
                "wake": wake,
            }
        )
        return self._request("mail.notices", params, MailNoticesReply)

    def mail_reply(
        self,
        *,
        message_id: str,
        text: str,
        as_: str | None = None,
        auto: bool | None = None,
        send_id: str | None = None,
        to: str | None = None,
        unless_sent_within_s: float | None = None,
    ) -> MailReplyReply:
        """`mail.reply`: Replies to a message."""
        params = _given(
            {
                "message_id": message_id,
                "text": text,
                "as": as_,
                "auto": auto,
                "send_id": send_id,
                "to": to,
                "unless_sent_within_s": unless_sent_within_s,
            }
        )
        return self._request("mail.reply", params, MailReplyReply)

    def mail_reset(
        self,
        *,
        who: str,
        as_: str | None = None,
    ) -> MailResetReply:
        """`mail.reset`: Starts a new encrypted channel to another agent."""
        params = _given(
            {
                "who": who,
                "as": as_,
            }
        )
        return self._request("mail.reset", params, MailResetReply)

    def mail_send(
        self,
        *,
        text: str,
        to: str,
        as_: str | None = None,
        auto: bool | None = None,
        expires_s: float | None = None,
        in_reply_to: str | None = None,
        role: str | None = None,
        send_id: str | None = None,
        to_session: str | None = None,
        unless_sent_within_s: float | None = None,
    ) -> MailSendReply:
        """`mail.send`: Sends a message."""
        params = _given(
            {
                "text": text,
                "to": to,
                "as": as_,
                "auto": auto,
                "expires_s": expires_s,
                "in_reply_to": in_reply_to,
                "role": role,
                "send_id": send_id,
                "to_session": to_session,
                "unless_sent_within_s": unless_sent_within_s,
            }
        )
        return self._request("mail.send", params, MailSendReply)

    def mail_send_and_wait(
        self,
        *,
        text: str,
        to: str,
        as_: str | None = None,
        auto: bool | None = None,
        expires_s: float | None = None,
        in_reply_to: str | None = None,
        peek: bool | None = None,
        role: str | None = None,
        send_id: str | None = None,
        timeout_s: float | None = None,
        to_session: str | None = None,
        unless_sent_within_s: float | None = None,
    ) -> MailSendAndWaitReply:
        """`mail.send_and_wait`: Sends a message and waits for its reply."""
        params = _given(
            {
                "text": text,
                "to": to,
                "as": as_,
                "auto": auto,
                "expires_s": expires_s,
                "in_reply_to": in_reply_to,
                "peek": peek,
                "role": role,
                "send_id": send_id,
                "timeout_s": timeout_s,
                "to_session": to_session,
                "unless_sent_within_s": unless_sent_within_s,
            }
        )
        return self._request("mail.send_and_wait", params, MailSendAndWaitReply)

    def mail_status(
        self,
        *,
        message_id: str,
        as_: str | None = None,
    ) -> MailStatusReply:
        """`mail.status`: Tells what became of a sent message."""
        params = _given(
            {
                "message_id": message_id,
                "as": as_,
            }
        )
        return self._request("mail.status", params, MailStatusReply)

    def mail_subscribe(
        self,
        *,
        as_: str | None = None,
    ) -> EventStream[MailEvent, MailSubscribeReply]:
        """`mail.subscribe`: Sends an event when mail has arrived."""
        params = _given(
            {
                "as": as_,
            }
        )
        return self._stream(MailProgress("mail.subscribe", params, MailSubscribeReply))

    def runtime_grant(
        self,
        *,
        agent: str,
        expires_s: float | None = None,
        from_: str | None = None,
        limits: SessionLimitsParam | None = None,
        max_sessions: int | None = None,
        profile: Profile | None = None,
        working_dir: str | None = None,
    ) -> RuntimeGrantReply:
        """`runtime.grant`: Lets an agent of another daemon create sessions here, within
        limits, and sends it the token by mail.
        """
        params = _given(
            {
                "agent": agent,
                "expires_s": expires_s,
                "from": from_,
                "limits": limits,
                "max_sessions": max_sessions,
                "profile": profile,
                "working_dir": working_dir,
            }
        )
        return self._request("runtime.grant", params, RuntimeGrantReply)

    def runtime_grants(
        self,
    ) -> RuntimeGrantsReply:
        """`runtime.grants`: Lists the grants of this daemon."""
        params = _given(
            {
            }
        )
        return self._request("runtime.grants", params, RuntimeGrantsReply)

    def runtime_revoke(
        self,
        *,
        grant_id: str,
    ) -> RuntimeRevokeReply:
        """`runtime.revoke`: Ends a grant and the sessions under it."""
        params = _given(
            {
                "grant_id": grant_id,
            }
        )
        return self._request("runtime.revoke", params, RuntimeRevokeReply)

    def session_attach(
        self,
        *,
        session_id: str,
        cols: int | None = None,
        read_only: bool | None = None,
        rows: int | None = None,
        take_over: bool | None = None,
    ) -> EventStream[Output, SessionAttachReply]:
        """`session.attach`: Shows a session as on a terminal, until the client detaches."""
        params = _given(
            {
                "session_id": session_id,
                "cols": cols,
                "read_only": read_only,
                "rows": rows,
                "take_over": take_over,
            }
        )
        return self._stream(TerminalProgress("session.attach", params, SessionAttachReply))

    def session_bind(
        self,
        *,
        session_id: str,
        bound: bool | None = None,
    ) -> SessionBindReply:
        """`session.bind`: Ends a session when the connection that asked closes, or no
        longer.
        """
        params = _given(
            {
                "session_id": session_id,
                "bound": bound,
            }
        )
        return self._request("session.bind", params, SessionBindReply)

    def session_create(
        self,
        *,
        durability: Durability | None = None,
        env: Mapping[str, str] | None = None,
        idle_timeout_s: float | None = None,
        isolation: Profile | SessionCreateIsolationParam | None = None,
        keep_state: str | None = None,
        limits: SessionLimitsParam | None = None,
        name: str | None = None,
        rc: bool | None = None,
        replace_env: bool | None = None,
        restore_state: str | None = None,
        runtime: str | None = None,
        shell: str | None = None,
        timeout_s: float | None = None,
        tty: bool | None = None,
        working_dir: str | None = None,
    ) -> SessionCreateReply:
        """`session.create`: Creates a session: a living shell whose state carries over from
        command to command.
        """
        params = _given(
            {
                "durability": durability,
                "env": env,
                "idle_timeout_s": idle_timeout_s,
                "isolation": isolation,
                "keep_state": keep_state,
                "limits": limits,
                "name": name,
                "rc": rc,
                "replace_env": replace_env,
                "restore_state": restore_state,
                "runtime": runtime,
                "shell": shell,
                "timeout_s": timeout_s,
                "tty": tty,
                "working_dir": working_dir,
            }
        )
        return self._request("session.create", params, SessionCreateReply)

    def session_destroy(
        self,
        *,
        session_id: str,
        force: bool | None = None,
    ) -> SessionDestroyReply:
        """`session.destroy`: Ends a session and every process it started."""
        params = _given(
            {
                "session_id": session_id,
                "force": force,
            }
        )
        return self._request("session.destroy", params, SessionDestroyReply)

    def session_fork(
        self,
        *,
        session_id: str,
        name: str | None = None,
    ) -> SessionForkReply:
        """`session.fork`: Creates a session with the settings of another one and the state
        of its shell.
        """
        params = _given(
            {
                "session_id": session_id,
                "name": name,
            }
        )
        return self._request("session.fork", params, SessionForkReply)

    def session_info(
        self,
        *,
        session_id: str,
    ) -> SessionInfo:
        """`session.info`: Describes one session."""
        params = _given(
            {
                "session_id": session_id,
            }
        )
        return self._request("session.info", params, SessionInfo)

    def session_input(
        self,
        *,
        data: str,
        session_id: str,
        encoding: Encoding | None = None,
    ) -> SessionInputReply:
        """`session.input`: Types into an attached session."""
        params = _given(
            {
                "data": data,
                "session_id": session_id,
                "encoding": encoding,
            }
        )
        return self._request("session.input", params, SessionInputReply)

    def session_list(
        self,
        *,
        own: bool | None = None,
    ) -> SessionListReply:
        """`session.list`: Lists the sessions."""
        params = _given(
            {
                "own": own,
            }
        )
        return self._request("session.list", params, SessionListReply)

    def session_rename(
        self,
        *,
        name: str,
        session_id: str,
    ) -> SessionRenameReply:
        """`session.rename`: Gives a living session another name."""
        params = _given(
            {
                "name": name,
                "session_id": session_id,
            }
        )
        return self._request("session.rename", params, SessionRenameReply)

    def session_resize(
        self,
        *,
        cols: int,
        rows: int,
        session_id: str,
    ) -> SessionResizeReply:
        """`session.resize`: Changes the size of an attached session's terminal."""
        params = _given(
            {
                "cols": cols,
                "rows": rows,
                "session_id": session_id,
            }
        )
        return self._request("session.resize", params, SessionResizeReply)

    def session_restart(
        self,
        *,
        session_id: str,
        if_lost: bool | None = None,
    ) -> SessionRestartReply:
        """`session.restart`: Starts a new shell for a session and restores its state."""
        params = _given(
            {
                "session_id": session_id,
                "if_lost": if_lost,
            }
        )
        return self._request("session.restart", params, SessionRestartReply)

    def system_info(
        self,
    ) -> SystemInfoReply:
        """`system.info`: Describes the daemon: version, methods, shells, limits."""
        params = _given(
            {
            }
        )
        return self._request("system.info", params, SystemInfoReply)

    def system_ping(
        self,
    ) -> SystemPingReply:
        """`system.ping`: Answers at once."""
        params = _given(
            {
            }
        )
        return self._request("system.ping", params, SystemPingReply)

    def system_runtimes(
        self,
    ) -> SystemRuntimesReply:
        """`system.runtimes`: Lists where sessions can be created."""
        params = _given(
            {
            }
        )
        return self._request("system.runtimes", params, SystemRuntimesReply)

    def system_shutdown(
        self,
        *,
        keep_sessions: bool | None = None,
    ) -> SystemShutdownReply:
        """`system.shutdown`: Ends the daemon."""
        params = _given(
            {
                "keep_sessions": keep_sessions,
            }
        )
        return self._request("system.shutdown", params, SystemShutdownReply)

    def system_stats(
        self,
    ) -> SystemStatsReply:
        """`system.stats`: Counts sessions, commands and resources."""
        params = _given(
            {
            }
        )
        return self._request("system.stats", params, SystemStatsReply)
