// A session: a living shell.

import { TRIES } from "./attempts.js";
import { Client } from "./client.js";
import { Command, CommandStream, Screen, cancelRun } from "./command.js";
import { DaemonError, LostError } from "./errors.js";
import { Files } from "./files.js";
import type { CallOptions } from "./methods.js";
import type { Output } from "./progress.js";
import type { ExecInfo, SessionAttachReply, SessionInfo } from "./protocol.js";
import { RunResult, withResult } from "./results.js";
import type { EventStream } from "./stream.js";

let shared: Client | undefined;

/** The client of sessions that are given none. */
export function defaultClient(): Client {
  shared ??= new Client();
  return shared;
}

export interface SessionOptions {
  readonly client?: Client | undefined;
  readonly name?: string | undefined;
  readonly shell?: string | undefined;
  readonly env?: Readonly<Record<string, string>> | undefined;
  readonly workingDir?: string | undefined;
  /** Default deadline of its commands; 0 is none. */
  readonly timeoutMs?: number | undefined;
  /** Ends it after so long without a command; 0 is never. */
  readonly idleTimeoutMs?: number | undefined;
  readonly tty?: boolean | undefined;
  /** Read the start-up files of the shell. */
  readonly rc?: boolean | undefined;
  readonly limits?: object | undefined;
  readonly isolation?: unknown;
  readonly runtime?: string | undefined;
  readonly durability?: string | undefined;
  readonly replaceEnv?: boolean | undefined;
  /** Keeps the state of the shell under this name, also when the session is over. */
  readonly keepState?: string | undefined;
  /** Begins with the state that is kept under this name, if there is one. */
  readonly restoreState?: string | undefined;
}

export interface CommandOptions {
  /** Run time; 0 is no limit. */
  readonly timeoutMs?: number | undefined;
  readonly stdin?: string | Uint8Array | undefined;
  readonly env?: Readonly<Record<string, string>> | undefined;
  readonly workingDir?: string | undefined;
  readonly tty?: boolean | undefined;
  readonly mergeStderr?: boolean | undefined;
  /** How long to queue for a busy session; without it: `SESSION_BUSY`. */
  readonly waitMs?: number | undefined;
  readonly replaceEnv?: boolean | undefined;
}

export interface RunOptions extends CommandOptions, CallOptions {
  /** A command that does not succeed is an error. */
  readonly check?: boolean | undefined;
  /** Of each stream in the result. */
  readonly maxOutputBytes?: number | undefined;
  /** Beside the shell: with its directory and environment, without changing them. */
  readonly background?: boolean | undefined;
  /** Answers after this time with what there is; the command goes on. */
  readonly softTimeoutMs?: number | undefined;
}

export interface StreamOptions extends CommandOptions, CallOptions {
  readonly check?: boolean | undefined;
  /** Stdin stays open for `command.send`. */
  readonly stdinOpen?: boolean | undefined;
}

export interface StartOptions extends CommandOptions {
  readonly background?: boolean | undefined;
  readonly stdinOpen?: boolean | undefined;
}

type Params = Record<string, unknown>;

/** A command: text for the shell, or words that no shell reads. */
export type CommandText = string | readonly string[];

export class Session {
  readonly client: Client;
  /** Its id, or the name by which it was found. */
  readonly id: string;
  readonly files: Files;

  private constructor(client: Client, id: string) {
    this.client = client;
    this.id = id;
    this.files = new Files(client, id);
  }

  static async create(options: SessionOptions = {}): Promise<Session> {
    const client = options.client ?? defaultClient();
    const params = given({
      name: options.name,
      shell: options.shell,
      env: options.env,
      working_dir: options.workingDir,
      timeout_s: seconds(options.timeoutMs),
      idle_timeout_s: seconds(options.idleTimeoutMs),
      tty: options.tty,
      rc: options.rc,
      limits: options.limits,
      isolation: options.isolation,
      runtime: options.runtime,
      durability: options.durability,
      replace_env: options.replaceEnv,
      keep_state: options.keepState,
      restore_state: options.restoreState,
    });
    const made = (await client.call("session.create", params)) as { session_id: string };
    return new Session(client, made.session_id);
  }

  /** A handle on a session that is there, by id or name. Nothing is asked yet. */
  static existing(session: string, options: { readonly client?: Client | undefined } = {}): Session {
    return new Session(options.client ?? defaultClient(), session);
  }

  /** Makes a session, gives it to `work`, and ends it with all its processes. */
  static async with<T>(options: SessionOptions, work: (session: Session) => Promise<T>): Promise<T> {
    const session = await Session.create(options);
    try {
      return await work(session);
    } finally {
      await session.end();
    }
  }

