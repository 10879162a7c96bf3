// A command that was started: wait for it, talk to it, watch it.

import type { Client } from "./client.js";
import { TerminalRuntimeError } from "./errors.js";
import { typed } from "./keys.js";
import type { CallOptions } from "./methods.js";
import { type CommandEvent, CommandProgress, type Output, type StreamName } from "./progress.js";
import type { ExecInfo, ExecScreenReply, ExecStreamReply } from "./protocol.js";
import { Outcome } from "./results.js";
import { EventStream } from "./stream.js";
import { unreadable } from "./wire.js";

/** One reply of `exec.output` holds at most this much. */
const PIECE = 4 * 1024 * 1024;
/** How long an aborted caller waits for its command to end. */
const GRACE_MS = 15_000;

/**
 * Ends a command that was sent and whose answer nobody waits for.
 *
 * Sent again with its `run_id`, it is not started again but told by its id. Why this fails, if it does, is of no
 * use to a caller who has aborted.
 */
export async function cancelRun(client: Client, params: object): Promise<void> {
  const known = { background: false, ...params, check: undefined };
  try {
    const started = (await client.call("exec.start", known)) as { exec_id: string };
    const command = new Command(client, started.exec_id);
    await command.cancel();
    await command.wait({ timeoutMs: GRACE_MS });
  } catch (error) {
    if (!(error instanceof TerminalRuntimeError)) throw error;
  }
}

export interface WaitOptions extends CallOptions {
  /** Without it there is no limit. */
  readonly timeoutMs?: number | undefined;
}

export interface LogOptions extends WaitOptions {
  /** Only in this stream; default: in both. */
  readonly stream?: StreamName | undefined;
  /** Matches begin at this byte of the stream or later. */
  readonly fromOffset?: number | undefined;
}

/** Text that a command printed and that was waited for. */
export interface LogMatch {
  readonly text: string;
  readonly stream: StreamName;
  /** Where it begins and ends, in bytes of its stream. */
  readonly offset: number;
  readonly endOffset: number;
  /** Which of several patterns it was. */
  readonly index: number;
}

/** What a terminal shows. `String(screen)` is its text. */
export class Screen {
  readonly reply: ExecScreenReply;

  constructor(reply: ExecScreenReply) {
    this.reply = reply;
  }

  get lines(): readonly string[] {
    return this.reply.lines;
  }

  get cursor(): ExecScreenReply["cursor"] {
    return this.reply.cursor;
  }

  /** Without empty lines at the end. */
  get text(): string {
    return this.reply.lines.join("\n").replace(/\n+$/, "");
  }

  toString(): string {
    return this.text;
  }
}

/** A handle on a command, running or finished. Only `execId` is kept here. */
export class Command {
  readonly client: Client;
  readonly execId: string;
  /** Where the next `expect` begins to look. */
  readonly #expected: Partial<Record<StreamName, number>> = {};

  constructor(client: Client, execId: string) {
    this.client = client;
    this.execId = execId;
  }

  info(): Promise<ExecInfo> {
    return this.client.execInfo({ exec_id: this.execId });
  }

  /** Waits until the command is over. DaemonError `WAIT_TIMEOUT` if it is not in time. */
  async wait(options: WaitOptions = {}): Promise<ExecInfo> {
    return this.#wait({ exit: true }, options);
  }

  /** Waits until the command prints this; what it printed before counts. A RegExp is read by the daemon. */
  async waitForLog(pattern: Pattern | readonly Pattern[], options: LogOptions = {}): Promise<LogMatch> {
    const log: Record<string, unknown> = { ...looked(pattern) };
    if (options.stream !== undefined) log["stream"] = options.stream;
    if (options.fromOffset !== undefined) log["from_offset"] = options.fromOffset;
    const waited = (await this.#wait({ log }, options)) as unknown as {
      matched?: { log?: { text: string; stream: StreamName; offset: number; end_offset?: number; index?: number } };
    };
    const found = waited.matched?.log;
    if (found === undefined) throw unreadable("exec.wait", JSON.stringify(waited));
    const { text, stream, offset, end_offset: end, index } = found;
    return { text, stream, offset, endOffset: end ?? offset + Buffer.byteLength(text), index: index ?? 0 };
  }

  /** Waits for the pattern after the end of the last match. `index` says which of several came. */
  async expect(pattern: Pattern | readonly Pattern[], options: LogOptions = {}): Promise<LogMatch> {
    const stream = options.stream ?? "stdout";
    const fromOffset = this.#expected[stream];
    const match = await this.waitForLog(pattern, { timeoutMs: 30_000, fromOffset, ...options, stream });
    // An empty match moves on as well, or the next one would be the same.
    this.#expected[stream] = Math.max(match.endOffset, match.offset + 1);
    return match;
  }

  /** Waits until the port takes connections or, with `httpPath`, answers with a status below 400. */
  waitForPort(
    port: number,
    options: WaitOptions & { readonly host?: string | undefined; readonly httpPath?: string | undefined } = {},
  ): Promise<ExecInfo> {
    const until = {
      port,
      ...(options.host === undefined ? {} : { host: options.host }),
      ...(options.httpPath === undefined ? {} : { http_path: options.httpPath }),
    };
    return this.#wait({ port: until }, options);
  }

