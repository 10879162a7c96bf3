// Every method of the protocol, one stub each.
// Generated from docs/contract/protocol.json by clients/generate; do not edit.

import {
  ChangeProgress,
  type ChangesEvent,
  type CommandEvent,
  CommandProgress,
  MailProgress,
  type Output,
  TerminalProgress,
  type Progress,
} from "./progress.js";
import type {
  Calls,
  AgentAssignParams,
  AgentAssignmentsParams,
  AgentAssignmentsReply,
  AgentCreateParams,
  AgentCreateReply,
  AgentHeartbeatParams,
  AgentHeartbeatReply,
  AgentListParams,
  AgentListReply,
  AgentReleaseParams,
  AgentReleaseReply,
  AgentSessionsParams,
  AgentSessionsReply,
  AgentUnassignParams,
  AgentUnassignReply,
  AgentUseParams,
  AgentUseReply,
  AgentWhoamiParams,
  AgentWhoamiReply,
  Assignment,
  ContactAcceptParams,
  ContactBlockParams,
  ContactDeclineParams,
  ContactListParams,
  ContactListReply,
  ContactPresenceParams,
  ContactPresenceReply,
  ContactRequestParams,
  ContactRow,
  EventsSubscribeParams,
  EventsSubscribeReply,
  ExecAttachParams,
  ExecAttachReply,
  ExecBindParams,
  ExecBindReply,
  ExecCancelParams,
  ExecCancelReply,
  ExecInfo,
  ExecInfoParams,
  ExecListParams,
  ExecListReply,
  ExecOutputParams,
  ExecOutputReply,
  ExecResizeParams,
  ExecResizeReply,
  ExecRunParams,
  ExecRunReply,
  ExecScreenParams,
  ExecScreenReply,
  ExecStartParams,
  ExecStartReply,
  ExecStreamParams,
  ExecStreamReply,
  ExecWaitParams,
  ExecWaitReply,
  ExecWriteParams,
  ExecWriteReply,
  FileEditParams,
  FileEditReply,
  FileEntry,
  FileListParams,
  FileListReply,
  FileMakeDirParams,
  FileMakeDirReply,
  FileMoveParams,
  FileMoveReply,
  FileReadParams,
  FileReadReply,
  FileRemoveParams,
  FileRemoveReply,
  FileStatParams,
  FileWriteParams,
  FileWriteReply,
  MailAutorespondParams,
  MailAutorespondReply,
  MailAwaitReplyParams,
  MailAwaitReplyReply,
  MailCheckReplyParams,
  MailCheckReplyReply,
  MailDeadLettersParams,
  MailDeadLettersReply,
  MailEvent,
  MailHeldParams,
  MailHeldReply,
  MailInboxParams,
  MailInboxReply,
  MailNoticesParams,
  MailNoticesReply,
  MailReplyParams,
  MailReplyReply,
  MailResetParams,
  MailResetReply,
  MailSendAndWaitParams,
  MailSendAndWaitReply,
  MailSendParams,
  MailSendReply,
  MailStatusParams,
  MailStatusReply,
  MailSubscribeParams,
  MailSubscribeReply,
  RuntimeGrantParams,
  RuntimeGrantReply,
  RuntimeGrantsParams,
  RuntimeGrantsReply,
  RuntimeRevokeParams,
  RuntimeRevokeReply,
  SessionAttachParams,
  SessionAttachReply,
  SessionBindParams,
  SessionBindReply,
  SessionCreateParams,
  SessionCreateReply,
  SessionDestroyParams,
  SessionDestroyReply,
  SessionForkParams,
  SessionForkReply,
  SessionInfo,
  SessionInfoParams,
  SessionInputParams,
  SessionInputReply,
  SessionListParams,
  SessionListReply,
  SessionRenameParams,
  SessionRenameReply,
  SessionResizeParams,
  SessionResizeReply,
  SessionRestartParams,
  SessionRestartReply,
  SystemInfoParams,
  SystemInfoReply,
  SystemPingParams,
  SystemPingReply,
  SystemRuntimesParams,
  SystemRuntimesReply,
  SystemShutdownParams,
  SystemShutdownReply,
  SystemStatsParams,
  SystemStatsReply,
} from "./protocol.js";
import type { EventStream } from "./stream.js";

