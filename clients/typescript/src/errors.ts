// What can go wrong.

/** Base of every error of this package. `help` says what can be done about it, if known. */
export class TerminalRuntimeError extends Error {
  override readonly name: string = "TerminalRuntimeError";
  readonly help: string | undefined;

  constructor(message: string, options: { help?: string; cause?: unknown } = {}) {
    super(message, { cause: options.cause });
    this.help = options.help;
  }
}

/** The daemon refused the request. `code` is one of the protocol's codes, or one that is newer than this client. */
export class DaemonError extends TerminalRuntimeError {
  override readonly name = "DaemonError";
  readonly code: string;
  readonly details: unknown;

  constructor(code: string, message: string, details?: unknown) {
    super(message);
    this.code = code;
    this.details = details;
  }
}

/** Nothing listens where the daemon should be. */
export class NoDaemonError extends TerminalRuntimeError {
  override readonly name = "NoDaemonError";
}

/** A daemon was to be started and did not come up. */
export class NotStartedError extends TerminalRuntimeError {
  override readonly name = "NotStartedError";
}

/** The socket may belong to another user. Nothing was sent. */
export class UntrustedSocketError extends TerminalRuntimeError {
  override readonly name = "UntrustedSocketError";
}

/** The connection ended before the answer came. The request may have been carried out. */
export class LostError extends TerminalRuntimeError {
  override readonly name = "LostError";
  readonly method: string;

  constructor(method: string) {
    super(`the daemon went away before it answered ${method}`, {
      help: "the request may have been carried out; it was not sent again",
    });
    this.method = method;
  }
}

/** An answer does not have the form that this version of the client knows. */
export class UnreadableError extends TerminalRuntimeError {
  override readonly name = "UnreadableError";
}

/** Internal: the connection ended before the answer. Never leaves the package. */
export class ConnectionEnded extends Error {
  /** The daemon had not read the request whole, so it has done nothing. */
  readonly unread: boolean;

  constructor(unread: boolean) {
    super("the connection ended");
    this.unread = unread;
  }
}
