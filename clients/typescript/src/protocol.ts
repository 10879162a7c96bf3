// The protocol's types.
// Generated from docs/contract/protocol.json by clients/generate; do not edit.

export const PROTOCOL_VERSION = 1;

export const METHODS = [
  "agent.assign",
  "agent.assignments",
  "agent.create",
  "agent.heartbeat",
  "agent.list",
  "agent.release",
  "agent.sessions",
  "agent.unassign",
  "agent.use",
  "agent.whoami",
  "contact.accept",
  "contact.block",
  "contact.decline",
  "contact.list",
  "contact.presence",
  "contact.request",
  "events.subscribe",
  "exec.attach",
  "exec.bind",
  "exec.cancel",
  "exec.info",
  "exec.list",
  "exec.output",
  "exec.resize",
  "exec.run",
  "exec.screen",
  "exec.start",
  "exec.stream",
  "exec.wait",
  "exec.write",
  "file.edit",
  "file.list",
  "file.make_dir",
  "file.move",
  "file.read",
  "file.remove",
  "file.stat",
  "file.write",
  "mail.autorespond",
  "mail.await_reply",
  "mail.check_reply",
  "mail.dead_letters",
  "mail.held",
  "mail.inbox",
  "mail.notices",
  "mail.reply",
  "mail.reset",
  "mail.send",
  "mail.send_and_wait",
  "mail.status",
  "mail.subscribe",
  "runtime.grant",
  "runtime.grants",
  "runtime.revoke",
  "session.attach",
  "session.bind",
  "session.create",
  "session.destroy",
  "session.fork",
  "session.info",
  "session.input",
  "session.list",
  "session.rename",
  "session.resize",
  "session.restart",
  "system.info",
  "system.ping",
  "system.runtimes",
  "system.shutdown",
  "system.stats",
] as const;

export type MethodName = (typeof METHODS)[number];

export const CODES = [
  "AGENT_NOT_FOUND",
  "AUTH_FAILED",
  "COMMAND_FAILED",
  "COMMAND_TIMEOUT",
  "CONTACT_REQUIRED",
  "EXEC_NOT_FOUND",
  "FILE_CONFLICT",
  "FILE_DENIED",
  "FILE_EXISTS",
  "FILE_NOT_FOUND",
  "INTERNAL_ERROR",
  "INVALID_PARAMS",
  "ISOLATION_UNAVAILABLE",
  "LABEL_TAKEN",
  "MAX_SESSIONS_REACHED",
  "MESSAGE_NOT_FOUND",
  "METHOD_NOT_FOUND",
  "NAME_TAKEN",
  "PARSE_ERROR",
  "PAYLOAD_TOO_LARGE",
  "RESOURCE_PRESSURE",
  "RUNTIME_NOT_FOUND",
  "RUNTIME_UNAVAILABLE",
  "SESSION_BUSY",
  "SESSION_LIMIT_EXCEEDED",
  "SESSION_NOT_FOUND",
  "SESSION_TERMINATED",
  "SHUTTING_DOWN",
  "WAIT_TIMEOUT",
] as const;

export type Code = (typeof CODES)[number];

/** A repetition of these changes nothing. */
export const REPEATABLE: ReadonlySet<string> = new Set<string>([
  "agent.assign",
  "agent.assignments",
  "agent.list",
  "agent.sessions",
  "agent.unassign",
  "agent.whoami",
  "contact.list",
  "contact.presence",
  "events.subscribe",
  "exec.attach",
  "exec.info",
  "exec.list",
  "exec.output",
  "exec.resize",
  "exec.screen",
  "exec.wait",
  "file.list",
  "file.read",
  "file.stat",
  "mail.dead_letters",
  "mail.held",
  "mail.status",
  "runtime.grants",
  "runtime.revoke",
  "session.info",
  "session.list",
  "session.resize",
  "system.info",
  "system.ping",
  "system.runtimes",
  "system.stats",
]);

/** The param that makes a repetition of the method harmless. */
export const ID_PARAMS: Readonly<Record<string, string>> = {
  "exec.run": "run_id",
  "exec.start": "run_id",
  "exec.stream": "run_id",
  "exec.write": "write_id",
  "mail.send": "send_id",
  "mail.send_and_wait": "send_id",
};

/** The param that says how long the daemon may wait. */
export const WAITS: Readonly<Record<string, string>> = {
  "exec.wait": "timeout_s",
};

export interface AgentAssignmentsReply {
  /** Those of the harness session that was named, of all projects, and the global one. */
  readonly assignments: readonly Assignment[];
  /** The agent that the named harness session and project get. */
  readonly effective?: string | null;
}

export interface AgentCreateReply {
  readonly address: string;
  readonly agent: string;
}

export interface AgentHeartbeatReply {
  readonly label: string;
  /** Messages that wait in this session's inbox. */
  readonly waiting: number;
}

export interface AgentListReply {
  readonly agents: readonly AgentRow[];
}

export type AgentMode = "daemon" | "self";

export interface AgentReleaseReply {
  readonly label: string;
}

export interface AgentRow {
  readonly address: string;
  readonly agent: string;
  readonly live_sessions: readonly string[];
}

export interface AgentSessionsReply {
  readonly sessions: readonly SessionRow[];
}

export interface AgentUnassignReply {
  /** False if there was no such assignment. */
  readonly removed: boolean;
  readonly scope: AssignScope;
}

export interface AgentUseReply {
  readonly address: string;
  readonly agent: string;
  readonly label: string;
  readonly live_sessions: readonly string[];
  readonly mode: AgentMode;
  /** Why this label was granted. */
  readonly reason?: string | null;
  readonly requested?: string | null;
  /** Proves this session on other connections, as param `as`. */
  readonly token: Token;
}

export interface AgentWhoamiReply {
  readonly address: string;
  readonly agent: string;
  readonly label: string;
  readonly live_sessions: readonly string[];
  readonly mode: AgentMode;
}

/** What answers: a program and its arguments, or a line for `/bin/sh`. */
export type AnswerCommand = (readonly string[]) | string;

/** What an agent is assigned to. The first that applies decides. */
export type AssignScope = "session" | "project" | "global";

export interface Assignment {
  readonly agent: string;
  /** The harness session id or the directory; missing for `global`. */
  readonly key?: string | null;
  readonly scope: AssignScope;
}

export type Change = "created" | "ended" | "lost" | "restarted" | "renamed" | "queued" | "started" | "finished" | "present" | "released" | "sent" | "read" | "allowed" | "refused";

/** One change. What it is not about is left out. */
export interface ChangeEvent {
  readonly agent?: string | null;
  /** RFC 3339, UTC, milliseconds. */
  readonly at: string;
  readonly background?: boolean | null;
  readonly cancelled?: boolean | null;
  readonly change: Change;
  readonly exec_id?: ExecId | null;
  readonly exit_code?: number | null;
  /** That a session wanted to reach: `name:port`. */
  readonly host?: string | null;
  readonly label?: string | null;
  readonly message_id?: string | null;
  /** Of the session. */
  readonly name?: string | null;
  /** Why a session ended, or why a host was refused. */
  readonly reason?: string | null;
  /** The runtime that the session is on, if that is another daemon. */
  readonly runtime?: string | null;
  /** Larger with every change, also across restarts of the daemon. */
  readonly seq: number;
  readonly session_id?: SessionId | null;
  readonly signal?: string | null;
  /** Of the command. */
  readonly state?: ExecState | null;
  readonly timed_out?: boolean | null;
  readonly topic: Topic;
}

export interface ContactListReply {
  readonly contacts: readonly ContactRow[];
}

export interface ContactPresenceReply {
  readonly contacts: readonly PresenceRow[];
}

export interface ContactRow {
  readonly address: string;
  readonly since: string;
  readonly state: ContactState;
  readonly who: string;
}

export type ContactState = "accepted" | "declined" | "blocked" | "requested" | "asking" | "own";

/** Counted from 0 at the top left. */
export interface Cursor {
  readonly col: number;
  readonly row: number;
  readonly visible: boolean;
}

export interface DeadLetter {
  readonly at: string;
  readonly from: string;
  readonly message_id: string | null;
  readonly reason: string;
}

export type Devices = "minimal";

/** What a session's files survive. */
export type Durability = "process" | "power";

export type Encoding = "base64" | "utf8";

export interface Enforced {
  readonly by: string;
  readonly what: string;
}

/** The daemon ends; a later subscription may go on from `next`. */
export interface EventsSubscribeReply {
  readonly events: number;
  readonly next: number;
}

