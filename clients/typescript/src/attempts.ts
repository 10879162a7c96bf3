// Decides whether a request may be sent again. No I/O.
//
// Three things make that safe: the method only reads; the request carries an id by which the daemon
// knows a repetition; or the daemon has not had the request whole.

import { type DaemonError, LostError } from "./errors.js";
import { ID_PARAMS, REPEATABLE, WAITS } from "./protocol.js";
import { type Params, requestLine } from "./wire.js";

/**
 * A daemon that is being replaced costs one or two. Node has no file locks, so several callers may each start a
 * daemon; a connection to one that loses that race ends at once and costs another.
 */
export const TRIES = 10;

export class Attempts {
  readonly id: string;
  readonly method: string;
  readonly #params: Params;
  readonly #repeatable: boolean;
  readonly #began = performance.now();
  #left = TRIES;

  constructor(id: string, method: string, params: object) {
    this.id = id;
    this.method = method;
    const param = ID_PARAMS[method];
    const given = params as Params;
    this.#params = param !== undefined && given[param] === undefined ? { ...given, [param]: id } : given;
    this.#repeatable = param !== undefined || REPEATABLE.has(method);
  }

  /** The request as it is sent now: what is left of its time gets shorter with each try. */
  line(): string {
    const wait = WAITS[this.method];
    const patience = wait === undefined ? undefined : this.#params[wait];
    if (wait === undefined || typeof patience !== "number" || patience === 0 || this.#left === TRIES) {
      return requestLine(this.id, this.method, this.#params);
    }
    // Not 0, which is for ever.
    const left = Math.max(patience - (performance.now() - this.#began) / 1000, 0.001);
    return requestLine(this.id, this.method, { ...this.#params, [wait]: left });
  }

  /** The connection ended. Returns if the request may be sent again. */
  ended(unread: boolean): void {
    this.#left -= 1;
    if (this.#left === 0 || !(unread || this.#repeatable)) throw new LostError(this.method);
  }

  /** The daemon answered with an error. Returns if the next daemon may do better. */
  refused(error: DaemonError, mayComeBack: boolean): void {
    this.#left -= 1;
    if (error.code !== "SHUTTING_DOWN" || !mayComeBack || this.#left === 0) throw error;
  }
}
