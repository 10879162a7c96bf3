// A connection that carries one request at a time: lines over a Unix socket, or HTTP.

import * as http from "node:http";
import * as https from "node:https";
import { type Socket, createConnection } from "node:net";

import { ConnectionEnded, NoDaemonError, NotStartedError } from "./errors.js";
import { type Incoming, LineReader, SseReader, read, unreadable } from "./wire.js";

/** More messages than this are left in the socket until they are asked for: a slow reader slows the daemon. */
const MOST_WAITING = 256;
/** Failures before anything was sent: no connection, or no encryption that is trusted. */
const UNREACHED = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH)$/;
const NO_TLS = /^(EPROTO$|ERR_TLS_|ERR_SSL_|CERT_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_)/;

/** What came, in order, for a reader that may come later. */
class Inbox {
  readonly #arrived: Incoming[] = [];
  #end: Error | undefined;
  #waiting: { resolve: (incoming: Incoming) => void; reject: (error: Error) => void } | undefined;

  push(incoming: Incoming): void {
    const waiting = this.#waiting;
    if (waiting === undefined) this.#arrived.push(incoming);
    else {
      this.#waiting = undefined;
      waiting.resolve(incoming);
    }
  }

  end(error: Error): void {
    this.#end ??= error;
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.reject(this.#end);
  }

  take(): Incoming | Promise<Incoming> {
    const incoming = this.#arrived.shift();
    if (incoming !== undefined) return incoming;
    return new Promise((resolve, reject) => {
      if (this.#end !== undefined) reject(this.#end);
      else this.#waiting = { resolve, reject };
    });
  }

  get length(): number {
    return this.#arrived.length;
  }

  get ended(): boolean {
    return this.#end !== undefined;
  }
}

export abstract class Link {
  protected inbox = new Inbox();
  /** Since when nobody uses it. */
  idleSince = 0;
  #id = "";
  #method = "";

  send(id: string, method: string, line: string, streaming: boolean): void | Promise<void> {
    this.#id = id;
    this.#method = method;
    return this.transmit(line, streaming);
  }

  /** What comes next of the request that was sent. */
  next(): Incoming | Promise<Incoming> {
    const incoming = this.inbox.take();
    this.taken();
    return incoming;
  }

  /** A message came. One that cannot be read is the end of the connection. */
  protected arrived(line: string, inbox: Inbox): void {
    try {
      const incoming = read(line, this.#id, this.#method);
      if (incoming !== undefined) inbox.push(incoming);
    } catch (error) {
      inbox.end(error as Error);
    }
  }

  /** Waits until the daemon has closed the connection, if it does so. */
  abstract closed(): Promise<void>;
  /** Whether another request can be sent. */
  abstract get reusable(): boolean;
  /** A connection that nobody uses does not keep the program running. */
  abstract hold(busy: boolean): void;
  abstract close(): void;

  protected abstract transmit(line: string, streaming: boolean): void | Promise<void>;
  protected taken(): void {}
}

export class SocketLink extends Link {
  readonly #socket: Socket;
  readonly #reader = new LineReader();
  #paused = false;

  private constructor(socket: Socket) {
    super();
    this.#socket = socket;
    socket.on("data", (data: Buffer) => {
      for (const line of this.#reader.feed(data)) this.arrived(line, this.inbox);
      if (this.inbox.length > MOST_WAITING && !this.#paused) {
        this.#paused = true;
        socket.pause();
      }
    });
    socket.on("end", () => this.inbox.end(new ConnectionEnded(false)));
    socket.on("close", () => this.inbox.end(new ConnectionEnded(false)));
    // Linux resets a socket that is closed with bytes unread in it. There is one request at a time, so
    // these were ours: the daemon has not had it whole. EPIPE: it has had nothing of it.
    socket.on("error", (error: NodeJS.ErrnoException) => {
      this.inbox.end(new ConnectionEnded(error.code === "ECONNRESET" || error.code === "EPIPE"));
    });
  }

  static open(path: string): Promise<SocketLink> {
    return new Promise((resolve, reject) => {
      const socket = createConnection({ path });
      const failed = (error: NodeJS.ErrnoException): void => {
        reject(
          new NoDaemonError(`no daemon listens at ${path} (${error.code ?? error.message})`, {
            help: "start one with `trl serve`",
            cause: error,
          }),
        );
      };
      socket.once("error", failed);
      socket.once("connect", () => {
        socket.off("error", failed);
        resolve(new SocketLink(socket));
      });
    });
  }

  protected override transmit(line: string): void {
    this.#socket.write(line);
  }

  protected override taken(): void {
    if (this.#paused && this.inbox.length < MOST_WAITING / 2) {
      this.#paused = false;
      this.#socket.resume();
    }
  }

  override async closed(): Promise<void> {
    try {
      for (;;) await this.inbox.take();
    } catch {
      this.close();
    }
  }

  override get reusable(): boolean {
    return !this.inbox.ended && this.inbox.length === 0 && !this.#socket.destroyed;
  }

  override hold(busy: boolean): void {
    if (busy) this.#socket.ref();
    else this.#socket.unref();
  }

  override close(): void {
    this.#socket.destroy();
  }
}

export interface HttpOptions {
  readonly url: URL;
  readonly token: string | undefined;
  /** Certificates (PEM) that the daemon's is checked against; default the system's. */
  readonly ca: string | Buffer | undefined;
  readonly agent: http.Agent;
}

/** One POST for each request; a streaming one is answered with server-sent events. */
export class HttpLink extends Link {
  readonly #options: HttpOptions;
  #request: http.ClientRequest | undefined;

  constructor(options: HttpOptions) {
    super();
    this.#options = options;
  }

  protected override transmit(line: string, streaming: boolean): Promise<void> {
    const { url, token, ca, agent } = this.#options;
    this.inbox = new Inbox();
    return new Promise((resolve, reject) => {
      const request = (url.protocol === "https:" ? https : http).request(url, {
        method: "POST",
        agent,
        ...(ca === undefined ? {} : { ca }),
        headers: {
          "Content-Type": "application/json",
          "Content-Length": Buffer.byteLength(line),
          Accept: streaming ? "text/event-stream" : "application/json",
          ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }),
        },
      });
      this.#request = request;
      request.on("error", (error: NodeJS.ErrnoException) => {
        if (UNREACHED.test(error.code ?? "") || error.syscall === "connect") {
          reject(new NoDaemonError(`cannot connect to ${url.host}: ${error.message}`, { cause: error }));
        } else if (NO_TLS.test(error.code ?? "")) {
          this.inbox.end(new NotStartedError(`no TLS with ${url.host}: ${error.message}`, { cause: error }));
        }
        // Over TCP a reset proves nothing.
        this.inbox.end(new ConnectionEnded(false));
        resolve();
      });
      request.on("response", (response) => this.#receive(response));
      request.on("finish", resolve);
      request.end(line);
    });
  }

  #receive(response: http.IncomingMessage): void {
    const inbox = this.inbox;
    const isStream = response.headers["content-type"]?.startsWith("text/event-stream") === true;
    const events = new SseReader();
    const body: Buffer[] = [];
    response.on("data", (piece: Buffer) => {
      if (isStream) for (const data of events.feed(piece)) this.arrived(data, inbox);
      else body.push(piece);
    });
    response.on("end", () => {
      const text = Buffer.concat(body).toString("utf8").trim();
      if (text.startsWith("{")) this.arrived(text, inbox);
      else if (!isStream) inbox.end(unreadable("HTTP", `status ${response.statusCode ?? 0} with ${text}`));
      inbox.end(new ConnectionEnded(false));
    });
    response.on("error", () => inbox.end(new ConnectionEnded(false)));
    response.on("close", () => inbox.end(new ConnectionEnded(false)));
  }

  override closed(): Promise<void> {
    this.close();
    return Promise.resolve();
  }

  /** The agent keeps the connections. */
  override get reusable(): boolean {
    return false;
  }

  override hold(): void {}

  override close(): void {
    this.#request?.destroy();
    this.inbox.end(new ConnectionEnded(false));
  }
}
