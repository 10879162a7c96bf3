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
    AgentCreateReply,
    AgentHeartbeatReply,
    AgentListReply,
    AgentReleaseReply,
    AgentSessionsReply,
    AgentUseReply,
    AgentWhoamiReply,
    ChangeEvent,
    ContactListReply,
    ContactPresenceReply,
    ContactRow,
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
    MailAutorespondReply,
    MailAwaitReplyReply,
    MailCheckReplyReply,
    MailDeadLettersReply,
    MailEvent,
    MailHeldReply,
    MailInboxReply,
    MailReplyReply,
    MailResetReply,
    MailSendAndWaitReply,
    MailSendReply,
    MailStatusReply,
    MailSubscribeReply,
    MissedEvent,
    Policy,
    SessionAttachReply,
    SessionBindReply,
    SessionCreateReply,
    SessionDestroyReply,
    SessionInfo,
    SessionInputReply,
    SessionLimitsParam,
    SessionListReply,
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

    def agent_create(
        self,
        *,
        name: str,
        policy: Policy | None = None,
    ) -> AgentCreateReply:
        """`agent.create`"""
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
        """`agent.heartbeat`: Params of requests that need only to know who asks."""
        params = _given(
            {
                "as": as_,
            }
        )
        return self._request("agent.heartbeat", params, AgentHeartbeatReply)

    def agent_list(
        self,
    ) -> AgentListReply:
        """`agent.list`: Params of requests that take none."""
        params = _given(
            {
            }
        )
        return self._request("agent.list", params, AgentListReply)

    def agent_release(
        self,
        *,
        as_: str | None = None,
    ) -> AgentReleaseReply:
        """`agent.release`: Params of requests that need only to know who asks."""
        params = _given(
            {
                "as": as_,
            }
        )
        return self._request("agent.release", params, AgentReleaseReply)

    def agent_sessions(
        self,
        *,
        agent: str | None = None,
        as_: str | None = None,
    ) -> AgentSessionsReply:
        """`agent.sessions`"""
        params = _given(
            {
                "agent": agent,
                "as": as_,
            }
        )
        return self._request("agent.sessions", params, AgentSessionsReply)

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
        terminal: str | None = None,
        usual: bool | None = None,
    ) -> AgentUseReply:
        """`agent.use`"""
        params = _given(
            {
                "agent": agent,
                "cwd": cwd,
                "harness": harness,
                "harness_session_id": harness_session_id,
                "label": label,
                "pid": pid,
                "primary": primary,
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
        """`agent.whoami`: Params of requests that need only to know who asks."""
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
        """`contact.accept`"""
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
        """`contact.block`"""
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
        """`contact.decline`"""
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
        """`contact.list`: Params of requests that need only to know who asks."""
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
        """`contact.presence`: Params of requests that need only to know who asks."""
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
        """`contact.request`"""
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
        topics: Sequence[Topic] | None = None,
    ) -> EventStream[ChangeEvent | MissedEvent | SubscribedEvent, EventsSubscribeReply]:
        """`events.subscribe`"""
        params = _given(
            {
                "from": from_,
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
        """`exec.attach`"""
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
        """`exec.bind`"""
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
        """`exec.cancel`"""
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
        """`exec.info`"""
        params = _given(
            {
                "exec_id": exec_id,
            }
        )
        return self._request("exec.info", params, ExecInfo)

    def exec_list(
        self,
        *,
        session_id: str | None = None,
    ) -> ExecListReply:
        """`exec.list`"""
        params = _given(
            {
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
        """`exec.output`"""
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
        """`exec.resize`"""
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
        command: str,
        session_id: str,
        background: bool | None = None,
        check: bool | None = None,
        encoding: Encoding | None = None,
        env: Mapping[str, str] | None = None,
        max_output_bytes: int | None = None,
        merge_stderr: bool | None = None,
        run_id: str | None = None,
        stdin: str | None = None,
        stdin_open: bool | None = None,
        timeout_s: float | None = None,
        tty: bool | None = None,
        wait_s: float | None = None,
        working_dir: str | None = None,
    ) -> ExecRunReply:
        """`exec.run`: Shared by `exec.run`, `exec.stream` and `exec.start`."""
        params = _given(
            {
                "command": command,
                "session_id": session_id,
                "background": background,
                "check": check,
                "encoding": encoding,
                "env": env,
                "max_output_bytes": max_output_bytes,
                "merge_stderr": merge_stderr,
                "run_id": run_id,
                "stdin": stdin,
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
        """`exec.screen`: One of the two."""
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
        command: str,
        session_id: str,
        background: bool | None = None,
        check: bool | None = None,
        encoding: Encoding | None = None,
        env: Mapping[str, str] | None = None,
        max_output_bytes: int | None = None,
        merge_stderr: bool | None = None,
        run_id: str | None = None,
        stdin: str | None = None,
        stdin_open: bool | None = None,
        timeout_s: float | None = None,
        tty: bool | None = None,
        wait_s: float | None = None,
        working_dir: str | None = None,
    ) -> ExecStartReply:
        """`exec.start`: Shared by `exec.run`, `exec.stream` and `exec.start`."""
        params = _given(
            {
                "command": command,
                "session_id": session_id,
                "background": background,
                "check": check,
                "encoding": encoding,
                "env": env,
                "max_output_bytes": max_output_bytes,
                "merge_stderr": merge_stderr,
                "run_id": run_id,
                "stdin": stdin,
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
        command: str,
        session_id: str,
        background: bool | None = None,
        check: bool | None = None,
        encoding: Encoding | None = None,
        env: Mapping[str, str] | None = None,
        max_output_bytes: int | None = None,
        merge_stderr: bool | None = None,
        run_id: str | None = None,
        stdin: str | None = None,
        stdin_open: bool | None = None,
        timeout_s: float | None = None,
        tty: bool | None = None,
        wait_s: float | None = None,
        working_dir: str | None = None,
    ) -> EventStream[CommandEvent, ExecStreamReply]:
        """`exec.stream`: Shared by `exec.run`, `exec.stream` and `exec.start`."""
        params = _given(
            {
                "command": command,
                "session_id": session_id,
                "background": background,
                "check": check,
                "encoding": encoding,
                "env": env,
                "max_output_bytes": max_output_bytes,
                "merge_stderr": merge_stderr,
                "run_id": run_id,
                "stdin": stdin,
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
        """`exec.wait`"""
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
        write_id: str | None = None,
    ) -> ExecWriteReply:
        """`exec.write`"""
        params = _given(
            {
                "exec_id": exec_id,
                "data": data,
                "encoding": encoding,
                "eof": eof,
                "write_id": write_id,
            }
        )
        return self._request("exec.write", params, ExecWriteReply)

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
        """`mail.autorespond`: `action`, or one of the three words as a param of its own;
        with none of them, `status`.
        """
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
        timeout_s: float | None = None,
    ) -> MailAwaitReplyReply:
        """`mail.await_reply`"""
        params = _given(
            {
                "message_id": message_id,
                "as": as_,
                "timeout_s": timeout_s,
            }
        )
        return self._request("mail.await_reply", params, MailAwaitReplyReply)

    def mail_check_reply(
        self,
        *,
        message_id: str,
        as_: str | None = None,
    ) -> MailCheckReplyReply:
        """`mail.check_reply`: Params of requests that name one message."""
        params = _given(
            {
                "message_id": message_id,
                "as": as_,
            }
        )
        return self._request("mail.check_reply", params, MailCheckReplyReply)

    def mail_dead_letters(
        self,
        *,
        as_: str | None = None,
    ) -> MailDeadLettersReply:
        """`mail.dead_letters`: Params of requests that need only to know who asks."""
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
        """`mail.held`: Params of requests that need only to know who asks."""
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
        """`mail.inbox`"""
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

    def mail_reply(
        self,
        *,
        message_id: str,
        text: str,
        as_: str | None = None,
        auto: bool | None = None,
    ) -> MailReplyReply:
        """`mail.reply`"""
        params = _given(
            {
                "message_id": message_id,
                "text": text,
                "as": as_,
                "auto": auto,
            }
        )
        return self._request("mail.reply", params, MailReplyReply)

    def mail_reset(
        self,
        *,
        who: str,
        as_: str | None = None,
    ) -> MailResetReply:
        """`mail.reset`"""
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
        to_session: str | None = None,
    ) -> MailSendReply:
        """`mail.send`"""
        params = _given(
            {
                "text": text,
                "to": to,
                "as": as_,
                "auto": auto,
                "expires_s": expires_s,
                "in_reply_to": in_reply_to,
                "role": role,
                "to_session": to_session,
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
        role: str | None = None,
        timeout_s: float | None = None,
        to_session: str | None = None,
    ) -> MailSendAndWaitReply:
        """`mail.send_and_wait`"""
        params = _given(
            {
                "text": text,
                "to": to,
                "as": as_,
                "auto": auto,
                "expires_s": expires_s,
                "in_reply_to": in_reply_to,
                "role": role,
                "timeout_s": timeout_s,
                "to_session": to_session,
            }
        )
        return self._request("mail.send_and_wait", params, MailSendAndWaitReply)

    def mail_status(
        self,
        *,
        message_id: str,
        as_: str | None = None,
    ) -> MailStatusReply:
        """`mail.status`: Params of requests that name one message."""
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
        """`mail.subscribe`: Params of requests that need only to know who asks."""
        params = _given(
            {
                "as": as_,
            }
        )
        return self._stream(MailProgress("mail.subscribe", params, MailSubscribeReply))

    def session_attach(
        self,
        *,
        session_id: str,
        cols: int | None = None,
        read_only: bool | None = None,
        rows: int | None = None,
        take_over: bool | None = None,
    ) -> EventStream[Output, SessionAttachReply]:
        """`session.attach`"""
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
        """`session.bind`"""
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
        env: Mapping[str, str] | None = None,
        idle_timeout_s: float | None = None,
        isolation: Any = None,
        limits: SessionLimitsParam | None = None,
        name: str | None = None,
        rc: bool | None = None,
        shell: str | None = None,
        timeout_s: float | None = None,
        tty: bool | None = None,
        working_dir: str | None = None,
    ) -> SessionCreateReply:
        """`session.create`"""
        params = _given(
            {
                "env": env,
                "idle_timeout_s": idle_timeout_s,
                "isolation": isolation,
                "limits": limits,
                "name": name,
                "rc": rc,
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
        """`session.destroy`"""
        params = _given(
            {
                "session_id": session_id,
                "force": force,
            }
        )
        return self._request("session.destroy", params, SessionDestroyReply)

    def session_info(
        self,
        *,
        session_id: str,
    ) -> SessionInfo:
        """`session.info`: Params of every request that names one session and nothing else."""
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
        """`session.input`"""
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
    ) -> SessionListReply:
        """`session.list`: Params of requests that take none."""
        params = _given(
            {
            }
        )
        return self._request("session.list", params, SessionListReply)

    def session_resize(
        self,
        *,
        cols: int,
        rows: int,
        session_id: str,
    ) -> SessionResizeReply:
        """`session.resize`"""
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
    ) -> SessionRestartReply:
        """`session.restart`: Params of every request that names one session and nothing
        else.
        """
        params = _given(
            {
                "session_id": session_id,
            }
        )
        return self._request("session.restart", params, SessionRestartReply)

    def system_info(
        self,
    ) -> SystemInfoReply:
        """`system.info`: Params of requests that take none."""
        params = _given(
            {
            }
        )
        return self._request("system.info", params, SystemInfoReply)

    def system_ping(
        self,
    ) -> SystemPingReply:
        """`system.ping`: Params of requests that take none."""
        params = _given(
            {
            }
        )
        return self._request("system.ping", params, SystemPingReply)

    def system_runtimes(
        self,
    ) -> SystemRuntimesReply:
        """`system.runtimes`: Params of requests that take none."""
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
        """`system.shutdown`"""
        params = _given(
            {
                "keep_sessions": keep_sessions,
            }
        )
        return self._request("system.shutdown", params, SystemShutdownReply)

    def system_stats(
        self,
    ) -> SystemStatsReply:
        """`system.stats`: Params of requests that take none."""
        params = _given(
            {
            }
        )
        return self._request("system.stats", params, SystemStatsReply)
