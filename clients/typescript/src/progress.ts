// How far a stream has come, and how to go on with it over a new connection. No I/O.
//
// A stream that is cut goes on from where it was: no byte is missed, none comes twice.

import type {
  ChangeEvent,
  GapEvent,
  MailEvent,
  MissedEvent,
  QueuedEvent,
  StartedEvent,
  SubscribedEvent,
  WaitingEvent,
} from "./protocol.js";
import type { Params } from "./wire.js";

export type StreamName = "stdout" | "stderr";

/** Bytes that a command wrote. `offset` counts from the first byte of its stream. */
export interface Output {
  readonly type: StreamName;
  readonly data: Uint8Array;
  readonly offset: number;
  /** The data as text. A character that is cut in two arrives with its second half. */
  readonly text: string;
}

export type CommandEvent =
  | Output
  | ({ readonly type: "queued" } & QueuedEvent)
  | ({ readonly type: "started" } & StartedEvent)
  | ({ readonly type: "gap" } & GapEvent)
  | ({ readonly type: "waiting" } & WaitingEvent);

export type ChangesEvent =
  | ({ readonly type: "change" } & ChangeEvent)
  | ({ readonly type: "missed" } & MissedEvent)
  | ({ readonly type: "subscribed" } & SubscribedEvent);

/** What a stream has told so far. Subclasses say what its events are and how it is resumed. */
export abstract class Progress<E, R> {
  method: string;
  params: Params;
  /** Keeps the type of the reply. */
  declare readonly reply: R;

  constructor(method: string, params: object) {
    this.method = method;
    this.params = params as Params;
  }

  /** The event; `undefined` for one that came before, or that this version does not know. */
  abstract accept(name: string, data: Params): E | undefined;

  /** Makes `method` and `params` those of the request that goes on. False: it cannot go on. */
  resume(): boolean {
    return false;
  }
}

/** A stream that is told as it comes and ends with its connection. */
export class RawProgress<R> extends Progress<[string, unknown], R> {
  accept(name: string, data: Params): [string, unknown] {
    return [name, data];
  }
}

/** A command, from `exec.stream` or `exec.attach`. */
export class CommandProgress<R> extends Progress<CommandEvent, R> {
  execId: string | undefined;
  readonly #heard: Record<StreamName, number>;
  readonly #texts = { stdout: new TextDecoder(), stderr: new TextDecoder() };
  #started = false;

  constructor(method: string, params: object) {
    super(method, { ...params, encoding: "base64" });
    const given = params as { exec_id?: string; stdout_offset?: number; stderr_offset?: number };
    this.execId = given.exec_id;
    this.#heard = { stdout: given.stdout_offset ?? 0, stderr: given.stderr_offset ?? 0 };
  }

  accept(name: string, data: Params): CommandEvent | undefined {
    switch (name) {
      case "stdout":
      case "stderr":
        return this.#output(name, data as unknown as { base64?: string; text?: string; offset: number });
      case "started": {
        const started = data as unknown as StartedEvent;
        this.execId = started.exec_id;
        if (this.#started) return undefined;
        this.#started = true;
        return { type: "started", ...started };
      }
      case "queued": {
        const queued = data as unknown as QueuedEvent;
        const repeated = this.execId !== undefined;
        this.execId = queued.exec_id;
        return repeated ? undefined : { type: "queued", ...queued };
      }
      case "gap": {
        const gap = data as unknown as GapEvent;
        this.#heard[gap.stream] = Math.max(this.#heard[gap.stream], gap.to);
        return { type: "gap", ...gap };
      }
      case "waiting":
        return { type: "waiting", ...(data as unknown as WaitingEvent) };
      default:
        return undefined;
    }
  }

  #output(stream: StreamName, data: { base64?: string; text?: string; offset: number }): Output | undefined {
    const whole = data.base64 === undefined ? Buffer.from(data.text ?? "") : Buffer.from(data.base64, "base64");
    const known = Math.max(0, this.#heard[stream] - data.offset);
    if (known >= whole.length) return undefined;
    const piece = whole.subarray(known);
    const offset = data.offset + known;
    this.#heard[stream] = offset + piece.length;
    return { type: stream, data: piece, offset, text: this.#texts[stream].decode(piece, { stream: true }) };
  }

  /** A command of which nothing was heard is sent again under its `run_id`, so it runs once. */
  override resume(): boolean {
    if (this.execId !== undefined) {
      this.method = "exec.attach";
      this.params = {
        exec_id: this.execId,
        stdout_offset: this.#heard.stdout,
        stderr_offset: this.#heard.stderr,
        encoding: "base64",
      };
    }
    return true;
  }
}

/** A session as a person sees it. A new connection begins with the whole screen. */
export class TerminalProgress<R> extends Progress<Output, R> {
  #text = new TextDecoder();

  accept(name: string, data: Params): Output | undefined {
    if (name !== "stdout") return undefined;
    const { base64, text, offset } = data as { base64?: string; text?: string; offset: number };
    const piece = base64 === undefined ? Buffer.from(text ?? "") : Buffer.from(base64, "base64");
    return { type: "stdout", data: piece, offset, text: this.#text.decode(piece, { stream: true }) };
  }

  override resume(): boolean {
    // The host knows the size of the terminal, and perhaps a later one than ours.
    const { rows: _rows, cols: _cols, ...kept } = this.params;
    this.params = kept["read_only"] === true ? kept : { ...kept, take_over: true };
    this.#text = new TextDecoder();
    return true;
  }
}

/** Changes by number: a new connection begins with the first that was not heard. */
export class ChangeProgress<R> extends Progress<ChangesEvent, R> {
  accept(name: string, data: Params): ChangesEvent | undefined {
    const from = this.params["from"] as number | undefined;
    switch (name) {
      case "change": {
        const change = data as unknown as ChangeEvent;
        if (from !== undefined && change.seq < from) return undefined;
        this.#next(change.seq + 1);
        return { type: "change", ...change };
      }
      case "missed": {
        const missed = data as unknown as MissedEvent;
        this.#next(missed.to);
        return { type: "missed", ...missed };
      }
      case "subscribed": {
        const subscribed = data as unknown as SubscribedEvent;
        if (from !== undefined) return undefined;
        this.#next(subscribed.next);
        return { type: "subscribed", ...subscribed };
      }
      default:
        return undefined;
    }
  }

  #next(number: number): void {
    this.params = { ...this.params, from: number };
  }

  override resume(): boolean {
    return true;
  }
}

/** What waits in an inbox. A new connection tells it anew, if the request says who asks. */
export class MailProgress<R> extends Progress<MailEvent, R> {
  accept(name: string, data: Params): MailEvent | undefined {
    return name === "mail" ? (data as unknown as MailEvent) : undefined;
  }

  override resume(): boolean {
    return this.params["as"] !== undefined;
  }
}