/** Ends the wait for an answer. What was asked for may be done nevertheless. */
export interface CallOptions {
  readonly signal?: AbortSignal | undefined;
}

/** The protocol as it is: what each method means is told by docs/protocol.md. */
export abstract class Methods {
  abstract request<M extends keyof Calls>(
    method: M,
    params: Calls[M]["params"],
    options?: CallOptions,
  ): Promise<Calls[M]["reply"]>;

  abstract open<E, R>(progress: Progress<E, R>, options?: CallOptions): EventStream<E, R>;

  /** `agent.assign`: Assigns an agent to a harness session, a project directory, or everything else. */
  agentAssign(params: AgentAssignParams, options?: CallOptions): Promise<Assignment> {
    return this.request("agent.assign", params, options);
  }

  /** `agent.assignments`: Lists assignments, and tells which agent a harness session or directory gets. */
  agentAssignments(params: AgentAssignmentsParams = {}, options?: CallOptions): Promise<AgentAssignmentsReply> {
    return this.request("agent.assignments", params, options);
  }

  /** `agent.create`: Creates an agent. */
  agentCreate(params: AgentCreateParams, options?: CallOptions): Promise<AgentCreateReply> {
    return this.request("agent.create", params, options);
  }

  /** `agent.heartbeat`: Says that a session of an agent is still there. */
  agentHeartbeat(params: AgentHeartbeatParams = {}, options?: CallOptions): Promise<AgentHeartbeatReply> {
    return this.request("agent.heartbeat", params, options);
  }

  /** `agent.list`: Lists the agents of this daemon. */
  agentList(params: AgentListParams = {}, options?: CallOptions): Promise<AgentListReply> {
    return this.request("agent.list", params, options);
  }

  /** `agent.release`: Ends a session of an agent. */
  agentRelease(params: AgentReleaseParams = {}, options?: CallOptions): Promise<AgentReleaseReply> {
    return this.request("agent.release", params, options);
  }

  /** `agent.sessions`: Lists the sessions of an agent. */
  agentSessions(params: AgentSessionsParams = {}, options?: CallOptions): Promise<AgentSessionsReply> {
    return this.request("agent.sessions", params, options);
  }

  /** `agent.unassign`: Removes an assignment. */
  agentUnassign(params: AgentUnassignParams = {}, options?: CallOptions): Promise<AgentUnassignReply> {
    return this.request("agent.unassign", params, options);
  }

  /** `agent.use`: Opens a session of an agent and binds it to the connection. */
  agentUse(params: AgentUseParams = {}, options?: CallOptions): Promise<AgentUseReply> {
    return this.request("agent.use", params, options);
  }

  /** `agent.whoami`: Tells which agent and session the caller is. */
  agentWhoami(params: AgentWhoamiParams = {}, options?: CallOptions): Promise<AgentWhoamiReply> {
    return this.request("agent.whoami", params, options);
  }

  /** `contact.accept`: Accepts a contact. */
  contactAccept(params: ContactAcceptParams, options?: CallOptions): Promise<ContactRow> {
    return this.request("contact.accept", params, options);
  }

  /** `contact.block`: Blocks a contact. */
  contactBlock(params: ContactBlockParams, options?: CallOptions): Promise<ContactRow> {
    return this.request("contact.block", params, options);
  }

  /** `contact.decline`: Declines a contact. */
  contactDecline(params: ContactDeclineParams, options?: CallOptions): Promise<ContactRow> {
    return this.request("contact.decline", params, options);
  }

  /** `contact.list`: Lists the contacts. */
  contactList(params: ContactListParams = {}, options?: CallOptions): Promise<ContactListReply> {
    return this.request("contact.list", params, options);
  }

  /** `contact.presence`: Tells which contacts can be reached now. */
  contactPresence(params: ContactPresenceParams = {}, options?: CallOptions): Promise<ContactPresenceReply> {
    return this.request("contact.presence", params, options);
  }

  /** `contact.request`: Asks another agent to become a contact. */
  contactRequest(params: ContactRequestParams, options?: CallOptions): Promise<ContactRow> {
    return this.request("contact.request", params, options);
  }

