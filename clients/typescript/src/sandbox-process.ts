// A background process of a sandbox: a command beside the session's shell.

import type { Command } from "./command.js";
import { DaemonError } from "./errors.js";
import type { ExecInfo } from "./protocol.js";
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
  async waitForLog(pattern: string | RegExp, timeout?: number): Promise<{ line: string; match?: RegExpMatchArray }> {
    const found = await this.#handle.waitForLog(pattern, { timeoutMs: timeout });
    const line = lineAround(await this.#handle.output(found.stream), found.text);
    const match = pattern instanceof RegExp ? pattern.exec(line) : null;
    return match === null ? { line } : { line, match };
  }

  async waitForPort(port: number, options: WaitForPortOptions = {}): Promise<void> {
    const { mode = "http", path = "/", status } = options;
    if (mode === "tcp") {
      await this.#handle.waitForPort(port, { timeoutMs: options.timeout });
      return;
    }
    const waited = await this.#handle.waitForPort(port, { timeoutMs: options.timeout, httpPath: path });
    if (status === undefined) return;
    const { matched } = waited as unknown as { matched: { port?: { http_status?: number } } };
    const got = matched.port?.http_status ?? 0;
    const { min, max } = typeof status === "number" ? { min: status, max: status } : status;
    if (got < min || got > max) throw new DaemonError("WAIT_TIMEOUT", `port ${port} answers with ${got}`);
  }

  async waitForExit(timeout?: number): Promise<{ exitCode: number }> {
    const info = await this.#handle.wait({ timeoutMs: timeout });
    return { exitCode: exitNumber(info.exit_code) };
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
