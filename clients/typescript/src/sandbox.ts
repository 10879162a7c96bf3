// The shape of Cloudflare's Sandbox SDK on sessions of this machine. The README lists the differences.

import { Client, type ClientOptions } from "./client.js";
import { SandboxSession, type SessionInit, prefixed } from "./sandbox-session.js";
import { Session } from "./session.js";

export type { ExecOptions, ExecResult, SessionInit as SessionOptions, StreamOptions } from "./sandbox-session.js";
export type {
  Process,
  ProcessOptions,
  ProcessStatus,
  WaitForExitResult,
  WaitForLogResult,
  WaitForPortOptions,
} from "./sandbox-process.js";
export { NotSupportedError, ProcessExitedBeforeReadyError, ProcessReadyTimeoutError } from "./sandbox-errors.js";
export {
  type ExecEvent,
  type LogEvent,
  asyncIterableToSSEStream,
  parseSSEStream,
  responseToAsyncIterable,
} from "./sandbox-events.js";
export {
  type FileChunk,
  type FileEncoding,
  type FileInfo,
  type FileMetadata,
  type FileStreamEvent,
  type ListFilesOptions,
  type ListFilesResult,
  type ReadFileResult,
  type ReadFileStreamResult,
  collectFile,
  streamFile,
} from "./sandbox-files.js";
export { isExecResult, isProcess, isProcessStatus } from "./sandbox-guards.js";
export { SandboxSession as ExecutionSession } from "./sandbox-session.js";

export interface SandboxOptions extends ClientOptions {
  readonly client?: Client | undefined;
  /** A session without commands for this long ends: "10m", or seconds. */
  readonly sleepAfter?: string | number | undefined;
  /** Never ends by itself. */
  readonly keepAlive?: boolean | undefined;
  /** The image or runtime that sessions are made in; see docs of the daemon. */
  readonly runtime?: string | undefined;
  readonly isolation?: unknown;
  /** Accepted and without meaning here. */
  readonly normalizeId?: boolean | undefined;
  readonly enableDefaultSession?: boolean | undefined;
  readonly transport?: string | undefined;
  readonly containerTimeouts?: unknown;
  readonly labels?: Readonly<Record<string, string>> | undefined;
}

const clients = new WeakMap<object, Client>();
let shared: Client | undefined;

/**
 * A sandbox by its id. The first argument is the namespace of a Durable Object in the other SDK; here it may
 * be a `Client`, and anything else is ignored.
 */
export function getSandbox(namespace: unknown, id: string, options: SandboxOptions = {}): Sandbox {
  const client = options.client ?? (namespace instanceof Client ? namespace : clientOf(options));
  return new Sandbox(client, id, options);
}

function clientOf(options: SandboxOptions): Client {
  const ofItsOwn = options.socket ?? options.url ?? options.program ?? options.env;
  if (ofItsOwn === undefined) return (shared ??= new Client());
  let client = clients.get(options);
  if (client === undefined) clients.set(options, (client = new Client(options)));
  return client;
}

/** What programs of the other SDK call the type of a sandbox. */
export type ISandbox = Sandbox;

/** Some sessions under one name. What is done to the sandbox itself is done in its default session. */
export class Sandbox extends SandboxSession {
  readonly #options: SandboxOptions;

  constructor(client: Client, id: string, options: SandboxOptions = {}) {
    super(client, prefixed(id), id, init(options));
    this.#options = options;
  }

  /** Another session of this sandbox, with a shell of its own. */
  async createSession(options: SessionInit = {}): Promise<SandboxSession> {
    const id = options.id ?? options.name ?? `session-${Date.now().toString(36)}`;
    const session = this.#session(id, { ...init(this.#options), ...options });
    await session.ensure();
    return session;
  }

  getSession(sessionId: string): Promise<SandboxSession> {
    return Promise.resolve(this.#session(sessionId, init(this.#options)));
  }

  async deleteSession(sessionId: string): Promise<{ success: boolean; sessionId: string; timestamp: string }> {
    await this.#session(sessionId, {}).end();
    return { success: true, sessionId, timestamp: new Date().toISOString() };
  }

  #session(id: string, how: SessionInit): SandboxSession {
    return new SandboxSession(this.client, `${this.sessionName}:${id}`, id, how);
  }

  /** Ends the sandbox: its sessions and all their processes. Files stay. */
  async destroy(): Promise<void> {
    const { sessions } = await this.client.sessionList();
    const mine = sessions.filter(({ name }) => name === this.sessionName || name?.startsWith(`${this.sessionName}:`));
    await Promise.all(mine.map(({ session_id: id }) => Session.existing(id, { client: this.client }).end()));
  }
}

function init(options: SandboxOptions): SessionInit {
  return {
    runtime: options.runtime,
    isolation: options.isolation,
    idleTimeoutMs: options.keepAlive === true ? 0 : milliseconds(options.sleepAfter),
  };
}

function milliseconds(time: string | number | undefined): number | undefined {
  if (time === undefined) return undefined;
  if (typeof time === "number") return time * 1000;
  const found = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(time);
  const units: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
  if (found === null) throw new TypeError(`${JSON.stringify(time)} is no time; it takes 30s, 10m, 2h`);
  return Number(found[1]) * (units[found[2] ?? ""] ?? 1);
}