  /**
   * Runs a command and waits for its end. A list of words is run without a shell's reading.
   *
   * The signal cancels the command; the promise is rejected with the signal's reason once it has ended.
   */
  async run(command: CommandText, options: RunOptions = {}): Promise<RunResult> {
    options.signal?.throwIfAborted();
    const params = this.#params(command, options, {
      check: options.check === true ? true : undefined,
      max_output_bytes: options.maxOutputBytes,
      background: options.background,
      soft_timeout_s: seconds(options.softTimeoutMs),
    });
    try {
      const answer = this.client.call("exec.run", params) as Promise<RunResult["reply"]>;
      const { signal } = options;
      return new RunResult(signal === undefined ? await answer : await this.#unlessAborted(answer, params, signal));
    } catch (error) {
      throw withResult(error);
    }
  }

  async #unlessAborted<T>(answer: Promise<T>, params: Params, signal: AbortSignal): Promise<T> {
    let cancelling: Promise<unknown> | undefined;
    const abort = (): void => {
      cancelling = cancelRun(this.client, params);
    };
    signal.addEventListener("abort", abort, { once: true });
    try {
      return await answer;
    } finally {
      signal.removeEventListener("abort", abort);
      await cancelling;
      signal.throwIfAborted();
    }
  }

  /** Runs a command and iterates over its output as it comes. The signal cancels the command. */
  stream(command: CommandText, options: StreamOptions = {}): CommandStream {
    const params = this.#params(command, options, {
      check: options.check === true ? true : undefined,
      stdin_open: options.stdinOpen,
    });
    return new CommandStream(this.client, "exec.stream", params, { signal: options.signal, owned: true });
  }

  /** Starts a command in the session's shell and returns at once; good for programs to talk to. */
  async start(command: CommandText, options: StartOptions = {}): Promise<Command> {
    const params = this.#params(command, options, {
      background: options.background ?? false,
      stdin_open: options.stdinOpen,
    });
    const started = (await this.client.call("exec.start", params)) as { exec_id: string };
    return new Command(this.client, started.exec_id);
  }

  /** Starts a command beside the shell, which stays free. No deadline unless one is given. */
  background(command: CommandText, options: StartOptions = {}): Promise<Command> {
    return this.start(command, { timeoutMs: 0, ...options, background: true });
  }

  #params(command: CommandText, options: CommandOptions, more: Params): Params {
    const { stdin } = options;
    return given({
      session_id: this.id,
      ...(typeof command === "string" ? { command } : { argv: command }),
      timeout_s: seconds(options.timeoutMs),
      wait_s: seconds(options.waitMs),
      stdin: stdin === undefined || typeof stdin === "string" ? stdin : Buffer.from(stdin).toString("base64"),
      stdin_encoding: stdin === undefined || typeof stdin === "string" ? undefined : "base64",
      env: options.env,
      working_dir: options.workingDir,
      tty: options.tty,
      merge_stderr: options.mergeStderr,
      replace_env: options.replaceEnv,
      run_id: this.client.newId(),
      ...more,
    });
  }

  /** Ends what runs in the shell now. The shell and its state stay. */
  async cancel(signal?: string | number): Promise<boolean> {
    const named = signal === undefined ? {} : { signal };
    return (await this.client.execCancel({ session_id: this.id, ...named })).cancelled;
  }

  /** The commands that the session knows, oldest first. */
  async history(): Promise<readonly ExecInfo[]> {
    return (await this.client.execList({ session_id: this.id })).execs;
  }

  /** The terminal of the command that runs, or ran last. */
  async screen(): Promise<Screen> {
    return new Screen(await this.client.execScreen({ session_id: this.id }));
  }

  /** Presses keys at the command that runs in the shell: `sendKeys("q")`, `sendKeys("Ctrl-C")`. */
  async sendKeys(...keys: string[]): Promise<void> {
    const { running } = await this.info();
    if (running === undefined || running === null) {
      throw new Error("nothing runs in the session that keys could be sent to");
    }
    await new Command(this.client, running).sendKeys(...keys);
  }

  /** The session as a person sees it: bytes for a terminal. */
  attach(
    options: CallOptions & {
      readonly readOnly?: boolean;
      readonly takeOver?: boolean;
      readonly rows?: number;
      readonly cols?: number;
    } = {},
  ): EventStream<Output, SessionAttachReply> {
    const params = {
      session_id: this.id,
      read_only: options.readOnly ?? true,
      take_over: options.takeOver ?? false,
      ...(options.rows === undefined ? {} : { rows: options.rows }),
      ...(options.cols === undefined ? {} : { cols: options.cols }),
    };
    return this.client.sessionAttach(params, { signal: options.signal });
  }

  info(): Promise<SessionInfo> {
    return this.client.sessionInfo({ session_id: this.id });
  }

  /** A fresh shell with directory, variables, functions, aliases and options restored. */
  async restart(): Promise<void> {
    await this.client.sessionRestart({ session_id: this.id });
  }

  async rename(name: string): Promise<void> {
    await this.client.call("session.rename", { session_id: this.id, name });
  }

  /** A new session with the state of this one. */
  async fork(name?: string): Promise<Session> {
    const params = given({ session_id: this.id, name });
    const made = (await this.client.call("session.fork", params)) as { session_id: string };
    return new Session(this.client, made.session_id);
  }

  /** Ends the session. No process that it ever started is left. */
  async destroy(options: { readonly force?: boolean } = {}): Promise<void> {
    await this.client.sessionDestroy({ session_id: this.id, force: options.force ?? false });
  }

  /** For `await using session = await Session.create()`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.end();
  }

  /** Ends the session, if nobody else has done so. */
  async end(): Promise<void> {
    for (let left = TRIES - 1; ; left -= 1) {
      try {
        return await this.destroy();
      } catch (error) {
        // Also if the daemon that went away has done so: asking again ends nothing else.
        if (error instanceof LostError && left > 0) continue;
        const over = error instanceof DaemonError && ["SESSION_NOT_FOUND", "SESSION_TERMINATED"].includes(error.code);
        if (over) return;
        throw error;
      }
    }
  }
}

/** The params that have a value. */
export function given(params: Params): Params {
  const present: Params = {};
  for (const name in params) if (params[name] !== undefined) present[name] = params[name];
  return present;
}

export function seconds(milliseconds: number | undefined): number | undefined {
  if (milliseconds === undefined) return undefined;
  // JSON would make it null, which is the default and not what was meant.
  if (!Number.isFinite(milliseconds)) throw new RangeError(`${milliseconds} is no time; 0 is no limit`);
  return milliseconds / 1000;
}
