// A handle on a daemon: one request per connection at a time, over as many as it takes.

import { randomBytes } from "node:crypto";
import * as http from "node:http";
import * as https from "node:https";
import { setImmediate as nextTurn, setTimeout as pause } from "node:timers/promises";

import { Attempts } from "./attempts.js";
import { ConnectionEnded, NoDaemonError, NotStartedError } from "./errors.js";
import { launch } from "./launch.js";
import { HttpLink, type Link, SocketLink } from "./link.js";
import { type Environment, type Start, type Target, target } from "./locate.js";
import { type CallOptions, Methods } from "./methods.js";
import type { Progress } from "./progress.js";
import type { Calls } from "./protocol.js";
import { EventStream } from "./stream.js";
import { checkHome, checkSocket } from "./trust.js";
import type { Incoming } from "./wire.js";

const KEPT_IDLE = 16;
/** The longest of the pauses between two looks for a daemon that somebody else has to bring back. */
const LONGEST_PAUSE_MS = 1000;
/** After this long the end of an idle connection may wait in the event loop. */
const STALE_MS = 5;
/** A daemon may be killed as soon as it listens; the next one is not, unless somebody means it. */
const STARTS = 3;

export interface ClientOptions {
  /** Another socket than the one that `trl` would use. */
  readonly socket?: string | undefined;
  /** A daemon that is reached over HTTP. */
  readonly url?: string | undefined;
  /** For `url`; default TRL_AUTH_TOKEN. */
  readonly token?: string | undefined;
  /** For `https:`: certificates (PEM) that the daemon's is checked against. */
  readonly ca?: string | Buffer | undefined;
  /** The `trl` that is started if no daemon listens; default the one on PATH. */
  readonly program?: string | undefined;
  /** False: never start a daemon. */
  readonly start?: boolean | undefined;
  /** How long a daemon that this client may not start is waited for when it goes away. */
  readonly reconnectMs?: number | undefined;
  readonly env?: Environment | undefined;
}

/** How a request is sent: with events before its reply, and again after its connection was lost. */
interface How {
  readonly streaming: boolean;
  readonly resuming: boolean;
}

export class Client extends Methods {
  readonly #target: Target;
  readonly #reconnectMs: number;
  readonly #ca: string | Buffer | undefined;
  readonly #agent: http.Agent | undefined;
  readonly #prefix = `t${randomBytes(4).toString("hex")}`;
  #number = 0;
  #idle: Link[] = [];
  #starting: Promise<string | undefined> | undefined;

  /** Uses the daemon that `trl` would use and starts it if there is none, unless the options say otherwise. */
  constructor(options: ClientOptions = {}) {
    super();
    this.#target = target(options);
    this.#reconnectMs = options.reconnectMs ?? 30_000;
    this.#ca = options.ca;
    if (this.#target.kind === "http") {
      const kept = { keepAlive: true, maxFreeSockets: KEPT_IDLE };
      this.#agent = this.#target.url.protocol === "https:" ? new https.Agent(kept) : new http.Agent(kept);
    }
  }

  /** Asks one thing and waits for its one answer, as the protocol has it. */
  async call(method: string, params: object = {}, options: CallOptions = {}): Promise<unknown> {
    const { signal } = options;
    signal?.throwIfAborted();
    const attempts = new Attempts(this.newId(), method, params);
    for (let resuming = false; ; resuming = true) {
      let link: Link | undefined;
      const abort = signal === undefined ? undefined : (): void => link?.close();
      if (abort !== undefined) signal?.addEventListener("abort", abort, { once: true });
      let incoming: Incoming;
      try {
        const sending = this.send(attempts.id, method, attempts.line(), { streaming: false, resuming });
        link = sending instanceof Promise ? await sending : sending;
        signal?.throwIfAborted();
        do incoming = await link.next();
        while (incoming.kind === "event");
      } catch (error) {
        link?.close();
        signal?.throwIfAborted();
        if (!(error instanceof ConnectionEnded)) throw error;
        attempts.ended(error.unread);
        continue;
      } finally {
        if (abort !== undefined) signal?.removeEventListener("abort", abort);
      }
      if (incoming.kind === "done") {
        this.keepLink(link);
        return incoming.data;
      }
      if (incoming.error.code !== "SHUTTING_DOWN") {
        this.keepLink(link);
        throw incoming.error;
      }
      await link.closed();
      attempts.refused(incoming.error, this.mayComeBack);
    }
  }