  /** `events.subscribe`: Sends an event for each change of sessions, commands, agents and mail. */
  eventsSubscribe(params: EventsSubscribeParams = {}, options?: CallOptions): EventStream<ChangesEvent, EventsSubscribeReply> {
    return this.open(new ChangeProgress<EventsSubscribeReply>("events.subscribe", { ...params }), options);
  }

  /** `exec.attach`: Sends the output of a command, running or finished, as events from an offset on. */
  execAttach(params: ExecAttachParams, options?: CallOptions): EventStream<CommandEvent, ExecAttachReply> {
    return this.open(new CommandProgress<ExecAttachReply>("exec.attach", { ...params }), options);
  }

  /** `exec.bind`: Ends a command when the connection that asked closes, or no longer. */
  execBind(params: ExecBindParams, options?: CallOptions): Promise<ExecBindReply> {
    return this.request("exec.bind", params, options);
  }

  /** `exec.cancel`: Ends a command with signals; its shell and the shell's state stay. */
  execCancel(params: ExecCancelParams = {}, options?: CallOptions): Promise<ExecCancelReply> {
    return this.request("exec.cancel", params, options);
  }

  /** `exec.info`: Describes one command. */
  execInfo(params: ExecInfoParams, options?: CallOptions): Promise<ExecInfo> {
    return this.request("exec.info", params, options);
  }

  /** `exec.list`: Lists the commands of one session or of all. */
  execList(params: ExecListParams = {}, options?: CallOptions): Promise<ExecListReply> {
    return this.request("exec.list", params, options);
  }

  /** `exec.output`: Returns a range of a command's kept output. */
  execOutput(params: ExecOutputParams, options?: CallOptions): Promise<ExecOutputReply> {
    return this.request("exec.output", params, options);
  }

  /** `exec.resize`: Changes the size of a command's terminal. */
  execResize(params: ExecResizeParams, options?: CallOptions): Promise<ExecResizeReply> {
    return this.request("exec.resize", params, options);
  }

  /** `exec.run`: Runs a command and answers with its output when it has ended. */
  execRun(params: ExecRunParams = {}, options?: CallOptions): Promise<ExecRunReply> {
    return this.request("exec.run", params, options);
  }

  /** `exec.screen`: Returns the screen of a command's terminal. */
  execScreen(params: ExecScreenParams = {}, options?: CallOptions): Promise<ExecScreenReply> {
    return this.request("exec.screen", params, options);
  }

  /** `exec.start`: Starts a command and answers at once. */
  execStart(params: ExecStartParams = {}, options?: CallOptions): Promise<ExecStartReply> {
    return this.request("exec.start", params, options);
  }

  /** `exec.stream`: Runs a command; its output comes as events. */
  execStream(params: ExecStreamParams = {}, options?: CallOptions): EventStream<CommandEvent, ExecStreamReply> {
    return this.open(new CommandProgress<ExecStreamReply>("exec.stream", { ...params }), options);
  }

  /** `exec.wait`: Waits until a command ends, prints something or opens a port. */
  execWait(params: ExecWaitParams, options?: CallOptions): Promise<ExecWaitReply> {
    return this.request("exec.wait", params, options);
  }

  /** `exec.write`: Writes to the stdin of a running command. */
  execWrite(params: ExecWriteParams, options?: CallOptions): Promise<ExecWriteReply> {
    return this.request("exec.write", params, options);
  }

  /** `file.edit`: Replaces a text in a file. */
  fileEdit(params: FileEditParams, options?: CallOptions): Promise<FileEditReply> {
    return this.request("file.edit", params, options);
  }

  /** `file.list`: Lists a directory. */
  fileList(params: FileListParams, options?: CallOptions): Promise<FileListReply> {
    return this.request("file.list", params, options);
  }

  /** `file.make_dir`: Makes a directory. */
  fileMakeDir(params: FileMakeDirParams, options?: CallOptions): Promise<FileMakeDirReply> {
    return this.request("file.make_dir", params, options);
  }

  /** `file.move`: Renames a file or directory. */
  fileMove(params: FileMoveParams, options?: CallOptions): Promise<FileMoveReply> {
    return this.request("file.move", params, options);
  }

