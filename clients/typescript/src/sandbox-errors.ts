// What can go wrong in a sandbox beside the errors of the client itself.

import { DaemonError, TerminalRuntimeError } from "./errors.js";

/** A part of the other SDK that has no counterpart here. */
export class NotSupportedError extends TerminalRuntimeError {
  override readonly name = "NotSupportedError";
}

/** What a process was waited for, and which process it is. */
export interface Awaited {
  readonly processId: string;
  readonly command: string;
  readonly condition: string;
}

/** A process was not ready in time. It goes on. */
export class ProcessReadyTimeoutError extends TerminalRuntimeError {
  override readonly name = "ProcessReadyTimeoutError";
  readonly code = "PROCESS_READY_TIMEOUT";
  readonly processId: string;
  readonly command: string;
  readonly condition: string;
  /** In milliseconds. */
  readonly timeout: number;

  constructor(of: Awaited, timeout: number, cause?: unknown) {
    super(`the process did not become ready within ${timeout} ms; waiting for: ${of.condition}`, { cause });
    ({ processId: this.processId, command: this.command, condition: this.condition } = of);
    this.timeout = timeout;
  }
}

/** A process ended before it was ready. */
export class ProcessExitedBeforeReadyError extends TerminalRuntimeError {
  override readonly name = "ProcessExitedBeforeReadyError";
  readonly code = "PROCESS_EXITED_BEFORE_READY";
  readonly processId: string;
  readonly command: string;
  readonly condition: string;
  readonly exitCode: number;

  constructor(of: Awaited, exitCode: number, cause?: unknown) {
    super(`the process exited with code ${exitCode} before it was ready; waiting for: ${of.condition}`, { cause });
    ({ processId: this.processId, command: this.command, condition: this.condition } = of);
    this.exitCode = exitCode;
  }
}

/** A failed wait, in the other SDK's terms. */
export function unready(error: unknown, of: Awaited, timeout: number | undefined): unknown {
  if (!(error instanceof DaemonError)) return error;
  if (error.code === "WAIT_TIMEOUT") return new ProcessReadyTimeoutError(of, timeout ?? 0, error);
  if (error.code !== "COMMAND_FAILED") return error;
  const details = error.details as { exit_code?: number | null } | null | undefined;
  return new ProcessExitedBeforeReadyError(of, details?.exit_code ?? 255, error);
}

/** Methods of the other SDK that this machine has no counterpart of. */
export class Unsupported {
  exposePort = unsupported("exposePort", "the port is open on this machine already");
  unexposePort = unsupported("unexposePort", "the port is open on this machine already");
  getExposedPorts = unsupported("getExposedPorts", "ports are those of this machine");
  createCodeContext = unsupported("createCodeContext", "start an interpreter with startProcess");
  listCodeContexts = unsupported("listCodeContexts", "start an interpreter with startProcess");
  deleteCodeContext = unsupported("deleteCodeContext", "start an interpreter with startProcess");
  runCode = unsupported("runCode", "run the interpreter with exec");
  runCodeStream = unsupported("runCodeStream", "run the interpreter with execStream");
  mountBucket = unsupported("mountBucket", "mount it on this machine");
  unmountBucket = unsupported("unmountBucket", "unmount it on this machine");
  createBackup = unsupported("createBackup", "copy the files with exec");
  restoreBackup = unsupported("restoreBackup", "copy the files with exec");
  wsConnect = unsupported("wsConnect", "connect to the port on this machine");
  terminal = unsupported("terminal", "use Session.attach of terminal-runtime");
  watch = unsupported("watch", "run a watcher with startProcess");
  checkChanges = unsupported("checkChanges", "compare what listFiles tells");
}

function unsupported(name: string, instead: string): (...args: unknown[]) => Promise<never> {
  return () => Promise.reject(new NotSupportedError(`${name} is not supported`, { help: instead }));
}
