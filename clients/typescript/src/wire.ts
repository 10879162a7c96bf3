// The line protocol without its I/O. A connection carries one request at a time, so what comes belongs to it.

import { DaemonError, UnreadableError } from "./errors.js";

export type Params = Record<string, unknown>;

export type Incoming =
  | { readonly kind: "event"; readonly name: string; readonly data: Params }
  | { readonly kind: "done"; readonly data: unknown }
  | { readonly kind: "failed"; readonly error: DaemonError };

export function requestLine(id: string, method: string, params: object): string {
  return `${JSON.stringify({ id, method, params })}\n`;
}

interface Message {
  id?: unknown;
  ok?: unknown;
  event?: unknown;
  data?: unknown;
  error?: { code?: unknown; message?: unknown; details?: unknown };
}

/** `undefined` for what belongs to no request of ours. */
export function read(line: string, id: string, method: string): Incoming | undefined {
  const message = parsed(line, method);
  const { error } = message;
  if (message.id !== id && !(message.id === null && error !== undefined)) return undefined;
  if (typeof message.event === "string") {
    return { kind: "event", name: message.event, data: message.data as Params };
  }
  if (message.ok === true) return { kind: "done", data: message.data };
  if (error === undefined) throw unreadable(method, line);
  return { kind: "failed", error: new DaemonError(String(error.code), String(error.message), error.details) };
}

function parsed(line: string, method: string): Message {
  let message: unknown;
  try {
    message = JSON.parse(line);
  } catch {
    throw unreadable(method, line);
  }
  if (typeof message !== "object" || message === null || !("id" in message)) throw unreadable(method, line);
  return message;
}

export function unreadable(method: string, what: string): UnreadableError {
  return new UnreadableError(`the answer to ${method} cannot be read: ${what.slice(0, 200)}`, {
    help: "client and daemon may be of different versions",
  });
}

/** Bytes to lines, wherever the bytes are cut. */
export class LineReader {
  #pieces: Buffer[] = [];

  /** The lines that are whole now. */
  feed(data: Buffer): string[] {
    // As it is nearly always: whole lines and nothing else.
    if (this.#pieces.length === 0 && data[data.length - 1] === 10) {
      return data.toString("utf8", 0, data.length - 1).split("\n");
    }
    let end = data.indexOf(10);
    if (end < 0) {
      this.#pieces.push(data);
      return [];
    }
    const lines: string[] = [];
    let begin = 0;
    while (end >= 0) {
      const isWhole = this.#pieces.length === 0;
      lines.push(isWhole ? data.toString("utf8", begin, end) : this.#joined(data.subarray(begin, end)));
      begin = end + 1;
      end = data.indexOf(10, begin);
    }
    if (begin < data.length) this.#pieces.push(data.subarray(begin));
    return lines;
  }

  #joined(last: Buffer): string {
    const whole = Buffer.concat([...this.#pieces, last]).toString("utf8");
    this.#pieces = [];
    return whole;
  }
}

/** Server-sent events: the data of each, in order. The data carries the event's name itself. */
export class SseReader {
  readonly #lines = new LineReader();
  #data: string[] = [];

  feed(piece: Buffer): string[] {
    const found: string[] = [];
    for (const raw of this.#lines.feed(piece)) {
      const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
      if (line.startsWith("data:")) this.#data.push(line.slice(line[5] === " " ? 6 : 5));
      else if (line === "" && this.#data.length > 0) {
        found.push(this.#data.join("\n"));
        this.#data = [];
      }
    }
    return found;
  }
}