/** The answer to `exec.stream` and `exec.attach`: `exec.run`'s without the two texts. */
export interface ExecAttachReply {
  readonly cancelled: boolean;
  readonly duration_ms: number;
  readonly duration_us: number;
  readonly exec_id: ExecId;
  /** As the shell saw it; null if nobody saw it. */
  readonly exit_code: number | null;
  /** The limit of the session that it ran into. */
  readonly limit?: HitLimit | null;
  readonly notes?: readonly string[];
  /** The session's shell ended with this command (`exit`, `exec`, a signal). */
  readonly shell_ended?: boolean;
  /** This command ran in a new shell with the restored state, or ending it cost the shell. */
  readonly shell_replaced?: boolean;
  /** The signal that ended the command or its shell, where one is known. */
  readonly signal?: string | null;
  readonly stderr_bytes: number;
  readonly stderr_lossy?: boolean;
  readonly stderr_truncated: boolean;
  readonly stdout_bytes: number;
  readonly stdout_lossy?: boolean;
  readonly stdout_truncated: boolean;
  /** `soft_timeout_s` passed: this is the result so far, and the command continues. */
  readonly still_running?: boolean;
  /** The shell could not parse the command. */
  readonly syntax_error?: boolean;
  readonly timed_out: boolean;
  readonly working_dir: string;
}

export interface ExecBindReply {
  readonly bound: boolean;
  readonly exec_id: ExecId;
}

export interface ExecCancelReply {
  /** False if there was nothing to cancel. */
  readonly cancelled: boolean;
  /** The command that was cancelled; null if nothing ran. */
  readonly exec_id: ExecId | null;
}

/** `e-`, the session's eight hex digits, `-`, and the command's number in that session. */
export type ExecId = string;

/** What `exec.info` tells, and each row of `exec.list`. */
export interface ExecInfo {
  readonly background: boolean;
  readonly cancelled?: boolean;
  readonly command: string;
  readonly created_at: string;
  readonly duration_ms?: number;
  readonly duration_us?: number;
  readonly exec_id: ExecId;
  readonly exit_code?: number | null;
  readonly finished_at?: string | null;
  readonly limit?: HitLimit | null;
  readonly notes?: readonly string[];
  /** Process that runs it: the shell's for a foreground command. */
  readonly pid?: number | null;
  readonly session_id: SessionId;
  readonly shell_ended?: boolean;
  readonly shell_replaced?: boolean;
  readonly signal?: string | null;
  readonly started_at?: string | null;
  readonly state: ExecState;
  readonly stderr_bytes: number;
  readonly stderr_dropped_bytes: number;
  readonly stderr_truncated?: boolean;
  /** Bytes of its input that wait, because it has not read what came before them. */
  readonly stdin_waiting_bytes?: number | null;
  /** Bytes seen so far; may grow after the end, by background children. */
  readonly stdout_bytes: number;
  /** Bytes that the journal no longer holds. */
  readonly stdout_dropped_bytes: number;
  readonly stdout_truncated?: boolean;
  readonly syntax_error?: boolean;
  readonly timed_out?: boolean;
  readonly tty: boolean;
  /** True when the command reads from its terminal and nobody has answered, with the prompt. */
  readonly waiting_for_input?: string | null;
  readonly working_dir?: string;
}

export interface ExecListReply {
  readonly execs: readonly ExecInfo[];
}

/** A range of kept output: `text` or `base64`, as asked. */
export interface ExecOutputReply {
  readonly base64?: string | null;
  /** Bytes of this stream that are no longer kept. */
  readonly dropped_bytes: number;
  readonly lossy?: boolean;
  readonly next_offset: number;
  /** Where this range begins; later than asked if the bytes before are dropped. */
  readonly offset: number;
  readonly text?: string | null;
  readonly total_bytes: number;
}

export interface ExecResizeReply {
  readonly cols: number;
  readonly exec_id: ExecId;
  readonly rows: number;
}

/** The answer to `exec.run`. */
export interface ExecRunReply {
  readonly cancelled: boolean;
  readonly duration_ms: number;
  readonly duration_us: number;
  readonly exec_id: ExecId;
  /** As the shell saw it; null if nobody saw it. */
  readonly exit_code: number | null;
  /** The limit of the session that it ran into. */
  readonly limit?: HitLimit | null;
  readonly notes?: readonly string[];
  /** The session's shell ended with this command (`exit`, `exec`, a signal). */
  readonly shell_ended?: boolean;
  /** This command ran in a new shell with the restored state, or ending it cost the shell. */
  readonly shell_replaced?: boolean;
  /** The signal that ended the command or its shell, where one is known. */
  readonly signal?: string | null;
  readonly stderr: string;
  readonly stderr_bytes: number;
  readonly stderr_lossy?: boolean;
  readonly stderr_truncated: boolean;
  readonly stdout: string;
  readonly stdout_bytes: number;
  readonly stdout_lossy?: boolean;
  readonly stdout_truncated: boolean;
  /** `soft_timeout_s` passed: this is the result so far, and the command continues. */
  readonly still_running?: boolean;
  /** The shell could not parse the command. */
  readonly syntax_error?: boolean;
  readonly timed_out: boolean;
  readonly working_dir: string;
}

/** What a person would see on the terminal of a command. */
export interface ExecScreenReply {
  /** A full-screen program has the alternate screen. */
  readonly alternate: boolean;
  /** The program wants arrows as `ESC O A` instead of `ESC [ A`. */
  readonly application_cursor: boolean;
  /** The program wants to know where pasted text begins and ends. */
  readonly bracketed_paste: boolean;
  readonly cols: number;
  readonly cursor: Cursor;
  readonly exec_id: ExecId;
  /** As many as `rows`, without blanks at their ends. */
  readonly lines: readonly string[];
  readonly rows: number;
  readonly title: string;
  /** The prompt, if the command reads from its terminal and nobody has answered. */
  readonly waiting_for_input?: string | null;
}

export interface ExecStartReply {
  readonly exec_id: ExecId;
  readonly pid?: number | null;
  readonly session_id: SessionId;
  readonly state: ExecState;
}

export type ExecState = "queued" | "running" | "finished";

/** The answer to `exec.stream` and `exec.attach`: `exec.run`'s without the two texts. */
export interface ExecStreamReply {
  readonly cancelled: boolean;
  readonly duration_ms: number;
  readonly duration_us: number;
  readonly exec_id: ExecId;
  /** As the shell saw it; null if nobody saw it. */
  readonly exit_code: number | null;
  /** The limit of the session that it ran into. */
  readonly limit?: HitLimit | null;
  readonly notes?: readonly string[];
  /** The session's shell ended with this command (`exit`, `exec`, a signal). */
  readonly shell_ended?: boolean;
  /** This command ran in a new shell with the restored state, or ending it cost the shell. */
  readonly shell_replaced?: boolean;
  /** The signal that ended the command or its shell, where one is known. */
  readonly signal?: string | null;
  readonly stderr_bytes: number;
  readonly stderr_lossy?: boolean;
  readonly stderr_truncated: boolean;
  readonly stdout_bytes: number;
  readonly stdout_lossy?: boolean;
  readonly stdout_truncated: boolean;
  /** `soft_timeout_s` passed: this is the result so far, and the command continues. */
  readonly still_running?: boolean;
  /** The shell could not parse the command. */
  readonly syntax_error?: boolean;
  readonly timed_out: boolean;
  readonly working_dir: string;
}

/** A place in each stream of a command, in bytes. */
export interface ExecWaitOffsets {
  readonly stderr?: number;
  readonly stdout?: number;
}

/** The answer to `exec.wait`. */
export interface ExecWaitReply {
  readonly background: boolean;
  readonly cancelled?: boolean;
  readonly command: string;
  readonly created_at: string;
  readonly duration_ms?: number;
  readonly duration_us?: number;
  readonly exec_id: ExecId;
  readonly exit_code?: number | null;
  readonly finished_at?: string | null;
  readonly limit?: HitLimit | null;
  readonly matched: Matched;
  readonly notes?: readonly string[];
  /** Process that runs it: the shell's for a foreground command. */
  readonly pid?: number | null;
  readonly session_id: SessionId;
  readonly shell_ended?: boolean;
  readonly shell_replaced?: boolean;
  readonly signal?: string | null;
  readonly started_at?: string | null;
  readonly state: ExecState;
  readonly stderr_bytes: number;
  readonly stderr_dropped_bytes: number;
  readonly stderr_truncated?: boolean;
  /** Bytes of its input that wait, because it has not read what came before them. */
  readonly stdin_waiting_bytes?: number | null;
  /** Bytes seen so far; may grow after the end, by background children. */
  readonly stdout_bytes: number;
  /** Bytes that the journal no longer holds. */
  readonly stdout_dropped_bytes: number;
  readonly stdout_truncated?: boolean;
  readonly syntax_error?: boolean;
  readonly timed_out?: boolean;
  readonly tty: boolean;
  /** True when the command reads from its terminal and nobody has answered, with the prompt. */
  readonly waiting_for_input?: string | null;
  readonly working_dir?: string;
}

export interface ExecWriteReply {
  readonly bytes: number;
  /** This write had been applied before. */
  readonly duplicate?: boolean;
  readonly eof: boolean;
  readonly exec_id: ExecId;
}

/** `true` or `{}`. */
export type Exit = boolean | NoParams;

export type FailReason = "unknown_recipient" | "not_contact" | "blocked" | "mailbox_full" | "too_large" | "rate_limited" | "expired" | "session_closed" | "dropped" | "undecryptable";

