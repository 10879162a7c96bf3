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
from ._client import AsyncClient
from ._link import AsyncLink
from ._pipe import AsyncLock
from ._session import default_client, given
from ._stream import AsyncEventStream

if TYPE_CHECKING:
    from typing_extensions import Self


class AsyncAgent:
    """An asyncio agent. It is made if it is not there, and present while `with` lasts.

    Presence is a connection that stays open. When the daemon is replaced, the next request
    opens another under the same label.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        client: AsyncClient | None = None,
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
        self._presence: AsyncLink | None = None
        self._used: AgentUseReply | None = None
        #: The inbox is read on the connection that is the presence: where that ends, the wait does too.
        self._inbox_turn = AsyncLock()
        self._reading = False

    async def __aenter__(self) -> Self:
        await self._token()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.release()

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

    async def _token(self) -> str:
        """The token that speaks for this agent, over a connection that is there."""
        present = self._presence is not None and (self._reading or self._presence.is_reusable())
        if self._used is None or not present:
            await self._bind()
        return self._known().token

    async def _bind(self) -> None:
        if self._used is None and self._make and self.name is not None:
            agents = (await self.client.agent_list()).agents
            if all(self.name not in (agent.agent, agent.address) for agent in agents):
                await self.client.agent_create(name=self.name)
        # Saying it again is harmless: the id of the harness session stands for one label.
        patience = Patience()
        while True:
            if self._presence is not None:
                self._presence.close()
            self._presence = await self.client.open_link(resuming=self._used is not None)
            patience.sent()
            try:
                self._used = AgentUseReply.decode(await self._ask(self._presence, "agent.use", self._use))
                return
            except ConnectionEnded as ended:
                if not patience.ended(unread=ended.unread):
                    raise LostError("agent.use") from None

    async def _ask(self, link: AsyncLink, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """One request on the connection that the agent is bound to."""
        id = self.client.new_id()
        await link.send(id, method, request_line(id, method, params), streaming=False)
        incoming = await link.next()
        while isinstance(incoming, Event):
            incoming = await link.next()
        if isinstance(incoming, Done):
            return incoming.data
        raise incoming.error

    async def release(self) -> None:
        """The agent's session is over and its label free."""
        if self._used is None:
            return
        token, self._used = self._used.token, None
        try:
            await self.client.agent_release(as_=token)
        finally:
            if self._presence is not None:
                self._presence.close()
                self._presence = None

    async def send(
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
        params["as"] = await self._token()
        return MailSendReply.decode(await self.client.call("mail.send", params))

    async def ask(
        self, to: str, text: str, *, timeout_s: float = 60.0, to_session: str | None = None
    ) -> Message | None:
        """Sends mail and waits for the reply; None if none comes in time."""
        sent = await self.send(to, text, to_session=to_session)
        return (await self.await_reply(sent.message_id, timeout_s=timeout_s)).reply

    async def await_reply(self, message_id: str, *, timeout_s: float = 60.0) -> MailAwaitReplyReply:
        return await self.client.mail_await_reply(
            message_id=message_id, timeout_s=timeout_s, as_=await self._token()
        )

    async def inbox(
        self, *, wait_s: float | None = None, limit: int | None = None, peek: bool = False
    ) -> list[Message]:
        """Takes what waits, waiting up to `wait_s` for the first message. `peek` only looks."""
        params = given(limit=limit, peek=peek or None)
        deadline = time.monotonic() + (wait_s or 0.0)
        patience = Patience()
        async with self._inbox_turn:
            while True:
                params.update({"as": await self._token(), "wait_s": max(deadline - time.monotonic(), 0.0)})
                assert self._presence is not None
                patience.sent()
                found = await self._read_inbox(self._presence, params)
                if isinstance(found, MailInboxReply):
                    return found.messages
                if not patience.ended(unread=found.unread):
                    raise LostError("mail.inbox")

    async def _read_inbox(self, link: AsyncLink, params: dict[str, Any]) -> MailInboxReply | ConnectionEnded:
        """If the connection ended, what was handed out on it is handed out again."""
        self._reading = True
        try:
            return MailInboxReply.decode(await self._ask(link, "mail.inbox", params))
        except ConnectionEnded as ended:
            link.close()
            return ended
        except DaemonError as error:
            if error.code != "SHUTTING_DOWN" or not self.client.may_come_back:
                raise
            await link.closed()
            return ConnectionEnded(unread=False)
        except BaseException:
            link.close()
            raise
        finally:
            self._reading = False

    async def reply(self, message: Message | str, text: str) -> MailReplyReply:
        """Answers a message of the inbox. The answer goes to the session that asked."""
        message_id = message if isinstance(message, str) else message.message_id
        return await self.client.mail_reply(message_id=message_id, text=text, as_=await self._token())

    async def status(self, message_id: str) -> MailStatusReply:
        return await self.client.mail_status(message_id=message_id, as_=await self._token())

    async def subscribe(self) -> AsyncEventStream[MailEvent, MailSubscribeReply]:
        """Tells when mail comes: how many messages wait, and the ids of the new ones."""
        return self.client.mail_subscribe(as_=await self._token())

    async def sessions(self) -> AgentSessionsReply:
        return await self.client.agent_sessions(as_=await self._token())

    async def contacts(self) -> list[ContactRow]:
        return (await self.client.contact_list(as_=await self._token())).contacts

    async def request_contact(self, who: str) -> ContactRow:
        return await self.client.contact_request(who=who, as_=await self._token())

    async def accept_contact(self, who: str) -> ContactRow:
        return await self.client.contact_accept(who=who, as_=await self._token())

    # Sessions for others.

    async def grant(
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
        await self._token()
        return await self.client.runtime_grant(
            agent=to,
            from_=self._known().agent,
            profile=profile,
            limits=limits,
            max_sessions=max_sessions,
            working_dir=working_dir,
            expires_s=expires_s,
        )

    async def revoke(self, grant: RuntimeGrantReply | GrantRow | str) -> RuntimeRevokeReply:
        """Ends a grant and every session under it."""
        grant_id = grant if isinstance(grant, str) else grant.grant_id
        return await self.client.runtime_revoke(grant_id=grant_id)

    async def grants(self) -> list[GrantRow]:
        """What this agent has granted, oldest first, also what is over."""
        await self._token()
        name = self._known().agent
        return [grant for grant in (await self.client.runtime_grants()).grants if grant.granted_by == name]
