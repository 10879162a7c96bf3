// An agent: a name under which mail is sent and received.

import { randomBytes } from "node:crypto";

import { Patience } from "./attempts.js";
import type { Client } from "./client.js";
import { ConnectionEnded, DaemonError, LostError } from "./errors.js";
import type { Link } from "./link.js";
import type { CallOptions } from "./methods.js";
import type {
  AgentUseReply,
  ContactRow,
  GrantRow,
  MailAwaitReplyReply,
  MailEvent,
  MailReplyReply,
  MailSendReply,
  MailStatusReply,
  MailSubscribeReply,
  Message,
  RuntimeGrantParams,
  RuntimeGrantReply,
  RuntimeRevokeReply,
} from "./protocol.js";
import { defaultClient, given, seconds } from "./session.js";
import type { EventStream } from "./stream.js";
import { requestLine } from "./wire.js";

export interface AgentOptions {
  readonly client?: Client | undefined;
  readonly label?: string | undefined;
  /** False: the agent must be there already. */
  readonly create?: boolean | undefined;
  readonly harness?: string | undefined;
  /** The same one later gets the same label and mail again. */
  readonly harnessSessionId?: string | undefined;
}

/** What an agent may use of this daemon. */
export interface GrantOptions {
  /** The least isolation of its sessions; default `workspace`. */
  readonly profile?: RuntimeGrantParams["profile"];
  /** The most that each of its sessions may use. */
  readonly limits?: RuntimeGrantParams["limits"];
  readonly maxSessions?: number | undefined;
  /** Default: a private `/tmp`. */
  readonly workingDir?: string | undefined;
  /** Default: until it is revoked. */
  readonly expiresMs?: number | undefined;
}

/**
 * An agent that is present until it is released. Presence is a connection that stays open; when the daemon
 * is replaced, the next request opens another under the same label.
 */
export class Agent {
  readonly client: Client;
  readonly name: string;
  readonly #use: Record<string, unknown>;
  readonly #create: boolean;
  #presence: Link | undefined;
  #used: AgentUseReply | undefined;
  /**
   * The last read of the inbox. They take turns on the connection that is the presence: where that ends,
   * the wait does too.
   */
  #lastRead: Promise<unknown> = Promise.resolve();
  #reading = false;