export interface FileEditReply {
  /** Occurrences that were replaced. */
  readonly replaced: number;
  /** Of the whole file afterwards. */
  readonly sha256: string;
}

export interface FileEntry {
  readonly bytes: number;
  readonly kind: FileKind;
  readonly mode: FileMode;
  /** RFC 3339, UTC. */
  readonly modified_at: string;
  /** Can be given to other requests of the session as it is. */
  readonly path: string;
  /** Where a symbolic link leads, as it is written there. */
  readonly target?: string | null;
}

export type FileKind = "file" | "directory" | "symlink" | "other";

export interface FileListReply {
  /** Sorted by path. */
  readonly entries: readonly FileEntry[];
  /** There are more entries than are listed. */
  readonly truncated: boolean;
}

export interface FileMakeDirReply {
  readonly path: string;
}

/** Permission bits as an octal string. */
export type FileMode = string;

export interface FileMoveReply {
  readonly from: string;
  readonly to: string;
}

export interface FileReadReply {
  readonly base64?: string | null;
  /** The bytes are not UTF-8; U+FFFD stands for what is not. */
  readonly lossy?: boolean;
  /** Where the next part begins. */
  readonly next_offset: number;
  readonly offset: number;
  /** Of the whole file, if this reply has all of it. */
  readonly sha256?: string | null;
  readonly text?: string | null;
  readonly total_bytes: number;
}

export interface FileRemoveReply {
  readonly path: string;
}

export interface FileWriteReply {
  /** Bytes that were written. */
  readonly bytes: number;
  /** Of the whole file afterwards; missing if something was added to a large one. */
  readonly sha256?: string | null;
  /** Size of the file afterwards. */
  readonly total_bytes: number;
}

export interface Foreign {
  /** Its name on that daemon, which is no name here. */
  readonly name: string | null;
}

/** Bytes between the two offsets are no longer kept. */
export interface GapEvent {
  readonly from: number;
  readonly stream: Stream;
  readonly to: number;
}

export interface GrantRow {
  readonly address: string;
  readonly agent: string;
  /** RFC 3339. */
  readonly created_at: string;
  readonly expires_at: string | null;
  readonly grant_id: string;
  readonly granted_by: string;
  readonly limits: SessionLimits;
  readonly max_sessions?: number | null;
  readonly profile: Profile;
  readonly revoked_at?: string | null;
  /** Sessions under it that live. */
  readonly sessions: readonly SessionId[];
  readonly state: GrantState;
  readonly working_dir?: string | null;
}

export type GrantState = "active" | "expired" | "revoked";

export interface HeldRow {
  /** When it goes back to its sender. */
  readonly bounces_at: string | null;
  readonly from: string;
  readonly message_id: string;
  readonly since: string;
  readonly to_session: string | null;
}

export interface HistoryRow {
  readonly at: string;
  readonly reason?: FailReason | null;
  readonly state: State;
}

/** A limit of a session, by its name in `limits`. */
export type HitLimit = "memory" | "pids" | "file_size" | "cpu_time_s";

/** What is enforced, and by what. */
export interface IsolationReport {
  readonly enforced: readonly Enforced[];
  /** What was asked for and cannot be enforced here; only with `best_effort`. */
  readonly missing: readonly Missing[];
  readonly requested: SessionInfoIsolation;
}

export interface LimitsInfo {
  readonly default_timeout_s: number;
  readonly journal_bytes: number;
  readonly max_command_bytes: number;
  readonly max_idle_s: number;
  readonly max_line_bytes: number;
  readonly max_output_bytes: number;
  readonly max_sessions: number;
  readonly max_stdin_bytes: number;
  readonly session_ttl_s: number;
}

export interface LogUntil {
  /** Matches begin here or later, counted in bytes of each stream. Without `stream` it holds for both. */
  readonly from_offset?: number;
  /** The same, one for each stream; what `next_offsets` of the last match says. */
  readonly from_offsets?: ExecWaitOffsets | null;
  /** A text, or with `regex` an expression whose `^` and `$` are ends of lines, also of one that waits. */
  readonly pattern?: string | null;
  /** Several instead of `pattern`. The match that begins first counts; `index` says which one it is. */
  readonly patterns?: readonly string[];
  readonly regex?: boolean;
  /** Only in this stream; default: in both. */
  readonly stream?: Stream | null;
}

export interface MailAutorespondReply {
  readonly answered_today: number;
  readonly command: (readonly string[]) | null;
  /** Whether the command may use the network. */
  readonly network: boolean;
  readonly on: boolean;
  /**
   * What keeps the command to its one task: `namespaces+landlock+seccomp`, `landlock+seccomp` where
   * namespaces are not allowed, or `none` where the system has neither.
   */
  readonly sandbox: string;
}

export interface MailAwaitReplyReply {
  /** No reply can come: the message itself failed. */
  readonly failed?: FailReason | null;
  readonly message_id: string;
  readonly reply: Message | null;
  readonly timed_out: boolean;
}

export interface MailCheckReplyReply {
  readonly reply: Message | null;
}

export interface MailDeadLettersReply {
  readonly dead_letters: readonly DeadLetter[];
}

/** An event of `mail.subscribe`: counts and ids, never a body. */
export interface MailEvent {
  readonly count: number;
  readonly ids: readonly string[];
}

export interface MailHeldReply {
  readonly messages: readonly HeldRow[];
}

export interface MailInboxReply {
  readonly messages: readonly Message[];
  readonly remaining: number;
}

export interface MailNoticesReply {
  /** Missing if the harness session speaks for no agent. */
  readonly agent?: string | null;
  /** A process waits to wake this session. */
  readonly has_waiter?: boolean;
  readonly label?: string | null;
  /** Messages that nobody has announced to this session, oldest first. */
  readonly new: readonly Notice[];
  /** The caller was a waiter, and another has taken its place or the harness session has ended. */
  readonly over?: boolean;
  /** All that wait for this session. */
  readonly unread: number;
}

export interface MailReplyReply {
  /** The same message had been sent within `unless_sent_within_s`, and was not sent again. */
  readonly duplicate?: boolean;
  readonly from_session: string;
  readonly message_id: string;
  readonly state: State;
  readonly to_session: string | null;
  /** The relay that carries it. */
  readonly via: string;
}

/** New keys are exchanged with a peer; what it has not confirmed is sealed and sent again. */
export interface MailResetReply {
  readonly address: string;
  /** Messages that are sent again. */
  readonly resent: number;
  readonly who: string;
}

export interface MailSendAndWaitReply {
  /** No reply can come: the message itself failed. */
  readonly failed?: FailReason | null;
  readonly message_id: string;
  readonly reply: Message | null;
  readonly timed_out: boolean;
}

export interface MailSendReply {
  /** The same message had been sent within `unless_sent_within_s`, and was not sent again. */
  readonly duplicate?: boolean;
  readonly from_session: string;
  readonly message_id: string;
  readonly state: State;
  readonly to_session: string | null;
  /** The relay that carries it. */
  readonly via: string;
}

export interface MailStatusReply {
  readonly history: readonly HistoryRow[];
  readonly message_id: string;
  readonly reason?: FailReason | null;
  readonly state: State;
}

/** How `mail.subscribe` is answered when the daemon ends. */
export interface MailSubscribeReply {
  /** How many events were sent. */
  readonly events: number;
}

/** What was waited for and came. */
export type Matched =
  | { readonly exit: boolean }
  | { readonly log: MatchedLog }
  | { readonly port: MatchedPort };

export interface MatchedLog {
  /** Where in the stream it ends. */
  readonly end_offset: number;
  /** Which of several patterns it is. */
  readonly index: number;
  /** Where to go on: behind the match in its stream, and where the search began in the other. */
  readonly next_offsets: ExecWaitOffsets;
  /** Where in the stream it begins. */
  readonly offset: number;
  readonly stream: Stream;
  readonly text: string;
}

export interface MatchedPort {
  readonly host: string;
  readonly http_status?: number | null;
  readonly port: number;
}

/** A message as its reader sees it. */
export interface Message {
  readonly auto: boolean;
  /** Names of fields that the sender filled with something unsafe; they were dropped. */
  readonly dropped?: readonly string[];
  /** The sender's petname, else its address. */
  readonly from: string;
  /** Checked: the message was encrypted by this identity's device. */
  readonly from_address: string;
  readonly from_session: string | null;
  readonly in_reply_to: string | null;
  /** Unique in this agent's mail and safe to print. */
  readonly message_id: string;
  readonly role: string | null;
  readonly text: string;
  readonly timestamp: string;
  readonly to_session: string | null;
}

/** Changes from `from` up to, not with, `to` are no longer known. */
export interface MissedEvent {
  readonly from: number;
  readonly to: number;
}

export interface Missing {
  /** What would make it available. */
  readonly remedy?: string;
  readonly what: string;
  readonly why: string;
}

/** Which network a session has. */
export type Net = "none" | "full" | NetAllow;

/** Only these hosts, through a proxy: `api.example.com`, `*.example.org:443`. */
export interface NetAllow {
  readonly allow: readonly string[];
}

