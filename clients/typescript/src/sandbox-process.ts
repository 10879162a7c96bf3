// A background process of a sandbox: a command beside the session's shell.

import type { Command } from "./command.js";
import type { ExecInfo } from "./protocol.js";
import { ProcessReadyTimeoutError, unready } from "./sandbox-errors.js";
import { exitNumber } from "./sandbox-events.js";

export type ProcessStatus = "starting" | "running" | "completed" | "failed" | "killed" | "error";

export interface ProcessOptions {
  readonly timeout?: number | undefined;
  readonly env?: Readonly<Record<string, string | undefined>> | undefined;
  readonly cwd?: string | undefined;
  readonly encoding?: string | undefined;
  readonly processId?: string | undefined;
  readonly sessionId?: string | undefined;
  readonly autoCleanup?: boolean | undefined;
  readonly onOutput?: ((stream: "stdout" | "stderr", data: string) => void) | undefined;
  readonly onExit?: ((code: number | null) => void) | undefined;
  readonly onStart?: ((process: Process) => void) | undefined;
  readonly onError?: ((error: Error) => void) | undefined;
}

export interface WaitForPortOptions {
  /** `http` (the default) wants an answer with a status of 200 to 399, `tcp` a connection. */
  readonly mode?: "http" | "tcp" | undefined;
  readonly path?: string | undefined;
  readonly status?: number | { readonly min: number; readonly max: number } | undefined;
  readonly timeout?: number | undefined;
  readonly interval?: number | undefined;
}

export interface WaitForLogResult {
  readonly line: string;
  readonly match?: RegExpMatchArray;
}

export interface WaitForExitResult {
  readonly exitCode: number;
}

export class Process {
  /** The command's id, or the one that was asked for when it was started. */
  readonly id: string;
  readonly pid?: number;
  readonly command: string;
  readonly status: ProcessStatus;
  readonly startTime: Date;
  readonly endTime?: Date;
  readonly exitCode?: number;
  readonly sessionId: string;
  readonly #handle: Command;

  constructor(handle: Command, info: ExecInfo, id = info.exec_id) {
    this.#handle = handle;
    this.id = id;
    this.command = info.command;
    this.status = statusOf(info);
    this.startTime = new Date(info.started_at ?? info.created_at);
    this.sessionId = info.session_id;
    if (typeof info.pid === "number") this.pid = info.pid;
    if (typeof info.finished_at === "string") this.endTime = new Date(info.finished_at);
    if (info.state === "finished") this.exitCode = exitNumber(info.exit_code);
  }

  async kill(signal?: string): Promise<void> {
    await this.#handle.cancel(signal);
  }

  async getStatus(): Promise<ProcessStatus> {
    return statusOf(await this.#handle.info());
  }

  async getLogs(): Promise<{ stdout: string; stderr: string }> {
    const [stdout, stderr] = await Promise.all([this.#handle.output("stdout"), this.#handle.output("stderr")]);
    return { stdout, stderr };
  }

  /** Waits for text in the output; `timeout` in milliseconds. */
  async waitForLog(pattern: string | RegExp, timeout?: number): Promise<WaitForLogResult> {
    const found = await this.#ready(String(pattern), timeout, () =>
      this.#handle.waitForLog(pattern, { timeoutMs: timeout }),
    );
    const line = lineAround(await this.#handle.output(found.stream), found.text);
    const match = pattern instanceof RegExp ? pattern.exec(line) : null;
    return match === null ? { line } : { line, match };
  }

  async waitForPort(port: number, options: WaitForPortOptions = {}): Promise<void> {
    const { mode = "http", path = "/", status, timeout } = options;
    const how = mode === "tcp" ? { timeoutMs: timeout } : { timeoutMs: timeout, httpPath: path };
    const condition = `port ${port}`;
    const waited = await this.#ready(condition, timeout, () => this.#handle.waitForPort(port, how));
    if (mode === "tcp" || status === undefined) return;
    const { matched } = waited as unknown as { matched: { port?: { http_status?: number } } };
    const got = matched.port?.http_status ?? 0;
    const { min, max } = typeof status === "number" ? { min: status, max: status } : status;
    if (got >= min && got <= max) return;
    throw new ProcessReadyTimeoutError(this.#awaited(`${condition} to answer with ${min}, not ${got}`), timeout ?? 0);
  }

  async waitForExit(timeout?: number): Promise<WaitForExitResult> {
    const info = await this.#ready("exit", timeout, () => this.#handle.wait({ timeoutMs: timeout }));
    return { exitCode: exitNumber(info.exit_code) };
  }

  async #ready<T>(condition: string, timeout: number | undefined, wait: () => Promise<T>): Promise<T> {
    try {
      return await wait();
    } catch (error) {
      throw unready(error, this.#awaited(condition), timeout);
    }
  }

  #awaited(condition: string): { processId: string; command: string; condition: string } {
    return { processId: this.id, command: this.command, condition };
  }
}

export function statusOf(info: ExecInfo): ProcessStatus {
  if (info.state === "queued") return "starting";
  if (info.state === "running") return "running";
  if (info.cancelled === true || (info.signal !== undefined && info.signal !== null)) return "killed";
  return info.exit_code === 0 ? "completed" : "failed";
}

function lineAround(output: string, text: string): string {
  const at = output.indexOf(text);
  if (at < 0) return text;
  const end = output.indexOf("\n", at + text.length);
  return output.slice(output.lastIndexOf("\n", at) + 1, end < 0 ? undefined : end);
}