  #wait(until: object, options: WaitOptions): Promise<ExecInfo> {
    const time = options.timeoutMs === undefined ? {} : { timeout_s: options.timeoutMs / 1000 };
    const params = { exec_id: this.execId, until, ...time };
    return this.client.call("exec.wait", params, { signal: options.signal }) as Promise<ExecInfo>;
  }

  /** Writes to the command's stdin. */
  async send(data: string | Uint8Array, options: { readonly eof?: boolean } = {}): Promise<void> {
    const what =
      typeof data === "string" ? { data } : { data: Buffer.from(data).toString("base64"), encoding: "base64" as const };
    await this.client.execWrite({ exec_id: this.execId, ...what, eof: options.eof ?? false });
  }

  sendLine(line = ""): Promise<void> {
    return this.send(`${line}\n`);
  }

  /** Presses keys of a terminal: `sendKeys("ls", "Enter", "Ctrl-C")`. */
  sendKeys(...keys: string[]): Promise<void> {
    return this.send(keys.map(typed).join(""));
  }

  sendEof(): Promise<void> {
    return this.send("", { eof: true });
  }

  async screen(): Promise<Screen> {
    return new Screen(await this.client.execScreen({ exec_id: this.execId }));
  }

  async resize(rows: number, cols: number): Promise<void> {
    await this.client.execResize({ exec_id: this.execId, rows, cols });
  }

  /** INT, then TERM, then KILL; or only the signal that is named. False if it had ended. */
  async cancel(signal?: string | number): Promise<boolean> {
    const named = signal === undefined ? {} : { signal };
    return (await this.client.execCancel({ exec_id: this.execId, ...named })).cancelled;
  }

  /** All that is kept of what it printed so far. */
  async output(stream: StreamName = "stdout"): Promise<string> {
    return new TextDecoder().decode(await this.outputBytes(stream));
  }

  async outputBytes(stream: StreamName = "stdout", offset = 0): Promise<Uint8Array> {
    const pieces: Buffer[] = [];
    for (;;) {
      const reply = await this.client.execOutput({
        exec_id: this.execId,
        stream,
        offset,
        limit: PIECE,
        encoding: "base64",
      });
      pieces.push(Buffer.from(reply.base64 ?? "", "base64"));
      offset = reply.next_offset;
      if (offset >= reply.total_bytes) return Buffer.concat(pieces);
    }
  }

  /** What it printed from these offsets on, and what it will print. */
  stream(options: CallOptions & { readonly stdoutOffset?: number; readonly stderrOffset?: number } = {}): CommandStream {
    const params = {
      exec_id: this.execId,
      stdout_offset: options.stdoutOffset ?? 0,
      stderr_offset: options.stderrOffset ?? 0,
    };
    return new CommandStream(this.client, "exec.attach", params, { signal: options.signal, owned: false });
  }
}

export type Pattern = string | RegExp;

/** Texts and expressions in one question: if any is an expression, all are. */
function looked(pattern: Pattern | readonly Pattern[]): object {
  const patterns = Array.isArray(pattern) ? (pattern as readonly Pattern[]) : [pattern as Pattern];
  const regex = patterns.some((one) => one instanceof RegExp);
  const texts = patterns.map((one) => (one instanceof RegExp ? expression(one) : regex ? escaped(one) : one));
  return Array.isArray(pattern) ? { patterns: texts, regex } : { pattern: texts[0], regex };
}

/** The flags that the daemon's expressions have too. */
function expression(of: RegExp): string {
  const flags = [...of.flags].filter((flag) => flag === "i" || flag === "s").join("");
  return flags === "" ? of.source : `(?${flags})${of.source}`;
}

function escaped(text: string): string {
  return text.replace(/[\\.+*?()|[\]{}^$#&\-~]/g, "\\$&");
}

/**
 * An async iterator over what a command does; `outcome` says how it ended.
 *
 * The events are `queued` (it waits for its turn), `started`, `stdout` and `stderr`, `gap` (bytes that are no
 * longer kept) and `waiting` (the command reads from its terminal), told apart by `type`.
 */
export class CommandStream extends EventStream<CommandEvent, ExecStreamReply> {
  readonly #progress: CommandProgress<ExecStreamReply>;
  /** Whether the command was started for this stream, and so ends with its signal. */
  readonly #owned: boolean;

  constructor(client: Client, method: string, params: object, options: CallOptions & { readonly owned: boolean }) {
    const progress = new CommandProgress<ExecStreamReply>(method, params);
    super(client, progress, options);
    this.#progress = progress;
    this.#owned = options.owned;
  }

  /** The command, once the daemon has said that it exists. */
  get command(): Command | undefined {
    const { execId } = this.#progress;
    return execId === undefined ? undefined : new Command(this.client, execId);
  }

  get outcome(): Outcome {
    return new Outcome(this.result);
  }

  protected override async aborted(): Promise<void> {
    if (this.#owned && this.sent !== undefined) await cancelRun(this.client, this.sent);
  }

  /** Only what it prints. */
  async *output(): AsyncGenerator<Output, void> {
    for await (const event of this) if (event.type === "stdout" || event.type === "stderr") yield event;
  }

  /** What it prints, stdout and stderr as they come. */
  async *text(): AsyncGenerator<string, void> {
    for await (const output of this.output()) yield output.text;
  }

  /** Whole lines without their ends; of both streams if none is named. */
  async *lines(stream?: StreamName): AsyncGenerator<string, void> {
    const begun = { stdout: "", stderr: "" };
    for await (const output of this.output()) {
      if (stream !== undefined && stream !== output.type) continue;
      const lines = (begun[output.type] + output.text).split("\n");
      begun[output.type] = lines.pop() ?? "";
      for (const line of lines) yield line.replace(/\r$/, "");
    }
    for (const rest of [begun.stdout, begun.stderr]) if (rest !== "") yield rest;
  }
}
