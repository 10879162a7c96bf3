// Events of a request as they come, across cut connections and restarted daemons.

import { Patience } from "./attempts.js";
import type { Client } from "./client.js";
import { ConnectionEnded, type DaemonError, LostError } from "./errors.js";
import type { Link } from "./link.js";
import type { CallOptions } from "./methods.js";
import type { Progress } from "./progress.js";
import { type Incoming, requestLine } from "./wire.js";

/**
 * An async iterator over events. `result` has the reply once the iteration is over.
 *
 * The request is sent when the first event is asked for. A stream that is left early does not end what it
 * is about: a command runs on.
 */
export class EventStream<E, R> implements AsyncIterableIterator<E> {
  protected readonly client: Client;
  protected readonly progress: Progress<E, R>;
  /** The params of the first request, once it may have left. */
  protected sent: object | undefined;
  readonly #signal: AbortSignal | undefined;
  #link: Link | undefined;
  #result: { readonly reply: R } | undefined;
  #over = false;
  /** Calls of `next` that are not answered, and the end of the last one. */
  #waiting = 0;
  #last: Promise<void> = Promise.resolve();
  readonly #patience = new Patience();
  #resuming = false;
  #aborting: Promise<void> | undefined;
  /** Carried out when the signal says so: a reader that is busy may ask for the next event much later. */
  readonly #abort = (): void => {
    this.#link?.close();
    this.#aborting ??= this.aborted();
  };

  constructor(client: Client, progress: Progress<E, R>, options: CallOptions = {}) {
    this.client = client;
    this.progress = progress;
    this.#signal = options.signal;
  }

  get result(): R {
    if (this.#result === undefined) throw new Error("the stream has not ended: iterate over it first");
    return this.#result.reply;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** Calls at the same time take turns, as those of a generator do. */
  next(): Promise<IteratorResult<E, undefined>> {
    const next = this.#waiting === 0 ? this.#next() : this.#last.then(() => this.#next());
    this.#waiting += 1;
    const over = (): void => {
      this.#waiting -= 1;
    };
    this.#last = next.then(over, over);
    return next;
  }

  async #next(): Promise<IteratorResult<E, undefined>> {
    if (this.#over) return { done: true, value: undefined };
    try {
      this.#signal?.throwIfAborted();
      const event = await this.advance();
      if (event !== undefined) return { done: false, value: event };
      return { done: true, value: undefined };
    } catch (error) {
      this.#leave();
      if (this.#signal?.aborted === true) {
        await this.#aborting;
        throw this.#signal.reason;
      }
      throw error;
    }
  }

  /** Leaves the stream; `for await` does so by itself. */
  return(): Promise<IteratorResult<E, undefined>> {
    this.#leave();
    return Promise.resolve({ done: true, value: undefined });
  }

  /** Reads what is left and returns the reply. */
  async finish(): Promise<R> {
    while ((await this.next()).done !== true);
    return this.result;
  }

  /** What else ends when the signal ends the stream. */
  protected aborted(): Promise<void> {
    return Promise.resolve();
  }

  /** The next event; `undefined` at the end, with the result in its place. */
  protected async advance(): Promise<E | undefined> {
    for (;;) {
      let incoming: Incoming;
      try {
        this.#link ??= await this.#send();
        incoming = await this.#link.next();
      } catch (error) {
        if (!(error instanceof ConnectionEnded)) throw error;
        this.#signal?.throwIfAborted();
        this.#resume(error.unread);
        continue;
      }
      if (incoming.kind === "event") {
        const event = this.progress.accept(incoming.name, incoming.data);
        if (event === undefined) continue;
        this.#patience.renew();
        return event;
      }
      if (incoming.kind === "done") {
        this.#finish(incoming.data as R);
        return undefined;
      }
      await this.#failed(incoming.error);
    }
  }

  async #send(): Promise<Link> {
    const id = this.client.newId();
    const { method, params } = this.progress;
    const how = { streaming: true, resuming: this.#resuming };
    this.#patience.sent();
    if (this.sent === undefined) {
      this.sent = { ...params };
      this.#signal?.addEventListener("abort", this.#abort, { once: true });
    }
    const link = await this.client.send(id, method, requestLine(id, method, params), how);
    if (this.#signal?.aborted === true) link.close();
    return link;
  }

  #finish(reply: R): void {
    this.#result = { reply };
    if (this.#link !== undefined) this.client.keepLink(this.#link);
    this.#link = undefined;
    this.#leave();
  }

  /** Returns if the stream goes on with the next daemon. */
  async #failed(error: DaemonError): Promise<void> {
    if (error.code !== "SHUTTING_DOWN" || !this.client.mayComeBack) throw error;
    // Its socket still accepts; the end of this connection is the sign that it is gone.
    await this.#link?.closed();
    this.#resume(false);
  }

  #resume(unread: boolean): void {
    this.#drop();
    this.#resuming = true;
    if (!this.#patience.ended(unread) || !this.progress.resume()) throw new LostError(this.progress.method);
  }

  #leave(): void {
    this.#over = true;
    this.#signal?.removeEventListener("abort", this.#abort);
    this.#drop();
  }

  #drop(): void {
    this.#link?.close();
    this.#link = undefined;
  }
}
