// Decides whether a request may be sent again. No I/O.
//
// Three things make that safe: the method only reads; the request carries an id by which the daemon
// knows a repetition; or the daemon has not had the request whole.

import { type DaemonError, LostError } from "./errors.js";
import { ID_PARAMS, REPEATABLE, WAITS } from "./protocol.js";
import { type Params, requestLine } from "./wire.js";

/** Daemons that may go away with one request before it is given up. */
export const TRIES = 4;
/**
 * A daemon that is killed closes its connections first and its socket a moment later: whoever asks again at once
 * may reach it once more. What nobody has read costs no try. This many are a peer that closes them all.
 */
export const UNREAD = 32;
/** A daemon that had a request for this long did not fall over it: a command may outlive any number of them. */
const LIVED_MS = 5000;

const monotonic = (): number => performance.now();

/** How often a request that loses its connection is tried again. */
export class Patience {
  readonly #now: () => number;
  #left = TRIES;
  #unread = UNREAD;
  #sent = Infinity;

  constructor(now: () => number = monotonic) {
    this.#now = now;
  }

  /** The daemon did something with it. */
  renew(): void {
    this.#left = TRIES;
    this.#unread = UNREAD;
  }

  sent(): void {
    this.#sent = this.#now();
  }

  /** The connection ended. False: that was the last. */
  ended(unread: boolean): boolean {
    if (this.#now() - this.#sent >= LIVED_MS) this.renew();
    if (unread) this.#unread -= 1;
    else this.#left -= 1;
    return this.#left > 0 && this.#unread > 0;
  }
}

export class Attempts {
  readonly id: string;
  readonly method: string;
  readonly #params: Params;
  readonly #repeatable: boolean;
  readonly #began: number;
  readonly #patience = new Patience();
  #again = false;

  constructor(id: string, method: string, params: object) {
    this.id = id;
    this.method = method;
    const param = ID_PARAMS[method];
    const given = params as Params;
    this.#params = param !== undefined && given[param] === undefined ? { ...given, [param]: id } : given;
    this.#repeatable = param !== undefined || REPEATABLE.has(method);
    this.#began = WAITS[method] === undefined ? 0 : performance.now();
  }

  /** The request as it is sent now: what is left of its time gets shorter with each try. */
  line(): string {
    this.#patience.sent();
    const wait = WAITS[this.method];
    const patience = wait === undefined ? undefined : this.#params[wait];
    if (wait === undefined || typeof patience !== "number" || patience === 0 || !this.#again) {
      return requestLine(this.id, this.method, this.#params);
    }
    // Not 0, which is for ever.
    const left = Math.max(patience - (performance.now() - this.#began) / 1000, 0.001);
    return requestLine(this.id, this.method, { ...this.#params, [wait]: left });
  }

  /** The connection ended. Returns if the request may be sent again. */
  ended(unread: boolean): void {
    this.#again = true;
    if (!this.#patience.ended(unread) || !(unread || this.#repeatable)) throw new LostError(this.method);
  }

  /** The daemon answered with an error. Returns if the next daemon may do better. */
  refused(error: DaemonError, mayComeBack: boolean): void {
    this.#again = true;
    const mayTry = this.#patience.ended(false);
    if (error.code !== "SHUTTING_DOWN" || !mayComeBack || !mayTry) throw error;
  }
}