/** Params of requests that take none. */
export type NoParams = Readonly<Record<string, never>>;

/** A message that waits to be read: who wrote it, never what it says. */
export interface Notice {
  /** The sender's petname, else its address. */
  readonly from: string;
  readonly from_session?: string | null;
  readonly message_id: string;
}

/** `text` or `base64`, as asked. */
export interface OutputEvent {
  readonly base64?: string | null;
  readonly offset: number;
  readonly text?: string | null;
}

/** What happens to mail that names no session when no conversation is bound to one. */
export type Policy = "primary" | "broadcast" | "drop";

export interface PortUntil {
  /** Default: the machine that the session runs on. */
  readonly host?: string | null;
  /** A path that must be answered with a status below 400. */
  readonly http_path?: string | null;
  readonly port: number;
}

export interface PresenceRow {
  readonly address: string;
  /** Labels that mail can be sent to now. */
  readonly live_sessions: readonly string[];
  readonly whereabouts: Whereabouts;
  readonly who: string;
}

export type Profile = "none" | "workspace" | "strict";

export interface QueuedEvent {
  readonly exec_id: ExecId;
}

export type Released = "taken_over" | "left";

export interface RuntimeFound {
  readonly active_sessions: number;
  readonly arch: string;
  /** Whether sessions can be made there now. */
  readonly available: boolean;
  readonly cpus: number;
  /** Where sessions are made unless they say otherwise. */
  readonly default: boolean;
  /** Until when that access is granted; RFC 3339. */
  readonly expires_at?: string | null;
  /** The agent that has granted access to it. */
  readonly granted_by?: string | null;
  readonly hostname: string;
  readonly isolation: readonly string[];
  readonly kind: RuntimeKind;
  readonly labels: readonly string[];
  /** Of the last minute. */
  readonly load?: number | null;
  readonly max_sessions: number;
  readonly memory_bytes?: number | null;
  readonly name: string;
  readonly os: string;
  /** Why it is unreachable. */
  readonly reason?: string | null;
  /** How long it took to answer, when it was last asked. */
  readonly rtt_ms?: number | null;
  /** The same as `active_sessions`. */
  readonly sessions: number;
  readonly shells: readonly ShellFound[];
  /** Since when the state is what it is; RFC 3339. */
  readonly since: string;
  readonly state: RuntimeState;
  /** What a configured name stands for, as `runtime` of `session.create` takes it, too. */
  readonly target?: string | null;
  readonly version: string;
}

export interface RuntimeGrantReply {
  readonly address: string;
  /** The name of who got access, and the address. */
  readonly agent: string;
  /** RFC 3339. */
  readonly expires_at: string | null;
  readonly grant_id: string;
  /** The agent of this daemon that grants, and its address. */
  readonly granted_by: string;
  readonly granted_by_address: string;
  /** The message that carries the token; `mail.status` of the granting agent tells what became of it. */
  readonly message_id: string;
  readonly profile: Profile;
  /** Where the other daemon finds this one. */
  readonly url: string;
}

export interface RuntimeGrantsReply {
  /** Oldest first. */
  readonly grants: readonly GrantRow[];
}

export type RuntimeKind = "local" | "container" | "ssh" | "trl";

export interface RuntimeRevokeReply {
  readonly agent: string;
  readonly grant_id: string;
  /** Sessions under the grant that were ended with it. */
  readonly sessions: readonly SessionId[];
}

export type RuntimeState = "ready" | "unreachable" | "unknown";

/** The end of `session.attach`. */
export interface SessionAttachReply {
  readonly reason: Released;
  readonly session_id: SessionId;
}

export interface SessionBindReply {
  readonly bound: boolean;
  readonly session_id: SessionId;
}

/**
 * `"workspace"` is short for `{"profile":"workspace"}`. An object without a profile is one of
 * `workspace`.
 */
export interface SessionCreateIsolation {
  /** Accept what this machine can enforce; `session.info` tells what is missing. */
  readonly best_effort?: boolean;
  readonly devices?: Devices;
  /** Paths that appear empty. */
  readonly hide?: readonly string[];
  readonly net?: Net;
  readonly profile?: Profile;
  /** Paths that can be read beyond what the profile gives. */
  readonly read?: readonly string[];
  /**
   * A directory with an unpacked system that becomes `/`. Changes in it are temporary unless it is
   * also in `write`.
   */
  readonly root?: string | null;
  /** Paths that can be written beyond the workspace. */
  readonly write?: readonly string[];
}

export interface SessionCreateReply {
  /** RFC 3339, UTC, milliseconds. */
  readonly created_at: string;
  readonly name: string | null;
  /** The shell's pid. */
  readonly pid: number | null;
  /** Where it runs. */
  readonly runtime?: string | null;
  /** Why it runs there, if the request left the choice to the daemon. */
  readonly runtime_reason?: string | null;
  readonly session_id: SessionId;
  readonly shell: string;
  readonly state: SessionState;
  readonly working_dir: string;
}

export interface SessionDestroyReply {
  readonly session_id: SessionId;
  readonly state: SessionState;
}

export interface SessionForkReply {
  /** RFC 3339, UTC, milliseconds. */
  readonly created_at: string;
  readonly name: string | null;
  /** The shell's pid. */
  readonly pid: number | null;
  /** Where it runs. */
  readonly runtime?: string | null;
  /** Why it runs there, if the request left the choice to the daemon. */
  readonly runtime_reason?: string | null;
  readonly session_id: SessionId;
  readonly shell: string;
  readonly state: SessionState;
  readonly working_dir: string;
}

/** `s-` and eight hex digits. */
export type SessionId = string;

/** What `session.info` tells, and each row of `session.list`. */
export interface SessionInfo {
  readonly command_count: number;
  readonly created_at: string;
  /** Of a damaged session: what is wrong with it, and what can be done. */
  readonly damage?: string | null;
  /** Names of the variables given at creation and exported since; never a value. */
  readonly env_keys: readonly string[];
  /**
   * Of a session that somebody else has made on another daemon. It is used by its id, and stays when
   * this daemon ends.
   */
  readonly foreign?: Foreign | null;
  readonly host_pid: number;
  readonly idle_timeout_s: number;
  /** Of a session with isolation or limits. */
  readonly isolation?: IsolationReport | null;
  readonly last_activity: string;
  /** As asked for. */
  readonly limits?: SessionLimits | null;
  readonly name: string | null;
  readonly pid: number | null;
  readonly queued: number;
  /** How often the shell had to be replaced. */
  readonly restarts: number;
  /** The command that runs in the foreground. */
  readonly running?: ExecId | null;
  /** Where it runs. */
  readonly runtime?: string | null;
  readonly session_id: SessionId;
  readonly shell: string;
  /** What the shell's start-up files (`rc`) have written, the last 64 KiB of it. */
  readonly startup_output?: string | null;
  readonly state: SessionState;
  readonly stderr_bytes: number;
  /** All that its commands have printed since its host began, kept or not. */
  readonly stdout_bytes: number;
  readonly timeout_s: number;
  readonly tty: boolean;
  /** Its host does not answer at the moment (it may be stopped); the rest is what was last known. */
  readonly unresponsive?: boolean;
  /** As cgroups account for it, else as its processes tell. */
  readonly usage?: Usage | null;
  readonly working_dir: string;
}

/**
 * `"workspace"` is short for `{"profile":"workspace"}`. An object without a profile is one of
 * `workspace`.
 */
export interface SessionInfoIsolation {
  /** Accept what this machine can enforce; `session.info` tells what is missing. */
  readonly best_effort: boolean;
  readonly devices: Devices;
  /** Paths that appear empty. */
  readonly hide?: readonly string[];
  readonly net: Net;
  readonly profile: Profile;
  /** Paths that can be read beyond what the profile gives. */
  readonly read?: readonly string[];
  /**
   * A directory with an unpacked system that becomes `/`. Changes in it are temporary unless it is
   * also in `write`.
   */
  readonly root?: string | null;
  /** Paths that can be written beyond the workspace. */
  readonly write?: readonly string[];
}

export interface SessionInputReply {
  readonly bytes: number;
  readonly session_id: SessionId;
}

/** Bounds of one session; what is missing takes the daemon's default. */
export interface SessionLimits {
  /** Processors' worth of time, such as 1.5. */
  readonly cpu?: number | null;
  /** Processor time that each process may use. */
  readonly cpu_time_s?: number | null;
  /** Size of the private directories of an isolated session. */
  readonly disk?: Size | null;
  /** Largest file that a process may write. */
  readonly file_size?: Size | null;
  /** Kept output of each stream of one command on disk. */
  readonly journal_bytes?: number | null;
  /** Commands that this session runs before it refuses more. */
  readonly max_commands?: number | null;
  /** Commands that may wait in its queue. */
  readonly max_queue?: number | null;
  /** Memory of everything that it runs: bytes, or `512M`. */
  readonly memory?: Size | null;
  /** Files that each process may have open. */
  readonly open_files?: number | null;
  /** Processes and threads that it may have at once. */
  readonly pids?: number | null;
}

