// Shells that never lose their place: a client of the Terminal Runtime daemon, `trl`.

export { Agent, type AgentOptions, type GrantOptions } from "./agent.js";
export { Client, type ClientOptions } from "./client.js";
export {
  Command,
  CommandStream,
  type LogMatch,
  type LogOptions,
  type Pattern,
  Screen,
  type WaitOptions,
} from "./command.js";
export {
  DaemonError,
  LostError,
  NoDaemonError,
  NotStartedError,
  TerminalRuntimeError,
  UnreadableError,
  UntrustedSocketError,
} from "./errors.js";
export { type FileEntry, Files, type WriteOptions } from "./files.js";
export type { CallOptions } from "./methods.js";
export type { ChangesEvent, CommandEvent, Output, StreamName } from "./progress.js";
export type * as protocol from "./protocol.js";
export { CODES, METHODS, PROTOCOL_VERSION, type Code, type MethodName } from "./protocol.js";
export { CommandError, Outcome, RunResult } from "./results.js";
export {
  type CommandOptions,
  type CommandText,
  type RunOptions,
  Session,
  type SessionOptions,
  type StartOptions,
  type StreamOptions,
} from "./session.js";
export { EventStream } from "./stream.js";