  /** `file.read`: Reads a part of a file, as the session sees it. */
  fileRead(params: FileReadParams, options?: CallOptions): Promise<FileReadReply> {
    return this.request("file.read", params, options);
  }

  /** `file.remove`: Removes a file or directory. */
  fileRemove(params: FileRemoveParams, options?: CallOptions): Promise<FileRemoveReply> {
    return this.request("file.remove", params, options);
  }

  /** `file.stat`: Describes one file, directory or symbolic link. */
  fileStat(params: FileStatParams, options?: CallOptions): Promise<FileEntry> {
    return this.request("file.stat", params, options);
  }

  /** `file.write`: Writes a file as a whole, or adds to its end. */
  fileWrite(params: FileWriteParams, options?: CallOptions): Promise<FileWriteReply> {
    return this.request("file.write", params, options);
  }

  /** `mail.autorespond`: Switches the automatic responder, or tells its state. */
  mailAutorespond(params: MailAutorespondParams = {}, options?: CallOptions): Promise<MailAutorespondReply> {
    return this.request("mail.autorespond", params, options);
  }

  /** `mail.await_reply`: Waits for the reply to a message. */
  mailAwaitReply(params: MailAwaitReplyParams, options?: CallOptions): Promise<MailAwaitReplyReply> {
    return this.request("mail.await_reply", params, options);
  }

  /** `mail.check_reply`: Returns the reply to a message if there is one. */
  mailCheckReply(params: MailCheckReplyParams, options?: CallOptions): Promise<MailCheckReplyReply> {
    return this.request("mail.check_reply", params, options);
  }

  /** `mail.dead_letters`: Lists mail that could not be delivered. */
  mailDeadLetters(params: MailDeadLettersParams = {}, options?: CallOptions): Promise<MailDeadLettersReply> {
    return this.request("mail.dead_letters", params, options);
  }

  /** `mail.held`: Lists mail that is held back. */
  mailHeld(params: MailHeldParams = {}, options?: CallOptions): Promise<MailHeldReply> {
    return this.request("mail.held", params, options);
  }

  /** `mail.inbox`: Returns messages that wait for the caller's session. */
  mailInbox(params: MailInboxParams = {}, options?: CallOptions): Promise<MailInboxReply> {
    return this.request("mail.inbox", params, options);
  }

  /** `mail.notices`: Tells of new mail by sender and id, or waits for some. */
  mailNotices(params: MailNoticesParams = {}, options?: CallOptions): Promise<MailNoticesReply> {
    return this.request("mail.notices", params, options);
  }

  /** `mail.reply`: Replies to a message. */
  mailReply(params: MailReplyParams, options?: CallOptions): Promise<MailReplyReply> {
    return this.request("mail.reply", params, options);
  }

  /** `mail.reset`: Starts a new encrypted channel to another agent. */
  mailReset(params: MailResetParams, options?: CallOptions): Promise<MailResetReply> {
    return this.request("mail.reset", params, options);
  }

  /** `mail.send`: Sends a message. */
  mailSend(params: MailSendParams, options?: CallOptions): Promise<MailSendReply> {
    return this.request("mail.send", params, options);
  }

  /** `mail.send_and_wait`: Sends a message and waits for its reply. */
  mailSendAndWait(params: MailSendAndWaitParams, options?: CallOptions): Promise<MailSendAndWaitReply> {
    return this.request("mail.send_and_wait", params, options);
  }

  /** `mail.status`: Tells what became of a sent message. */
  mailStatus(params: MailStatusParams, options?: CallOptions): Promise<MailStatusReply> {
    return this.request("mail.status", params, options);
  }

  /** `mail.subscribe`: Sends an event when mail has arrived. */
  mailSubscribe(params: MailSubscribeParams = {}, options?: CallOptions): EventStream<MailEvent, MailSubscribeReply> {
    return this.open(new MailProgress<MailSubscribeReply>("mail.subscribe", { ...params }), options);
  }

  /**
   * `runtime.grant`: Lets an agent of another daemon create sessions here, within limits, and sends it
   * the token by mail.
   */
  runtimeGrant(params: RuntimeGrantParams, options?: CallOptions): Promise<RuntimeGrantReply> {
    return this.request("runtime.grant", params, options);
  }