export interface SessionListReply {
  readonly sessions: readonly SessionInfo[];
  /** Other daemons that did not answer in time: of their sessions, what was last known is listed. */
  readonly unanswered?: readonly string[];
}

export interface SessionRenameReply {
  readonly name: string;
  readonly session_id: SessionId;
}

export interface SessionResizeReply {
  readonly cols: number;
  readonly rows: number;
  readonly session_id: SessionId;
}

export interface SessionRestartReply {
  readonly pid: number | null;
  readonly restarts: number;
  readonly session_id: SessionId;
  readonly state: SessionState;
  readonly working_dir: string;
}

export interface SessionRow {
  readonly cwd: string | null;
  readonly label: string;
  readonly last_seen: string;
  readonly pid: number | null;
  /** Whether this is the caller. */
  readonly self: boolean;
  readonly started_at: string;
}

export type SessionState = "creating" | "idle" | "running" | "terminated" | "lost" | "damaged";

export interface ShellFound {
  readonly name: string;
  readonly path: string;
}

/** A signal as people write it: by name, with or without `SIG`, or by number. */
export type SignalName = number | string;

/** A number of bytes, written as a number or as `512M`. */
export type Size = number | string;

export interface StartedEvent {
  readonly exec_id: ExecId;
  /** Process that runs it: the shell's for a foreground command. Missing while it is queued. */
  readonly pid?: number | null;
}

/** Where a message is on its way, as far as its sender can know. */
export type State = "read" | "replied" | "failed" | "queued" | "sealed" | "relayed" | "delivered" | "held" | "routed" | "offered";

export type Stream = "stdout" | "stderr";

/** The subscription holds: every change from this one on will be told. */
export interface SubscribedEvent {
  readonly next: number;
}

export type Switch = "on" | "off" | "status";

export interface SystemInfoReply {
  readonly features: readonly string[];
  readonly host_protocol_version: number;
  /** Profiles that this machine can enforce in full. */
  readonly isolation: readonly string[];
  /** Why it cannot enforce the others, and limits that it cannot enforce for a session as a whole. */
  readonly isolation_missing?: readonly Missing[];
  readonly limits: LimitsInfo;
  readonly pid: number;
  readonly protocol_version: number;
  readonly shells: readonly ShellFound[];
  readonly version: string;
}

export interface SystemPingReply {
  readonly uptime_s: number;
  readonly version: string;
}

/** What this daemon can reach, for those who must choose. */
export interface SystemRuntimesReply {
  readonly runtimes: readonly RuntimeFound[];
}

export interface SystemShutdownReply {
  readonly keep_sessions: boolean;
  readonly pid: number;
}

export interface SystemStatsReply {
  readonly active_sessions: number;
  readonly connections: number;
  readonly memory_rss_bytes: number;
  readonly open_fds: number;
  readonly running_commands: number;
  readonly total_commands_run: number;
  readonly uptime_s: number;
  /** What the living sessions have used together; `memory_peak_bytes` is the largest of theirs. */
  readonly usage: Usage;
}

/** Speaks for a session. `Debug` does not tell it, so a logged request gives nobody away. */
export type Token = string;

export type Topic = "session" | "exec" | "agent" | "mail" | "net";

/** What is waited for: one of these. */
export interface Until {
  /** The end of the command. */
  readonly exit?: Exit | null;
  /** Something in its output. */
  readonly log?: LogUntil | null;
  /** A port that takes connections. */
  readonly port?: PortUntil | null;
}

/** What everything that a session has started has used together. */
export interface Usage {
  readonly cpu_s?: number | null;
  readonly memory_bytes?: number | null;
  readonly memory_peak_bytes?: number | null;
  readonly processes?: number | null;
  /** For how long its processor limit has held it back. */
  readonly throttled_s?: number | null;
  /** By its programs, to files, pipes and terminals. */
  readonly written_bytes?: number | null;
}

/** The command reads from its terminal. */
export interface WaitingEvent {
  readonly exec_id: ExecId;
  readonly prompt: string;
}

/** Whether an agent is there, as its own daemon tells through the relay. */
export type Whereabouts = "online" | "away" | "unknown";

/** How [`Isolation`] may be written. */
export type WordOrObject = Profile | SessionCreateIsolation;

export interface AgentAssignParams {
  /** An agent's name or address. */
  readonly agent: string;
  readonly harness_session_id?: string | null;
  /** An absolute path. */
  readonly project?: string | null;
  /** Default: the harness session if one is named, else the project, else `global`. */
  readonly scope?: AssignScope | null;
}

export interface AgentAssignmentsParams {
  readonly harness_session_id?: string | null;
  readonly project?: string | null;
}

export interface AgentCreateParams {
  /** `[A-Za-z0-9._-]{1,32}`, unique in this daemon. */
  readonly name: string;
  readonly policy?: Policy | null;
}

/** Params of requests that need only to know who asks. */
export interface AgentHeartbeatParams {
  /** The token of `agent.use`, on a connection that is not bound. */
  readonly as?: Token | null;
}

/** Params of requests that take none. */
export type AgentListParams = Readonly<Record<string, never>>;

export interface AgentReleaseParams {
  /** The token of `agent.use`, on a connection that is not bound. */
  readonly as?: Token | null;
  /**
   * The session of this harness session, instead of the caller's own. For hooks, which run when the
   * harness has ended its session.
   */
  readonly harness_session_id?: string | null;
}

export interface AgentSessionsParams {
  /** Another agent of this daemon; default: the caller's own. */
  readonly agent?: string | null;
  readonly as?: Token | null;
}

export interface AgentUnassignParams {
  readonly harness_session_id?: string | null;
  readonly project?: string | null;
  /** As of `agent.assign`. */
  readonly scope?: AssignScope | null;
}

export interface AgentUseParams {
  /**
   * An agent's name or address. Without it: the one that is assigned to the harness session, to the
   * project or to everything, else the only one there is.
   */
  readonly agent?: string | null;
  readonly cwd?: string | null;
  /** What the harness is called: the stem of a label that is not wished for. Default `claude`. */
  readonly harness?: string | null;
  /** The harness's own id of its session; a resumed one gets its last label back. */
  readonly harness_session_id?: string | null;
  /** Wished for; granted if no live session holds it. */
  readonly label?: string | null;
  readonly pid?: number | null;
  /** Pin the granted label as the agent's primary. */
  readonly primary?: boolean | null;
  /** The project directory, for assignments. Default `cwd`. */
  readonly project?: string | null;
  /** The `session_id` of the terminal session it runs in, by whose terminal it can be woken. */
  readonly terminal?: SessionId | null;
  /** Also assign the agent to this harness session. */
  readonly usual?: boolean | null;
}

/** Params of requests that need only to know who asks. */
export interface AgentWhoamiParams {
  /** The token of `agent.use`, on a connection that is not bound. */
  readonly as?: Token | null;
}

export interface ContactAcceptParams {
  readonly as?: Token | null;
  /** A petname or an address. */
  readonly who: string;
}

export interface ContactBlockParams {
  readonly as?: Token | null;
  /** A petname or an address. */
  readonly who: string;
}

export interface ContactDeclineParams {
  readonly as?: Token | null;
  /** A petname or an address. */
  readonly who: string;
}

/** Params of requests that need only to know who asks. */
export interface ContactListParams {
  /** The token of `agent.use`, on a connection that is not bound. */
  readonly as?: Token | null;
}

/** Params of requests that need only to know who asks. */
export interface ContactPresenceParams {
  /** The token of `agent.use`, on a connection that is not bound. */
  readonly as?: Token | null;
}

export interface ContactRequestParams {
  readonly as?: Token | null;
  /** A petname or an address. */
  readonly who: string;
}

export interface EventsSubscribeParams {
  /** From this sequence number on; default: from now on. */
  readonly from?: number | null;
  /** Only changes on this daemon itself, none of sessions on other daemons. */
  readonly own?: boolean;
  /** Only changes of these; default: of all. */
  readonly topics?: (readonly Topic[]) | null;
}

export interface ExecAttachParams {
  readonly encoding?: Encoding;
  readonly exec_id: string;
  readonly stderr_offset?: number;
  readonly stdout_offset?: number;
}

export interface ExecBindParams {
  /** False lets it go, whichever connection it was bound to. */
  readonly bound?: boolean;
  readonly exec_id: string;
}

export interface ExecCancelParams {
  readonly exec_id?: string | null;
  readonly session_id?: string | null;
  /** Just this signal (`INT`, `SIGTERM`, `9`, …) instead of INT, then TERM, then KILL. */
  readonly signal?: SignalName | null;
}

export interface ExecInfoParams {
  readonly exec_id: string;
}

export interface ExecListParams {
  /** Only commands of sessions of this daemon itself, none on other daemons. */
  readonly own?: boolean;
  readonly session_id?: string | null;
}