  private constructor(name: string, options: AgentOptions) {
    this.client = options.client ?? defaultClient();
    this.name = name;
    this.#create = options.create ?? true;
    this.#use = given({
      agent: name,
      label: options.label,
      harness: options.harness ?? "node",
      harness_session_id: options.harnessSessionId ?? `sdk-${randomBytes(8).toString("hex")}`,
    });
  }

  /** Makes the agent if it is not there, and speaks for it. */
  static async use(name: string, options: AgentOptions = {}): Promise<Agent> {
    const agent = new Agent(name, options);
    await agent.#token();
    return agent;
  }

  get address(): string {
    return this.#known().address;
  }

  /** Which of the agent's sessions this is. */
  get label(): string {
    return this.#known().label;
  }

  #known(): AgentUseReply {
    if (this.#used === undefined) throw new Error("the agent was released");
    return this.#used;
  }

  /** The token that speaks for this agent, over a connection that is there. */
  async #token(): Promise<string> {
    const present = this.#presence !== undefined && (this.#reading || this.#presence.reusable);
    if (this.#used === undefined || !present) await this.#bind();
    return this.#known().token;
  }

  async #bind(): Promise<void> {
    if (this.#used === undefined && this.#create) {
      const { agents } = await this.client.agentList();
      if (!agents.some((agent) => agent.agent === this.name || agent.address === this.name)) {
        await this.client.agentCreate({ name: this.name });
      }
    }
    // Saying it again is harmless: the id of the harness session stands for one label.
    const patience = new Patience();
    for (;;) {
      this.#presence?.close();
      this.#presence = await this.client.openLink();
      patience.sent();
      try {
        this.#used = (await this.#ask(this.#presence, "agent.use", this.#use)) as AgentUseReply;
        return;
      } catch (error) {
        if (!(error instanceof ConnectionEnded)) throw error;
        if (!patience.ended(error.unread)) throw new LostError("agent.use");
      }
    }
  }

  /** One request on the connection that the agent is bound to. */
  async #ask(link: Link, method: string, params: object): Promise<unknown> {
    const id = this.client.newId();
    link.hold(true);
    try {
      await link.send(id, method, requestLine(id, method, params), false);
      for (;;) {
        const incoming = await link.next();
        if (incoming.kind === "failed") throw incoming.error;
        if (incoming.kind === "done") return incoming.data;
      }
    } finally {
      link.hold(false);
    }
  }

  /** The agent's session is over and its label free. */
  async release(): Promise<void> {
    if (this.#used === undefined) return;
    const { token } = this.#used;
    this.#used = undefined;
    try {
      await this.client.agentRelease({ as: token });
    } finally {
      this.#presence?.close();
      this.#presence = undefined;
    }
  }

  /** For `await using agent = await Agent.use("ada")`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }

  /** Sends mail. When this resolves, the message is stored: it arrives, or fails visibly. */
  async send(
    to: string,
    text: string,
    options: {
      readonly toSession?: string;
      readonly role?: string;
      readonly inReplyTo?: string;
      readonly expiresMs?: number;
    } = {},
  ): Promise<MailSendReply> {
    const params = given({
      to,
      text,
      to_session: options.toSession,
      role: options.role,
      in_reply_to: options.inReplyTo,
      expires_s: seconds(options.expiresMs),
      as: await this.#token(),
    });
    return (await this.client.call("mail.send", params)) as MailSendReply;
  }

  /** Sends mail and waits for the reply; `undefined` if none comes in time. */
  async ask(to: string, text: string, options: { readonly timeoutMs?: number } = {}): Promise<Message | undefined> {
    const sent = await this.send(to, text);
    return (await this.awaitReply(sent.message_id, options)).reply ?? undefined;
  }

  async awaitReply(messageId: string, options: { readonly timeoutMs?: number } = {}): Promise<MailAwaitReplyReply> {
    const timeout = (options.timeoutMs ?? 60_000) / 1000;
    return this.client.mailAwaitReply({ message_id: messageId, timeout_s: timeout, as: await this.#token() });
  }

  /** Takes what waits, waiting up to `waitMs` for the first message. `peek` only looks. */
  async inbox(
    options: { readonly waitMs?: number; readonly limit?: number; readonly peek?: boolean } = {},
  ): Promise<readonly Message[]> {
    const read = this.#lastRead.then(() => this.#readInbox(options));
    this.#lastRead = read.catch(() => undefined);
    return read;
  }

  async #readInbox(options: {
    readonly waitMs?: number;
    readonly limit?: number;
    readonly peek?: boolean;
  }): Promise<readonly Message[]> {
    const deadline = performance.now() + (options.waitMs ?? 0);
    const patience = new Patience();
    for (;;) {
      const token = await this.#token();
      const wait = Math.max(deadline - performance.now(), 0) / 1000;
      const params = given({ limit: options.limit, peek: options.peek, wait_s: wait, as: token });
      const link = this.#presence;
      if (link === undefined) continue;
      this.#reading = true;
      patience.sent();
      try {
        return ((await this.#ask(link, "mail.inbox", params)) as { messages: readonly Message[] }).messages;
      } catch (error) {
        // What was handed out on a connection that ended is handed out again.
        const leaving = error instanceof DaemonError && error.code === "SHUTTING_DOWN" && this.client.mayComeBack;
        if (leaving) await link.closed();
        else if (error instanceof ConnectionEnded) link.close();
        else throw error;
        if (!patience.ended(error instanceof ConnectionEnded && error.unread)) throw new LostError("mail.inbox");
      } finally {
        this.#reading = false;
      }
    }
  }

  /** Answers a message of the inbox. The answer goes to the session that asked. */
  async reply(message: Message | string, text: string): Promise<MailReplyReply> {
    const id = typeof message === "string" ? message : message.message_id;
    return this.client.mailReply({ message_id: id, text, as: await this.#token() });
  }

  async status(messageId: string): Promise<MailStatusReply> {
    return this.client.mailStatus({ message_id: messageId, as: await this.#token() });
  }

  /** Tells when mail comes: how many messages wait, and the ids of the new ones. */
  async subscribe(options?: CallOptions): Promise<EventStream<MailEvent, MailSubscribeReply>> {
    return this.client.mailSubscribe({ as: await this.#token() }, options);
  }

  async contacts(): Promise<readonly ContactRow[]> {
    return (await this.client.contactList({ as: await this.#token() })).contacts;
  }

  async requestContact(who: string): Promise<ContactRow> {
    return this.client.contactRequest({ who, as: await this.#token() });
  }

  async acceptContact(who: string): Promise<ContactRow> {
    return this.client.contactAccept({ who, as: await this.#token() });
  }

  /**
   * Lets a contact's agent create sessions on this daemon, isolated and within these limits. Its daemon gets the
   * token by mail and then has this one as a runtime, for `Session.create({ runtime })`.
   */
  async grant(to: string, options: GrantOptions = {}): Promise<RuntimeGrantReply> {
    await this.#token();
    const params = given({
      agent: to,
      from: this.#known().agent,
      profile: options.profile,
      limits: options.limits,
      max_sessions: options.maxSessions,
      working_dir: options.workingDir,
      expires_s: seconds(options.expiresMs),
    });
    return (await this.client.call("runtime.grant", params)) as RuntimeGrantReply;
  }

  /** Ends a grant and every session under it. */
  async revoke(grant: { readonly grant_id: string } | string): Promise<RuntimeRevokeReply> {
    return this.client.runtimeRevoke({ grant_id: typeof grant === "string" ? grant : grant.grant_id });
  }

  /** What this agent has granted, oldest first, also what is over. */
  async grants(): Promise<readonly GrantRow[]> {
    await this.#token();
    const name = this.#known().agent;
    return (await this.client.runtimeGrants()).grants.filter((grant) => grant.granted_by === name);
  }
}