  /** `runtime.grants`: Lists the grants of this daemon. */
  runtimeGrants(params: RuntimeGrantsParams = {}, options?: CallOptions): Promise<RuntimeGrantsReply> {
    return this.request("runtime.grants", params, options);
  }

  /** `runtime.revoke`: Ends a grant and the sessions under it. */
  runtimeRevoke(params: RuntimeRevokeParams, options?: CallOptions): Promise<RuntimeRevokeReply> {
    return this.request("runtime.revoke", params, options);
  }

  /** `session.attach`: Shows a session as on a terminal, until the client detaches. */
  sessionAttach(params: SessionAttachParams, options?: CallOptions): EventStream<Output, SessionAttachReply> {
    return this.open(new TerminalProgress<SessionAttachReply>("session.attach", { ...params }), options);
  }

  /** `session.bind`: Ends a session when the connection that asked closes, or no longer. */
  sessionBind(params: SessionBindParams, options?: CallOptions): Promise<SessionBindReply> {
    return this.request("session.bind", params, options);
  }

  /**
   * `session.create`: Creates a session: a living shell whose state carries over from command to
   * command.
   */
  sessionCreate(params: SessionCreateParams = {}, options?: CallOptions): Promise<SessionCreateReply> {
    return this.request("session.create", params, options);
  }

  /** `session.destroy`: Ends a session and every process it started. */
  sessionDestroy(params: SessionDestroyParams, options?: CallOptions): Promise<SessionDestroyReply> {
    return this.request("session.destroy", params, options);
  }

  /** `session.fork`: Creates a session with the settings of another one and the state of its shell. */
  sessionFork(params: SessionForkParams, options?: CallOptions): Promise<SessionForkReply> {
    return this.request("session.fork", params, options);
  }

  /** `session.info`: Describes one session. */
  sessionInfo(params: SessionInfoParams, options?: CallOptions): Promise<SessionInfo> {
    return this.request("session.info", params, options);
  }

  /** `session.input`: Types into an attached session. */
  sessionInput(params: SessionInputParams, options?: CallOptions): Promise<SessionInputReply> {
    return this.request("session.input", params, options);
  }

  /** `session.list`: Lists the sessions. */
  sessionList(params: SessionListParams = {}, options?: CallOptions): Promise<SessionListReply> {
    return this.request("session.list", params, options);
  }

  /** `session.rename`: Gives a living session another name. */
  sessionRename(params: SessionRenameParams, options?: CallOptions): Promise<SessionRenameReply> {
    return this.request("session.rename", params, options);
  }

  /** `session.resize`: Changes the size of an attached session's terminal. */
  sessionResize(params: SessionResizeParams, options?: CallOptions): Promise<SessionResizeReply> {
    return this.request("session.resize", params, options);
  }

  /** `session.restart`: Starts a new shell for a session and restores its state. */
  sessionRestart(params: SessionRestartParams, options?: CallOptions): Promise<SessionRestartReply> {
    return this.request("session.restart", params, options);
  }

  /** `system.info`: Describes the daemon: version, methods, shells, limits. */
  systemInfo(params: SystemInfoParams = {}, options?: CallOptions): Promise<SystemInfoReply> {
    return this.request("system.info", params, options);
  }

  /** `system.ping`: Answers at once. */
  systemPing(params: SystemPingParams = {}, options?: CallOptions): Promise<SystemPingReply> {
    return this.request("system.ping", params, options);
  }

  /** `system.runtimes`: Lists where sessions can be created. */
  systemRuntimes(params: SystemRuntimesParams = {}, options?: CallOptions): Promise<SystemRuntimesReply> {
    return this.request("system.runtimes", params, options);
  }

  /** `system.shutdown`: Ends the daemon. */
  systemShutdown(params: SystemShutdownParams = {}, options?: CallOptions): Promise<SystemShutdownReply> {
    return this.request("system.shutdown", params, options);
  }

  /** `system.stats`: Counts sessions, commands and resources. */
  systemStats(params: SystemStatsParams = {}, options?: CallOptions): Promise<SystemStatsReply> {
    return this.request("system.stats", params, options);
  }

}
