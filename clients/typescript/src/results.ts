// Results under the names that TypeScript programs use. The reply itself is in `reply`.

import { DaemonError } from "./errors.js";
import type { ExecRunReply, ExecStreamReply } from "./protocol.js";

/** How a command ended. */
export class Outcome<R extends ExecRunReply | ExecStreamReply = ExecStreamReply> {
  readonly reply: R;

  constructor(reply: R) {
    this.reply = reply;
  }

  get execId(): string {
    return this.reply.exec_id;
  }

  /** As the shell saw it; null if nobody saw it. */
  get exitCode(): number | null {
    return this.reply.exit_code;
  }

  get signal(): string | undefined {
    return this.reply.signal ?? undefined;
  }

  get durationMs(): number {
    return this.reply.duration_us / 1000;
  }

  get timedOut(): boolean {
    return this.reply.timed_out;
  }

  get cancelled(): boolean {
    return this.reply.cancelled;
  }

  get workingDir(): string {
    return this.reply.working_dir;
  }

  get notes(): readonly string[] {
    return this.reply.notes ?? [];
  }

  /** Exit status 0, in time and not cancelled. */
  get ok(): boolean {
    return this.exitCode === 0 && !this.timedOut && !this.cancelled;
  }
}

/** How a command ended and what it printed. */
export class RunResult extends Outcome<ExecRunReply> {
  get stdout(): string {
    return this.reply.stdout;
  }

  get stderr(): string {
    return this.reply.stderr;
  }

  get stdoutTruncated(): boolean {
    return this.reply.stdout_truncated;
  }

  get stderrTruncated(): boolean {
    return this.reply.stderr_truncated;
  }

  override toString(): string {
    return this.stdout;
  }
}

/** A command that `check` was asked for and that did not succeed. */
export class CommandError extends DaemonError {
  readonly result: RunResult;

  constructor(error: DaemonError, result: RunResult) {
    super(error.code, error.message, error.details);
    this.result = result;
  }
}

/** The error with the command's result, if its details have one. */
export function withResult(error: unknown): unknown {
  if (!(error instanceof DaemonError)) return error;
  const details = error.details as Partial<ExecRunReply> | null | undefined;
  if (typeof details?.stdout !== "string" || details.exit_code === undefined) return error;
  return new CommandError(error, new RunResult(details as ExecRunReply));
}
