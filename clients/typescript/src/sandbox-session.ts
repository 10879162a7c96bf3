// A session of a sandbox: a living shell with the other SDK's methods. It is made when it is first used.

import { randomBytes } from "node:crypto";
import { homedir } from "node:os";
import { basename, isAbsolute, join } from "node:path";

import type { Client } from "./client.js";
import { Command } from "./command.js";
import { DaemonError } from "./errors.js";
import type { CallOptions } from "./methods.js";
import { Unsupported } from "./sandbox-errors.js";
import { execEvents, exitNumber, logEvents, sseStream } from "./sandbox-events.js";
import {
  type Done,
  type FileEncoding,
  type ListFilesOptions,
  type ListFilesResult,
  type ReadFileResult,
  type ReadFileStreamResult,
  collected,
  decoded,
  done,
  fileEvents,
  fileInfo,
  isHidden,
  metadataOf,
  streamed,
} from "./sandbox-files.js";
import { Process, type ProcessOptions, statusOf } from "./sandbox-process.js";
import type { RunResult } from "./results.js";
import { type CommandOptions, Session, type SessionOptions } from "./session.js";

/** Requests of one session are run one after the other; they wait this long for their turn. */
const TURN_MS = 24 * 3_600_000;

export interface ExecOptions extends CallOptions {
  /** In milliseconds; without it there is no limit. */
  readonly timeout?: number | undefined;
  readonly env?: Readonly<Record<string, string | undefined>> | undefined;
  readonly cwd?: string | undefined;
  readonly encoding?: string | undefined;
  readonly stdin?: string | undefined;
  readonly stream?: boolean | undefined;
  readonly onOutput?: ((stream: "stdout" | "stderr", data: string) => void) | undefined;
  readonly onComplete?: ((result: ExecResult) => void) | undefined;
  readonly onError?: ((error: Error) => void) | undefined;
  readonly origin?: "user" | "internal" | undefined;
}

export type StreamOptions = ExecOptions & { readonly bufferSize?: number | undefined };

export interface ExecResult {
  readonly success: boolean;
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
  readonly command: string;
  /** In milliseconds. */
  readonly duration: number;
  readonly timestamp: string;
  readonly sessionId: string;
}

export interface SessionInit {
  readonly id?: string | undefined;
  readonly name?: string | undefined;
  readonly env?: Readonly<Record<string, string | undefined>> | undefined;
  readonly cwd?: string | undefined;
  readonly commandTimeoutMs?: number | undefined;
  readonly idleTimeoutMs?: number | undefined;
  readonly runtime?: string | undefined;
  readonly isolation?: unknown;
}

/** The name of a sandbox's default session. */
export function prefixed(id: string): string {
  return `sandbox:${id}`;
}

export class SandboxSession extends Unsupported {
  readonly id: string;
  protected readonly client: Client;
  protected readonly sessionName: string;
  readonly #init: SessionInit;
  /** Ids that callers chose, to those of the commands. */
  readonly #named = new Map<string, string>();
  #made: Promise<Session> | undefined;

  constructor(client: Client, name: string, id: string, init: SessionInit) {
    super();
    this.client = client;
    this.sessionName = name;
    this.id = id;
    this.#init = init;
  }