export interface ExecOutputParams {
  readonly encoding?: Encoding;
  readonly exec_id: string;
  /** At most this many bytes. Default and most: 8 MiB. */
  readonly limit?: number | null;
  readonly offset?: number;
  readonly stream: Stream;
}

export interface ExecResizeParams {
  /** 1 to 1000. */
  readonly cols: number;
  readonly exec_id: string;
  /** 1 to 1000. */
  readonly rows: number;
}

/** Shared by `exec.run`, `exec.stream` and `exec.start`. */
export interface ExecRunParams {
  /** A program and its arguments, which the shell does not interpret. */
  readonly argv?: (readonly string[]) | null;
  /** Beside the shell instead of in it. */
  readonly background?: boolean | null;
  /** A non-zero exit is `COMMAND_FAILED`, a timeout `COMMAND_TIMEOUT`. */
  readonly check?: boolean;
  /** Shell text. Either this or `argv` is required. */
  readonly command?: string | null;
  readonly encoding?: Encoding;
  /** For this command only. */
  readonly env?: Readonly<Record<string, string>> | null;
  /** How much of each stream the reply holds: head and tail. */
  readonly max_output_bytes?: number | null;
  /** stdout and stderr are one stream, in the order in which they were written. */
  readonly merge_stderr?: boolean | null;
  /** `env` is the whole environment of the programs that this command starts. */
  readonly replace_env?: boolean | null;
  /** A command that is sent again under the same id runs once: the repetition hears what the first did. */
  readonly run_id?: string | null;
  /** A session's id or name. Default: a temporary session for this command alone. */
  readonly session_id?: string | null;
  /**
   * Answer after this many seconds even if the command still runs: with the output so far and
   * `still_running`. The command continues.
   */
  readonly soft_timeout_s?: number | null;
  /** Given whole, then end of file. */
  readonly stdin?: string | null;
  /** How `stdin` is given; default: as text. */
  readonly stdin_encoding?: Encoding | null;
  /** Keep stdin open for `exec.write` after what `stdin` gives. */
  readonly stdin_open?: boolean | null;
  /** Deadline in seconds of run time; 0 is none. Default: the session's. */
  readonly timeout_s?: number | null;
  /** stdin and stdout are a terminal. Default: the session's. */
  readonly tty?: boolean | null;
  /** How long to queue for a busy session; without it: `SESSION_BUSY`. */
  readonly wait_s?: number | null;
  /** For this command only. */
  readonly working_dir?: string | null;
}

/** One of the two. */
export interface ExecScreenParams {
  readonly exec_id?: string | null;
  /** A session's id or name: its command on a terminal, or the last one. */
  readonly session_id?: string | null;
}

/** Shared by `exec.run`, `exec.stream` and `exec.start`. */
export interface ExecStartParams {
  /** A program and its arguments, which the shell does not interpret. */
  readonly argv?: (readonly string[]) | null;
  /** Beside the shell instead of in it. */
  readonly background?: boolean | null;
  /** A non-zero exit is `COMMAND_FAILED`, a timeout `COMMAND_TIMEOUT`. */
  readonly check?: boolean;
  /** Shell text. Either this or `argv` is required. */
  readonly command?: string | null;
  readonly encoding?: Encoding;
  /** For this command only. */
  readonly env?: Readonly<Record<string, string>> | null;
  /** How much of each stream the reply holds: head and tail. */
  readonly max_output_bytes?: number | null;
  /** stdout and stderr are one stream, in the order in which they were written. */
  readonly merge_stderr?: boolean | null;
  /** `env` is the whole environment of the programs that this command starts. */
  readonly replace_env?: boolean | null;
  /** A command that is sent again under the same id runs once: the repetition hears what the first did. */
  readonly run_id?: string | null;
  /** A session's id or name. Default: a temporary session for this command alone. */
  readonly session_id?: string | null;
  /**
   * Answer after this many seconds even if the command still runs: with the output so far and
   * `still_running`. The command continues.
   */
  readonly soft_timeout_s?: number | null;
  /** Given whole, then end of file. */
  readonly stdin?: string | null;
  /** How `stdin` is given; default: as text. */
  readonly stdin_encoding?: Encoding | null;
  /** Keep stdin open for `exec.write` after what `stdin` gives. */
  readonly stdin_open?: boolean | null;
  /** Deadline in seconds of run time; 0 is none. Default: the session's. */
  readonly timeout_s?: number | null;
  /** stdin and stdout are a terminal. Default: the session's. */
  readonly tty?: boolean | null;
  /** How long to queue for a busy session; without it: `SESSION_BUSY`. */
  readonly wait_s?: number | null;
  /** For this command only. */
  readonly working_dir?: string | null;
}

/** Shared by `exec.run`, `exec.stream` and `exec.start`. */
export interface ExecStreamParams {
  /** A program and its arguments, which the shell does not interpret. */
  readonly argv?: (readonly string[]) | null;
  /** Beside the shell instead of in it. */
  readonly background?: boolean | null;
  /** A non-zero exit is `COMMAND_FAILED`, a timeout `COMMAND_TIMEOUT`. */
  readonly check?: boolean;
  /** Shell text. Either this or `argv` is required. */
  readonly command?: string | null;
  readonly encoding?: Encoding;
  /** For this command only. */
  readonly env?: Readonly<Record<string, string>> | null;
  /** How much of each stream the reply holds: head and tail. */
  readonly max_output_bytes?: number | null;
  /** stdout and stderr are one stream, in the order in which they were written. */
  readonly merge_stderr?: boolean | null;
  /** `env` is the whole environment of the programs that this command starts. */
  readonly replace_env?: boolean | null;
  /** A command that is sent again under the same id runs once: the repetition hears what the first did. */
  readonly run_id?: string | null;
  /** A session's id or name. Default: a temporary session for this command alone. */
  readonly session_id?: string | null;
  /**
   * Answer after this many seconds even if the command still runs: with the output so far and
   * `still_running`. The command continues.
   */
  readonly soft_timeout_s?: number | null;
  /** Given whole, then end of file. */
  readonly stdin?: string | null;
  /** How `stdin` is given; default: as text. */
  readonly stdin_encoding?: Encoding | null;
  /** Keep stdin open for `exec.write` after what `stdin` gives. */
  readonly stdin_open?: boolean | null;
  /** Deadline in seconds of run time; 0 is none. Default: the session's. */
  readonly timeout_s?: number | null;
  /** stdin and stdout are a terminal. Default: the session's. */
  readonly tty?: boolean | null;
  /** How long to queue for a busy session; without it: `SESSION_BUSY`. */
  readonly wait_s?: number | null;
  /** For this command only. */
  readonly working_dir?: string | null;
}

export interface ExecWaitParams {
  readonly exec_id: string;
  /** How long to wait; 0, the default, is for ever. */
  readonly timeout_s?: number | null;
  /** Default: for the end of the command. */
  readonly until?: Until | null;
}

export interface ExecWriteParams {
  readonly data?: string;
  /** How `data` is given. */
  readonly encoding?: Encoding;
  /** Close stdin after `data`. */
  readonly eof?: boolean;
  readonly exec_id: string;
  /** The same, by the name that it has elsewhere. */
  readonly stdin_encoding?: Encoding | null;
  /** A write repeated with the same id is applied once. */
  readonly write_id?: string | null;
}

export interface FileEditParams {
  /** Replaces every occurrence. */
  readonly all?: boolean;
  readonly new: string;
  /** The text to replace. It must occur exactly once, unless `all` is set. */
  readonly old: string;
  readonly path: string;
  /** A session's id or name. */
  readonly session_id: string;
}

export interface FileListParams {
  /** Levels of directories to list. Default: 1, or all of them if `glob` names directories. */
  readonly depth?: number | null;
  /**
   * Only entries that match: `*` and `?` within a name, `**` across directories. Without a `/` it is
   * compared with names, otherwise with the path below the directory.
   */
  readonly glob?: string | null;
  /** A directory; default: the session's working directory. */
  readonly path?: string;
  /** A session's id or name. */
  readonly session_id: string;
}

export interface FileMakeDirParams {
  /** Makes missing directories on the way, and accepts one that is there. */
  readonly parents?: boolean;
  readonly path: string;
  /** A session's id or name. */
  readonly session_id: string;
}

export interface FileMoveParams {
  readonly from: string;
  /** Replaces what is at `to`. */
  readonly overwrite?: boolean;
  /** A session's id or name. */
  readonly session_id: string;
  readonly to: string;
}

export interface FileReadParams {
  readonly encoding?: Encoding;
  /** At most 8 MiB, which is the default. */
  readonly limit?: number | null;
  readonly offset?: number;
  /** Relative to the session's working directory, or absolute. */
  readonly path: string;
  /** A session's id or name. */
  readonly session_id: string;
}

export interface FileRemoveParams {
  readonly path: string;
  /** A directory with everything in it. */
  readonly recursive?: boolean;
  /** A session's id or name. */
  readonly session_id: string;
}

export interface FileStatParams {
  /** About what a symbolic link leads to, not about the link. */
  readonly follow?: boolean;
  readonly path: string;
  /** A session's id or name. */
  readonly session_id: string;
}

