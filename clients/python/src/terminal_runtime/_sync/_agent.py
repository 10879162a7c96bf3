# Made from _aio/_agent.py by clients/generate; do not edit.
"""An agent: a name under which mail is sent and received."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Any

from .._attempts import Patience
from .._failures import ConnectionEnded, DaemonError, LostError
from .._wire import Done, Event, request_line
from ..protocol import (
    AgentSessionsReply,
    AgentUseReply,
    ContactRow,
    GrantRow,
    MailAwaitReplyReply,
    MailEvent,
    MailInboxReply,
    MailReplyReply,
    MailSendReply,
    MailStatusReply,
    MailSubscribeReply,
    Message,
    Profile,
    RuntimeGrantReply,
    RuntimeRevokeReply,
    SessionLimitsParam,
)
from ._client import Client
from ._link import Link
from ._pipe import Lock
from ._session import default_client, given
from ._stream import EventStream

if TYPE_CHECKING:
    from typing_extensions import Self


class Agent:
    """A blocking agent. It is made if it is not there, and present while `with` lasts.

    Presence is a connection that stays open. When the daemon is replaced, the next request
    opens another under the same label.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        client: Client | None = None,
        label: str | None = None,
        create: bool = True,
        harness: str | None = None,
        harness_session_id: str | None = None,
    ) -> None:
        self.client = client if client is not None else default_client()
        self.name = name
        self._make = create
        self._use = given(
            agent=name,
            label=label,
            harness=harness or "python",
            harness_session_id=harness_session_id or f"sdk-{secrets.token_hex(8)}",
        )
        self._presence: Link | None = None
        self._used: AgentUseReply | None = None
        #: The inbox is read on the connection that is the presence: where that ends, the wait does too.
        self._inbox_turn = Lock()
        self._reading = False

    def __enter__(self) -> Self:
        self._token()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    @property
    def address(self) -> str:
        return self._known().address

    @property
    def label(self) -> str:
        """Which of the agent's sessions this is."""
        return self._known().label

    def _known(self) -> AgentUseReply:
        if self._used is None:
            raise RuntimeError("the agent is not in use yet: use `with`")
        return self._used

    def _token(self) -> str:
        """The token that speaks for this agent, over a connection that is there."""
        present = self._presence is not None and (self._reading or self._presence.is_reusable())
        if self._used is None or not present:
            self._bind()
        return self._known().token

    def _bind(self) -> None:
        if self._used is None and self._make and self.name is not None:
            agents = (self.client.agent_list()).agents
            if all(self.name not in (agent.agent, agent.address) for agent in agents):
                self.client.agent_create(name=self.name)
        # Saying it again is harmless: the id of the harness session stands for one label.
        patience = Patience()
        while True:
            if self._presence is not None:
                self._presence.close()
            self._presence = self.client.open_link(resuming=self._used is not None)
            patience.sent()
            try:
                self._used = AgentUseReply.decode(self._ask(self._presence, "agent.use", self._use))
                return
            except ConnectionEnded as ended:
                if not patience.ended(unread=ended.unread):
                    raise LostError("agent.use") from None

    def _ask(self, link: Link, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """One request on the connection that the agent is bound to."""
        id = self.client.new_id()
        link.send(id, method, request_line(id, method, params), streaming=False)
        incoming = link.next()
        while isinstance(incoming, Event):
            incoming = link.next()
        if isinstance(incoming, Done):
            return incoming.data
        raise incoming.error

    def release(self) -> None:
        """The agent's session is over and its label free."""
        if self._used is None:
            return
        token, self._used = self._used.token, None
        try:
            self.client.agent_release(as_=token)
        finally:
            if self._presence is not None:
                self._presence.close()
                self._presence = None

    def send(
        self,
        to: str,
        text: str,
        *,
        to_session: str | None = None,
        role: str | None = None,
        in_reply_to: str | None = None,
        expires_s: float | None = None,
    ) -> MailSendReply:
        """Sends mail. When this returns, the message is stored: it arrives, or fails visibly."""
        params = given(
            to=to, text=text, to_session=to_session, role=role, in_reply_to=in_reply_to, expires_s=expires_s
        )
        params["as"] = self._token()
        return MailSendReply.decode(self.client.call("mail.send", params))

    def ask(
        self, to: str, text: str, *, timeout_s: float = 60.0, to_session: str | None = None
    ) -> Message | None:
        """Sends mail and waits for the reply; None if none comes in time."""
        sent = self.send(to, text, to_session=to_session)
        return (self.await_reply(sent.message_id, timeout_s=timeout_s)).reply

    def await_reply(self, message_id: str, *, timeout_s: float = 60.0) -> MailAwaitReplyReply:
        return self.client.mail_await_reply(
            message_id=message_id, timeout_s=timeout_s, as_=self._token()
        )

    def inbox(
        self, *, wait_s: float | None = None, limit: int | None = None, peek: bool = False
    ) -> list[Message]:
        """Takes what waits, waiting up to `wait_s` for the first message. `peek` only looks."""
        params = given(limit=limit, peek=peek or None)
        deadline = time.monotonic() + (wait_s or 0.0)
        patience = Patience()
        with self._inbox_turn:
            while True:
                params.update({"as": self._token(), "wait_s": max(deadline - time.monotonic(), 0.0)})
                assert self._presence is not None
                patience.sent()
                found = self._read_inbox(self._presence, params)
                if isinstance(found, MailInboxReply):
                    return found.messages
                if not patience.ended(unread=found.unread):
                    raise LostError("mail.inbox")

    def _read_inbox(self, link: Link, params: dict[str, Any]) -> MailInboxReply | ConnectionEnded:
        """If the connection ended, what was handed out on it is handed out again."""
        self._reading = True
        try:
            return MailInboxReply.decode(self._ask(link, "mail.inbox", params))
        except ConnectionEnded as ended:
            link.close()
            return ended
        except DaemonError as error:
            if error.code != "SHUTTING_DOWN" or not self.client.may_come_back:
                raise
            link.closed()
            return ConnectionEnded(unread=False)
        except BaseException:
            link.close()
            raise
        finally:
            self._reading = False

    def reply(self, message: Message | str, text: str) -> MailReplyReply:
        """Answers a message of the inbox. The answer goes to the session that asked."""
        message_id = message if isinstance(message, str) else message.message_id
        return self.client.mail_reply(message_id=message_id, text=text, as_=self._token())

    def status(self, message_id: str) -> MailStatusReply:
        return self.client.mail_status(message_id=message_id, as_=self._token())

    def subscribe(self) -> EventStream[MailEvent, MailSubscribeReply]:
        """Tells when mail comes: how many messages wait, and the ids of the new ones."""
        return self.client.mail_subscribe(as_=self._token())

    def sessions(self) -> AgentSessionsReply:
        return self.client.agent_sessions(as_=self._token())

    def contacts(self) -> list[ContactRow]:
        return (self.client.contact_list(as_=self._token())).contacts

    def request_contact(self, who: str) -> ContactRow:
        return self.client.contact_request(who=who, as_=self._token())

    def accept_contact(self, who: str) -> ContactRow:
        return self.client.contact_accept(who=who, as_=self._token())

    # Sessions for others.

    def grant(
        self,
        to: str,
        *,
        profile: Profile | None = None,
        limits: SessionLimitsParam | None = None,
        max_sessions: int | None = None,
        working_dir: str | None = None,
        expires_s: float | None = None,
    ) -> RuntimeGrantReply:
        """Lets a contact's agent create sessions on this daemon, isolated and within these limits.

        Its daemon gets the token by mail and then has this one as a runtime, for `Session(runtime=...)`.
        """
        self._token()
        return self.client.runtime_grant(
            agent=to,
            from_=self._known().agent,
            profile=profile,
            limits=limits,
            max_sessions=max_sessions,
            working_dir=working_dir,
            expires_s=expires_s,
        )

    def revoke(self, grant: RuntimeGrantReply | GrantRow | str) -> RuntimeRevokeReply:
        """Ends a grant and every session under it."""
        grant_id = grant if isinstance(grant, str) else grant.grant_id
        return self.client.runtime_revoke(grant_id=grant_id)

    def grants(self) -> list[GrantRow]:
        """What this agent has granted, oldest first, also what is over."""
        self._token()
        name = self._known().agent
        return [grant for grant in (self.client.runtime_grants()).grants if grant.granted_by == name]