  /** The session, made now if it is not there. */
  ensure(): Promise<Session> {
    this.#made ??= this.#make().catch((error: unknown) => {
      this.#made = undefined;
      throw error;
    });
    return this.#made;
  }

  async #make(): Promise<Session> {
    const found = Session.existing(this.sessionName, { client: this.client });
    try {
      await found.info();
      return found;
    } catch (error) {
      if (!missing(error)) throw error;
    }
    const { env, cwd, idleTimeoutMs, commandTimeoutMs, runtime, isolation } = this.#init;
    const how: SessionOptions = {
      client: this.client,
      name: this.sessionName,
      shell: "bash",
      timeoutMs: commandTimeoutMs ?? 0,
      idleTimeoutMs,
      runtime,
      isolation,
      env: env === undefined ? undefined : known(env),
      workingDir: cwd,
    };
    try {
      return await createIn(how);
    } catch (error) {
      // Somebody else has made it meanwhile.
      if (error instanceof DaemonError && (await found.info().then(() => true, () => false))) return found;
      throw error;
    }
  }

  async end(): Promise<void> {
    this.#made = undefined;
    await Session.existing(this.sessionName, { client: this.client }).end();
  }

  /** Does something in the session; one that ended by itself is made again. */
  async #within<T>(work: (session: Session) => Promise<T>): Promise<T> {
    try {
      return await work(await this.ensure());
    } catch (error) {
      if (!missing(error)) throw error;
      this.#made = undefined;
      return work(await this.ensure());
    }
  }

  async exec(command: string, options: ExecOptions = {}): Promise<ExecResult> {
    try {
      const result = await this.#within((session) => this.#exec(session, command, options));
      options.onComplete?.(result);
      return result;
    } catch (error) {
      options.onError?.(error instanceof Error ? error : new Error(String(error)));
      throw error;
    }
  }

  async #exec(session: Session, command: string, options: ExecOptions): Promise<ExecResult> {
    const about = { command, timestamp: new Date().toISOString(), sessionId: this.id };
    try {
      return { ...(await this.#ended(session, command, options)), ...about };
    } catch (error) {
      if (!isDirectoryMissing(error)) throw error;
      const stderr = `Failed to change directory to ${options.cwd ?? ""}\n`;
      return { success: false, exitCode: 1, duration: 0, stdout: "", stderr, ...about };
    }
  }

  async #ended(session: Session, command: string, options: ExecOptions): Promise<Ended> {
    const how = { ...commandOptions(options), waitMs: TURN_MS, signal: options.signal };
    if (options.onOutput === undefined) {
      const result = await session.run(command, how);
      this.#refuseLate(result, options);
      const ended = { success: result.ok, exitCode: exitNumber(result.exitCode), duration: result.durationMs };
      return { ...ended, ...(await this.#texts(result)) };
    }
    const texts = { stdout: "", stderr: "" };
    const stream = session.stream(command, how);
    for await (const output of stream.output()) {
      texts[output.type] += output.text;
      options.onOutput(output.type, output.text);
    }
    const { exitCode, durationMs, ok } = stream.outcome;
    this.#refuseLate(stream.outcome, options);
    return { success: ok, exitCode: exitNumber(exitCode), duration: durationMs, ...texts };
  }

  /** A command that ran out of time is an error there, not a result. */
  #refuseLate(outcome: { readonly timedOut: boolean }, options: ExecOptions): void {
    if (!outcome.timedOut) return;
    const after = options.timeout ?? this.#init.commandTimeoutMs ?? 0;
    throw new DaemonError("COMMAND_TIMEOUT", `Command timeout after ${after}ms`);
  }

  /** All that a command printed: the answer itself holds only so much. */
  async #texts(result: RunResult): Promise<{ stdout: string; stderr: string }> {
    const handle = new Command(this.client, result.execId);
    return {
      stdout: result.stdoutTruncated ? await handle.output("stdout") : result.stdout,
      stderr: result.stderrTruncated ? await handle.output("stderr") : result.stderr,
    };
  }

  /** Server-sent events `start`, `stdout`, `stderr`, `complete`, `error`; read them with `parseSSEStream`. */
  execStream(command: string, options: StreamOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return this.#within(async (session) => {
      await session.info();
      const how = { ...commandOptions(options), waitMs: TURN_MS, signal: options.signal };
      return sseStream(execEvents(session.stream(command, how), command, this.id));
    });
  }

  async startProcess(command: string, options: ProcessOptions = {}): Promise<Process> {
    const handle = await this.#within((session) =>
      session.background(command, { ...commandOptions(options), timeoutMs: options.timeout ?? 0 }),
    );
    if (options.processId !== undefined) this.#named.set(options.processId, handle.execId);
    const process = new Process(handle, await handle.info(), options.processId);
    options.onStart?.(process);
    if (options.onOutput !== undefined || options.onExit !== undefined) void this.#follow(handle, options);
    return process;
  }

  async #follow(handle: Command, options: ProcessOptions): Promise<void> {
    try {
      const stream = handle.stream();
      for await (const output of stream.output()) options.onOutput?.(output.type, output.text);
      options.onExit?.(stream.outcome.exitCode);
    } catch (error) {
      options.onError?.(error instanceof Error ? error : new Error(String(error)));
    }
  }

  #handle(id: string): Command {
    return new Command(this.client, this.#named.get(id) ?? id);
  }

  /** Of this session; another id of a session is not looked at. */
  async listProcesses(_sessionId?: string): Promise<Process[]> {
    const names = new Map([...this.#named].map(([name, id]) => [id, name]));
    const history = await this.#within((session) => session.history());
    return history
      .filter((info) => info.background)
      .map((info) => new Process(new Command(this.client, info.exec_id), info, names.get(info.exec_id)));
  }

  async getProcess(id: string, _sessionId?: string): Promise<Process | null> {
    const handle = this.#handle(id);
    try {
      return new Process(handle, await handle.info(), id);
    } catch (error) {
      if (error instanceof DaemonError && ["EXEC_NOT_FOUND", "INVALID_PARAMS"].includes(error.code)) return null;
      throw error;
    }
  }

  async killProcess(id: string, signal?: string): Promise<void> {
    await this.#handle(id).cancel(signal);
  }

  async killAllProcesses(): Promise<number> {
    const running = (await this.listProcesses()).filter(({ status }) => status === "running" || status === "starting");
    await Promise.all(running.map((process) => process.kill()));
    return running.length;
  }

  /** What is kept of finished processes is bounded by the daemon; nothing has to be cleaned up. */
  cleanupCompletedProcesses(): Promise<number> {
    return Promise.resolve(0);
  }

  async getProcessLogs(id: string): Promise<{ stdout: string; stderr: string; processId: string }> {
    const handle = this.#handle(id);
    const [stdout, stderr] = await Promise.all([handle.output("stdout"), handle.output("stderr")]);
    return { stdout, stderr, processId: id };
  }

  streamProcessLogs(id: string, options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    return Promise.resolve(sseStream(logEvents(this.#handle(id).stream(options), id)));
  }

  async getProcessStatus(id: string): Promise<string> {
    return statusOf(await this.#handle(id).info());
  }

  async setEnvVars(variables: Readonly<Record<string, string | undefined>>): Promise<void> {
    const lines = Object.entries(variables).map(([name, value]) => {
      if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) throw new TypeError(`${JSON.stringify(name)} is no variable`);
      return value === undefined ? `unset ${name}` : `export ${name}=${quoted(value)}`;
    });
    if (lines.length > 0) await this.#within((session) => session.run(lines.join("\n"), { check: true, waitMs: TURN_MS }));
  }

  // Files.

  async writeFile(
    path: string,
    content: string | ReadableStream<Uint8Array>,
    options: { readonly encoding?: string } = {},
  ): Promise<Done> {
    const bytes = typeof content === "string" ? decoded(content, options.encoding) : await collected(content);
    await this.#within((session) => session.files.write(path, bytes, { makeParents: true }));
    return done(path);
  }

  readFile(path: string, options: { readonly encoding: "none" }): Promise<ReadFileStreamResult>;
  readFile(path: string, options?: { readonly encoding?: Exclude<FileEncoding, "none"> }): Promise<ReadFileResult>;
  async readFile(
    path: string,
    options: { readonly encoding?: FileEncoding } = {},
  ): Promise<ReadFileResult | ReadFileStreamResult> {
    const bytes = await this.#bytes(path);
    const { isBinary, mimeType, size } = metadataOf(bytes);
    if (options.encoding === "none") return { ...done(path), content: streamed(bytes), size, mimeType };
    const base64 = options.encoding === "base64" || (options.encoding === undefined && isBinary);
    const content = bytes.toString(base64 ? "base64" : "utf8");
    return { ...done(path), content, encoding: base64 ? "base64" : "utf-8", isBinary, mimeType, size };
  }

  /** Server-sent events with the file; read them with `streamFile` or `collectFile`. */
  async readFileStream(path: string): Promise<ReadableStream<Uint8Array>> {
    return sseStream(fileEvents(await this.#bytes(path)));
  }

  async #bytes(path: string): Promise<Buffer> {
    return Buffer.from(await this.#within((session) => session.files.readBytes(path)));
  }

  async mkdir(path: string, options: { readonly recursive?: boolean } = {}): Promise<Done & { recursive: boolean }> {
    const recursive = options.recursive ?? false;
    await this.#within((session) => session.files.makeDir(path, { parents: recursive }));
    return { ...done(path), recursive };
  }

  async deleteFile(path: string): Promise<Done> {
    await this.#within((session) => session.files.remove(path));
    return done(path);
  }

  async renameFile(path: string, newPath: string): Promise<Done & { newPath: string }> {
    await this.#within((session) => session.files.move(path, newPath));
    return { ...done(path), newPath };
  }

  moveFile(path: string, newPath: string): Promise<Done & { newPath: string }> {
    return this.renameFile(path, newPath);
  }

  async exists(path: string, _sessionId?: string): Promise<Done & { exists: boolean }> {
    const exists = await this.#within((session) => session.files.exists(path));
    return { ...done(path), exists };
  }

  async listFiles(path: string, options: ListFilesOptions = {}): Promise<ListFilesResult> {
    const [entries, base] = await this.#within(async (session) => [
      await session.files.list(path, options.recursive === true ? { depth: 64 } : {}),
      isAbsolute(path) ? path : join((await session.info()).working_dir, path),
    ]);
    const shown = entries.filter(({ path: entry }) => options.includeHidden === true || !isHidden(entry));
    const files = shown.map((entry) => fileInfo(entry, base));
    return { ...done(path), files, count: files.length };
  }

  async gitCheckout(
    repoUrl: string,
    options: {
      readonly branch?: string;
      readonly targetDir?: string;
      readonly depth?: number;
      readonly sessionId?: string;
      readonly cloneTimeoutMs?: number;
    } = {},
  ): Promise<{ success: true; repoUrl: string; branch: string; targetDir: string; timestamp: string }> {
    const targetDir = options.targetDir ?? basename(repoUrl).replace(/\.git$/, "");
    const branch = options.branch === undefined ? "" : ` --branch ${quoted(options.branch)}`;
    const depth = options.depth === undefined ? "" : ` --depth ${Math.trunc(options.depth)}`;
    const command = `git clone${branch}${depth} -- ${quoted(repoUrl)} ${quoted(targetDir)}`;
    await this.#within((session) => session.run(command, { check: true, waitMs: TURN_MS, timeoutMs: options.cloneTimeoutMs ?? 0 }));
    const timestamp = new Date().toISOString();
    return { success: true, repoUrl, branch: options.branch ?? "", targetDir, timestamp };
  }

  /** An id that no process has. */
  newProcessId(): string {
    return `process-${randomBytes(4).toString("hex")}`;
  }
}

function missing(error: unknown): boolean {
  return error instanceof DaemonError && ["SESSION_NOT_FOUND", "SESSION_TERMINATED"].includes(error.code);
}

type Ended = Pick<ExecResult, "success" | "exitCode" | "duration" | "stdout" | "stderr">;

/** A directory to begin in that is not there is the home directory instead. */
async function createIn(how: SessionOptions): Promise<Session> {
  try {
    return await Session.create(how);
  } catch (error) {
    if (how.workingDir === undefined || !isDirectoryMissing(error)) throw error;
    const isHere = how.runtime === undefined || how.runtime === "local";
    return Session.create({ ...how, workingDir: isHere ? homedir() : undefined });
  }
}

function isDirectoryMissing(error: unknown): boolean {
  if (!(error instanceof DaemonError) || error.code !== "INVALID_PARAMS") return false;
  return (error.details as { field?: unknown } | null | undefined)?.field === "working_dir";
}

function commandOptions(options: ExecOptions | ProcessOptions): CommandOptions {
  return {
    timeoutMs: options.timeout,
    env: options.env === undefined ? undefined : known(options.env),
    workingDir: options.cwd,
    stdin: "stdin" in options ? options.stdin : undefined,
  };
}

/** Variables without a value are left out. */
function known(variables: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const pairs = Object.entries(variables).filter(([, value]) => value !== undefined);
  return Object.fromEntries(pairs) as Record<string, string>;
}

/** For a shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