export interface FileWriteParams {
  /** Adds to the end instead of replacing the file. */
  readonly append?: boolean;
  readonly content: string;
  /** How `content` is given. */
  readonly encoding?: Encoding;
  /** Writes only if the file now has this content. */
  readonly if_sha256?: string | null;
  /** Makes missing directories on the way. */
  readonly make_parents?: boolean;
  /**
   * Permissions, as an octal string such as `0644`. Default: those of the file that is replaced, else
   * what the session's processes would give it.
   */
  readonly mode?: FileMode | null;
  /**
   * Writes at this place into the file as it is, instead of replacing it; the same again changes
   * nothing. Beyond its end: `FILE_CONFLICT`. Not with `append`.
   */
  readonly offset?: number | null;
  readonly path: string;
  /** A session's id or name. */
  readonly session_id: string;
}

/** `action`, or one of the three words as a param of its own; with none of them, `status`. */
export interface MailAutorespondParams {
  readonly action?: Switch | null;
  /** The token of `agent.use`, on a connection that is not bound. */
  readonly as?: Token | null;
  readonly command?: AnswerCommand | null;
  /** Let the command use the network; it cannot otherwise. */
  readonly network?: boolean | null;
  readonly off?: boolean;
  readonly on?: boolean;
  readonly status?: boolean;
}

export interface MailAwaitReplyParams {
  /** The token of `agent.use`, on a connection that is not bound. */
  readonly as?: Token | null;
  readonly message_id: string;
  /** The reply does not count as read by this. */
  readonly peek?: boolean;
  readonly timeout_s?: number | null;
}

export interface MailCheckReplyParams {
  /** The token of `agent.use`, on a connection that is not bound. */
  readonly as?: Token | null;
  readonly message_id: string;
  /** The reply does not count as read by this. */
  readonly peek?: boolean;
}

/** Params of requests that need only to know who asks. */
export interface MailDeadLettersParams {
  /** The token of `agent.use`, on a connection that is not bound. */
  readonly as?: Token | null;
}

/** Params of requests that need only to know who asks. */
export interface MailHeldParams {
  /** The token of `agent.use`, on a connection that is not bound. */
  readonly as?: Token | null;
}

export interface MailInboxParams {
  /** Acknowledge exactly these; without it, whatever the last call handed out. */
  readonly ack?: (readonly string[]) | null;
  /** The token of `agent.use`, on a connection that is not bound. */
  readonly as?: Token | null;
  readonly limit?: number | null;
  /** Look without taking. */
  readonly peek?: boolean;
  /** Wait this long for the first message. */
  readonly wait_s?: number | null;
}

/** Whose mail: the caller's session, or that of a harness session. */
export interface MailNoticesParams {
  /** The agent that the harness session will speak for, if it has none yet. */
  readonly agent?: string | null;
  /** These were announced by the caller. */
  readonly announced?: readonly string[];
  /** The token of `agent.use`, on a connection that is not bound. */
  readonly as?: Token | null;
  /** What is answered counts as announced: nobody else announces it to this session. */
  readonly claim?: boolean;
  /**
   * The processes above the caller, nearest first. A harness that goes on under another id keeps its
   * servers: where `harness_session_id` is of no live session, the session whose server one of these
   * has started is meant.
   */
  readonly harness_pids?: readonly number[];
  /** The session of this harness session, instead of the caller's own. For hooks. */
  readonly harness_session_id?: string | null;
  /** Not these: the caller knows of them. */
  readonly known?: readonly string[];
  /** Its project directory, which may have an agent assigned. */
  readonly project?: string | null;
  /** The user of the harness has said something. */
  readonly prompted?: boolean;
  /** Messages that the agent's auto-responder may answer go to it, if it is on, instead of being told. */
  readonly respond?: boolean;
  /** Wait this long for a message that nobody has announced. */
  readonly wait_s?: number | null;
  /** The caller waits to wake the harness session; a later one replaces it. */
  readonly waiter?: boolean;
  /** The announcement starts a turn of the harness. Only so many do until its user has said something. */
  readonly wake?: boolean;
}

export interface MailReplyParams {
  /** The token of `agent.use`, on a connection that is not bound. */
  readonly as?: Token | null;
  readonly auto?: boolean | null;
  /** A message of the caller's inbox. */
  readonly message_id: string;
  /** The caller's own id: the same one again is the same answer. 1 to 64 of A-Z a-z 0-9 . _ : - */
  readonly send_id?: string | null;
  readonly text: string;
  /** Must be who wrote the message; `name/label` is one session of it. */
  readonly to?: string | null;
  /** As in `mail.send`. */
  readonly unless_sent_within_s?: number | null;
}

export interface MailResetParams {
  /** The token of `agent.use`, on a connection that is not bound. */
  readonly as?: Token | null;
  /** A petname or an address. */
  readonly who: string;
}

export interface MailSendParams {
  /** The token of `agent.use`, on a connection that is not bound. */
  readonly as?: Token | null;
  /** A machine wrote it by itself; nobody answers it by itself. */
  readonly auto?: boolean | null;
  readonly expires_s?: number | null;
  readonly in_reply_to?: string | null;
  /** `user` or `agent`. */
  readonly role?: string | null;
  /** The caller's own id: the same one again is the same message. 1 to 64 of A-Z a-z 0-9 . _ : - */
  readonly send_id?: string | null;
  readonly text: string;
  /** A petname or address; `name/label` is short for `to_session`. */
  readonly to: string;
  readonly to_session?: string | null;
  /**
   * If the session has sent the same message within so many seconds, it is not sent again: the answer
   * tells of the first.
   */
  readonly unless_sent_within_s?: number | null;
}

export interface MailSendAndWaitParams {
  /** The token of `agent.use`, on a connection that is not bound. */
  readonly as?: Token | null;
  /** A machine wrote it by itself; nobody answers it by itself. */
  readonly auto?: boolean | null;
  readonly expires_s?: number | null;
  readonly in_reply_to?: string | null;
  /** The reply does not count as read by this. */
  readonly peek?: boolean;
  /** `user` or `agent`. */
  readonly role?: string | null;
  /** The caller's own id: the same one again is the same message. 1 to 64 of A-Z a-z 0-9 . _ : - */
  readonly send_id?: string | null;
  readonly text: string;
  readonly timeout_s?: number | null;
  /** A petname or address; `name/label` is short for `to_session`. */
  readonly to: string;
  readonly to_session?: string | null;
  /**
   * If the session has sent the same message within so many seconds, it is not sent again: the answer
   * tells of the first.
   */
  readonly unless_sent_within_s?: number | null;
}

/** Params of requests that name one message. */
export interface MailStatusParams {
  /** The token of `agent.use`, on a connection that is not bound. */
  readonly as?: Token | null;
  readonly message_id: string;
}

/** Params of requests that need only to know who asks. */
export interface MailSubscribeParams {
  /** The token of `agent.use`, on a connection that is not bound. */
  readonly as?: Token | null;
}

export interface RuntimeGrantParams {
  /** Who gets access: a contact's name or address. */
  readonly agent: string;
  /** The grant ends after so many seconds. Default: when it is revoked. */
  readonly expires_s?: number | null;
  /** The agent of this daemon that grants. Default: the first one that has `agent` as a contact. */
  readonly from?: string | null;
  /** The most that each session under this grant may use. */
  readonly limits?: SessionLimits | null;
  /** Most sessions under this grant at a time. Default: as many as the daemon allows. */
  readonly max_sessions?: number | null;
  /** The least isolation of sessions under this grant. Default: `workspace`. */
  readonly profile?: Profile | null;
  /**
   * The directory that sessions under this grant work in. Default: a private `/tmp`; with the profile
   * `none`, any.
   */
  readonly working_dir?: string | null;
}

/** Params of requests that take none. */
export type RuntimeGrantsParams = Readonly<Record<string, never>>;

export interface RuntimeRevokeParams {
  readonly grant_id: string;
}

export interface SessionAttachParams {
  readonly cols?: number | null;
  /** Only look. */
  readonly read_only?: boolean;
  /** Of the window, with `cols`; not of one that only looks. */
  readonly rows?: number | null;
  /** A session's id or name. */
  readonly session_id: string;
  /** In place of the one who is attached now. */
  readonly take_over?: boolean;
}

export interface SessionBindParams {
  /** False lets it go, whichever connection it was bound to. */
  readonly bound?: boolean;
  /** A session's id or name. */
  readonly session_id: string;
}