  override request<M extends keyof Calls>(
    method: M,
    params: Calls[M]["params"],
    options?: CallOptions,
  ): Promise<Calls[M]["reply"]> {
    return this.call(method, params, options) as Promise<Calls[M]["reply"]>;
  }

  override open<E, R>(progress: Progress<E, R>, options?: CallOptions): EventStream<E, R> {
    if (progress.method === "exec.stream") progress.params["run_id"] ??= this.newId();
    return new EventStream(this, progress, options);
  }

  /** Closes the connections. Sessions and commands go on. */
  close(): void {
    for (const link of this.#idle) link.close();
    this.#idle = [];
    this.#agent?.destroy();
  }

  /** An id that no other request has. */
  newId(): string {
    this.#number += 1;
    return `${this.#prefix}-${this.#number}`;
  }

  /** Whether a daemon that goes away is followed by another, as far as this client knows. */
  get mayComeBack(): boolean {
    return (this.#target.kind === "socket" && this.#target.start !== undefined) || this.#reconnectMs > 0;
  }

  // Connections. These are for streams and agents, not for users.

  /** Sends a request over a connection of its own: at once if there is one, since each promise takes its time. */
  send(id: string, method: string, line: string, how: How): Link | Promise<Link> {
    const last = this.#idle.at(-1);
    const isStale = last === undefined || performance.now() - last.idleSince > STALE_MS;
    const link = isStale ? undefined : this.#freshLink();
    if (link === undefined) return this.#sendLater(id, method, line, how);
    const sending = link.send(id, method, line, how.streaming);
    return sending === undefined ? link : sending.then(() => link);
  }

  /** One that goes on is worth waiting for a daemon. */
  async #sendLater(id: string, method: string, line: string, how: How): Promise<Link> {
    for (let waited = 0, wait = 20; ; waited += wait, wait = Math.min(wait * 2, LONGEST_PAUSE_MS)) {
      let link: Link | undefined;
      try {
        if (this.#idle.length > 0) await nextTurn();
        link = this.#freshLink() ?? (await this.openLink());
        await link.send(id, method, line, how.streaming);
        return link;
      } catch (error) {
        link?.close();
        if (!(error instanceof NoDaemonError) || !how.resuming || waited >= this.#reconnectMs) throw error;
      }
      await pause(wait);
    }
  }

  /** A connection that nobody uses. */
  #freshLink(): Link | undefined {
    for (let kept = this.#idle.pop(); kept !== undefined; kept = this.#idle.pop()) {
      if (kept.reusable) {
        kept.hold(true);
        return kept;
      }
      kept.close();
    }
    return undefined;
  }

  keepLink(link: Link): void {
    if (this.#idle.length < KEPT_IDLE && link.reusable) {
      link.hold(false);
      link.idleSince = performance.now();
      this.#idle.push(link);
    } else {
      link.close();
    }
  }

  /** A new connection, to a new daemon if need be and allowed. */
  openLink(): Promise<Link> {
    const where = this.#target;
    if (where.kind === "socket") return this.#openTrusted(where.path, where.start, where.state);
    const agent = this.#agent ?? http.globalAgent;
    return Promise.resolve(new HttpLink({ url: where.url, token: where.token, ca: this.#ca, agent }));
  }

  async #openTrusted(path: string, start: Start | undefined, state: string | undefined): Promise<Link> {
    const link = await this.#openSocket(path, start);
    if (state === undefined) return link;
    try {
      await checkHome(path, state);
    } catch (error) {
      link.close();
      throw error;
    }
    return link;
  }

  async #openSocket(path: string, start: Start | undefined): Promise<Link> {
    await checkSocket(path);
    try {
      return await SocketLink.open(path);
    } catch (error) {
      if (!(error instanceof NoDaemonError) || start === undefined) throw error;
    }
    for (let started = 0; started < STARTS; started += 1) {
      this.#starting ??= launch(start).finally(() => (this.#starting = undefined));
      const refused = await this.#starting;
      try {
        // Refused because another one is there, and that one answers: all is well.
        return await SocketLink.open(path);
      } catch (error) {
        if (!(error instanceof NoDaemonError)) throw error;
        if (refused !== undefined) throw new NotStartedError(`the daemon did not start: ${refused}`);
      }
    }
    throw new NotStartedError(`the daemon ended as soon as it listened, ${STARTS} times`, {
      help: `${start.log} may say more`,
    });
  }
}