export interface SessionCreateParams {
  /**
   * What results and the session's state survive once they were told: `process` (the default), the end
   * of any process; `power`, also a power cut.
   */
  readonly durability?: Durability | null;
  /** Added to the daemon's environment. */
  readonly env?: Readonly<Record<string, string>> | null;
  /** End the session after this many seconds without a command; 0 is never. */
  readonly idle_timeout_s?: number | null;
  /** What the session is kept from: `none`, `workspace`, `strict`, or an object with details. */
  readonly isolation?: WordOrObject | null;
  /**
   * Keep the state of the shell under this name for a week after its last use, also when the session
   * is over. On this machine only. What an isolated session keeps is for sessions with the same
   * isolation and directory.
   */
  readonly keep_state?: string | null;
  readonly limits?: SessionLimits | null;
  /** Unique among living sessions; usable wherever a session id is. */
  readonly name?: string | null;
  /** Read the user's start-up files (`.bashrc`, `.zshrc`). Default: no. */
  readonly rc?: boolean | null;
  /**
   * `env` is the whole environment, without the daemon's; the session's own `TRL_…` variables are
   * added.
   */
  readonly replace_env?: boolean | null;
  /** Begin with the state that is kept under this name, if there is one of the same shell. */
  readonly restore_state?: string | null;
  /**
   * Where the session runs: `local` (default), `container:IMAGE`, `container:@NAME`,
   * `ssh:[USER@]HOST[:PORT]`, `trl:https://HOST:PORT` (another daemon), or a name from the
   * configuration.
   */
  readonly runtime?: string | null;
  /**
   * `bash`, `zsh`, `sh` or `dash`, or the path of one. Default: `$SHELL` if spoken, else bash, else
   * sh.
   */
  readonly shell?: string | null;
  /** Default deadline of this session's commands, in seconds; 0 is none. */
  readonly timeout_s?: number | null;
  /** Commands of this session run on a terminal unless they say otherwise. */
  readonly tty?: boolean | null;
  readonly working_dir?: string | null;
}

export interface SessionDestroyParams {
  /** KILL at once instead of TERM and a grace period. */
  readonly force?: boolean;
  /** A session's id or name. */
  readonly session_id: string;
}

export interface SessionForkParams {
  /** Name of the new session, unique among living sessions. */
  readonly name?: string | null;
  /** Id or name of the session to begin with. */
  readonly session_id: string;
}

/** Params of every request that names one session and nothing else. */
export interface SessionInfoParams {
  /** A session's id or name. */
  readonly session_id: string;
}

export interface SessionInputParams {
  readonly data: string;
  /** How `data` is given. */
  readonly encoding?: Encoding;
  /** A session's id or name. */
  readonly session_id: string;
}

export interface SessionListParams {
  /** Only sessions of this daemon itself, none on other daemons. */
  readonly own?: boolean;
}

export interface SessionRenameParams {
  /** Its new name, unique among living sessions. */
  readonly name: string;
  /** A session's id or name. */
  readonly session_id: string;
}

export interface SessionResizeParams {
  /** 1 to 1000. */
  readonly cols: number;
  /** 1 to 1000. */
  readonly rows: number;
  /** A session's id or name. */
  readonly session_id: string;
}

export interface SessionRestartParams {
  /** Leave a session that is alive as it is. */
  readonly if_lost?: boolean;
  /** A session's id or name. */
  readonly session_id: string;
}

/** Params of requests that take none. */
export type SystemInfoParams = Readonly<Record<string, never>>;

/** Params of requests that take none. */
export type SystemPingParams = Readonly<Record<string, never>>;

/** Params of requests that take none. */
export type SystemRuntimesParams = Readonly<Record<string, never>>;

export interface SystemShutdownParams {
  /** Leave the sessions to the next daemon. */
  readonly keep_sessions?: boolean;
}

/** Params of requests that take none. */
export type SystemStatsParams = Readonly<Record<string, never>>;

/** Params and reply of every method. */
export interface Calls {
  "agent.assign": { params: AgentAssignParams; reply: Assignment };
  "agent.assignments": { params: AgentAssignmentsParams; reply: AgentAssignmentsReply };
  "agent.create": { params: AgentCreateParams; reply: AgentCreateReply };
  "agent.heartbeat": { params: AgentHeartbeatParams; reply: AgentHeartbeatReply };
  "agent.list": { params: AgentListParams; reply: AgentListReply };
  "agent.release": { params: AgentReleaseParams; reply: AgentReleaseReply };
  "agent.sessions": { params: AgentSessionsParams; reply: AgentSessionsReply };
  "agent.unassign": { params: AgentUnassignParams; reply: AgentUnassignReply };
  "agent.use": { params: AgentUseParams; reply: AgentUseReply };
  "agent.whoami": { params: AgentWhoamiParams; reply: AgentWhoamiReply };
  "contact.accept": { params: ContactAcceptParams; reply: ContactRow };
  "contact.block": { params: ContactBlockParams; reply: ContactRow };
  "contact.decline": { params: ContactDeclineParams; reply: ContactRow };
  "contact.list": { params: ContactListParams; reply: ContactListReply };
  "contact.presence": { params: ContactPresenceParams; reply: ContactPresenceReply };
  "contact.request": { params: ContactRequestParams; reply: ContactRow };
  "events.subscribe": { params: EventsSubscribeParams; reply: EventsSubscribeReply };
  "exec.attach": { params: ExecAttachParams; reply: ExecAttachReply };
  "exec.bind": { params: ExecBindParams; reply: ExecBindReply };
  "exec.cancel": { params: ExecCancelParams; reply: ExecCancelReply };
  "exec.info": { params: ExecInfoParams; reply: ExecInfo };
  "exec.list": { params: ExecListParams; reply: ExecListReply };
  "exec.output": { params: ExecOutputParams; reply: ExecOutputReply };
  "exec.resize": { params: ExecResizeParams; reply: ExecResizeReply };
  "exec.run": { params: ExecRunParams; reply: ExecRunReply };
  "exec.screen": { params: ExecScreenParams; reply: ExecScreenReply };
  "exec.start": { params: ExecStartParams; reply: ExecStartReply };
  "exec.stream": { params: ExecStreamParams; reply: ExecStreamReply };
  "exec.wait": { params: ExecWaitParams; reply: ExecWaitReply };
  "exec.write": { params: ExecWriteParams; reply: ExecWriteReply };
  "file.edit": { params: FileEditParams; reply: FileEditReply };
  "file.list": { params: FileListParams; reply: FileListReply };
  "file.make_dir": { params: FileMakeDirParams; reply: FileMakeDirReply };
  "file.move": { params: FileMoveParams; reply: FileMoveReply };
  "file.read": { params: FileReadParams; reply: FileReadReply };
  "file.remove": { params: FileRemoveParams; reply: FileRemoveReply };
  "file.stat": { params: FileStatParams; reply: FileEntry };
  "file.write": { params: FileWriteParams; reply: FileWriteReply };
  "mail.autorespond": { params: MailAutorespondParams; reply: MailAutorespondReply };
  "mail.await_reply": { params: MailAwaitReplyParams; reply: MailAwaitReplyReply };
  "mail.check_reply": { params: MailCheckReplyParams; reply: MailCheckReplyReply };
  "mail.dead_letters": { params: MailDeadLettersParams; reply: MailDeadLettersReply };
  "mail.held": { params: MailHeldParams; reply: MailHeldReply };
  "mail.inbox": { params: MailInboxParams; reply: MailInboxReply };
  "mail.notices": { params: MailNoticesParams; reply: MailNoticesReply };
  "mail.reply": { params: MailReplyParams; reply: MailReplyReply };
  "mail.reset": { params: MailResetParams; reply: MailResetReply };
  "mail.send": { params: MailSendParams; reply: MailSendReply };
  "mail.send_and_wait": { params: MailSendAndWaitParams; reply: MailSendAndWaitReply };
  "mail.status": { params: MailStatusParams; reply: MailStatusReply };
  "mail.subscribe": { params: MailSubscribeParams; reply: MailSubscribeReply };
  "runtime.grant": { params: RuntimeGrantParams; reply: RuntimeGrantReply };
  "runtime.grants": { params: RuntimeGrantsParams; reply: RuntimeGrantsReply };
  "runtime.revoke": { params: RuntimeRevokeParams; reply: RuntimeRevokeReply };
  "session.attach": { params: SessionAttachParams; reply: SessionAttachReply };
  "session.bind": { params: SessionBindParams; reply: SessionBindReply };
  "session.create": { params: SessionCreateParams; reply: SessionCreateReply };
  "session.destroy": { params: SessionDestroyParams; reply: SessionDestroyReply };
  "session.fork": { params: SessionForkParams; reply: SessionForkReply };
  "session.info": { params: SessionInfoParams; reply: SessionInfo };
  "session.input": { params: SessionInputParams; reply: SessionInputReply };
  "session.list": { params: SessionListParams; reply: SessionListReply };
  "session.rename": { params: SessionRenameParams; reply: SessionRenameReply };
  "session.resize": { params: SessionResizeParams; reply: SessionResizeReply };
  "session.restart": { params: SessionRestartParams; reply: SessionRestartReply };
  "system.info": { params: SystemInfoParams; reply: SystemInfoReply };
  "system.ping": { params: SystemPingParams; reply: SystemPingReply };
  "system.runtimes": { params: SystemRuntimesParams; reply: SystemRuntimesReply };
  "system.shutdown": { params: SystemShutdownParams; reply: SystemShutdownReply };
  "system.stats": { params: SystemStatsParams; reply: SystemStatsReply };
}
