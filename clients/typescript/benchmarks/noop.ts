// What the client adds to a request: a no-op through it, and over the raw socket.
//
//     node build/benchmarks/noop.js [--check]
//
// Both take turns in one run, so what the machine does meanwhile hits both. The figure is the ratio of
// their medians. `--check` fails above 1.5.

import { mkdtempSync, rmSync } from "node:fs";
import { type Socket, createConnection } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Client, Session } from "../src/index.js";

const LIMIT = 1.5;
const ROUNDS = 20;
/** Few enough that what a session keeps of earlier commands plays no part. */
const PER_ROUND = 10;

/** The least that a program can do: a line out, a line in. */
class Raw {
  readonly #socket: Socket;
  #text = "";
  #waiting: ((line: string) => void) | undefined;

  constructor(path: string) {
    this.#socket = createConnection(path);
    this.#socket.setEncoding("utf8");
    this.#socket.on("data", (piece: string) => {
      this.#text += piece;
      const end = this.#text.indexOf("\n");
      if (end < 0) return;
      const line = this.#text.slice(0, end);
      this.#text = this.#text.slice(end + 1);
      this.#waiting?.(line);
    });
  }

  async call(method: string, params: object): Promise<unknown> {
    const line = new Promise<string>((resolve) => (this.#waiting = resolve));
    this.#socket.write(`${JSON.stringify({ id: 1, method, params })}\n`);
    return (JSON.parse(await line) as { data: unknown }).data;
  }

  close(): void {
    this.#socket.destroy();
  }
}

function median(times: number[]): number {
  return times.sort((a, b) => a - b)[Math.floor(times.length / 2)] ?? 0;
}

async function ratio(what: string, ours: () => Promise<unknown>, raw: () => Promise<unknown>): Promise<number> {
  const times = { ours: [] as number[], raw: [] as number[] };
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const side of round % 2 === 0 ? (["ours", "raw"] as const) : (["raw", "ours"] as const)) {
      const call = side === "ours" ? ours : raw;
      for (let number = 0; number < PER_ROUND; number += 1) {
        const began = performance.now();
        await call();
        times[side].push((performance.now() - began) * 1000);
      }
    }
  }
  const [mine, other] = [median(times.ours), median(times.raw)];
  const told = `client ${mine.toFixed(0).padStart(7)} µs   raw ${other.toFixed(0).padStart(7)} µs`;
  console.log(`${what.padEnd(16)} ${told}   ratio ${(mine / other).toFixed(2)}`);
  return mine / other;
}

const home = mkdtempSync(join(tmpdir(), "trl-bench-"));
const env = { ...process.env, TRL_HOME: home, TRL_EXIT_IDLE_SEC: "60" };
const client = new Client({ program: process.env["TRL_PROGRAM"], env });
const ratios: number[] = [];
try {
  await Session.with({ client, shell: "bash" }, async (session) => {
    const raw = new Raw(join(home, "run/trl.sock"));
    const params = { session_id: session.id, command: ":" };
    ratios.push(await ratio("system.ping", () => client.systemPing(), () => raw.call("system.ping", {})));
    ratios.push(await ratio("exec.run ':'", () => session.run(":"), () => raw.call("exec.run", params)));
    raw.close();
  });
} finally {
  await client.systemShutdown();
  client.close();
  rmSync(home, { recursive: true, force: true, maxRetries: 5 });
}
const worst = Math.max(...ratios);
console.log(`worst ratio ${worst.toFixed(2)}, limit ${LIMIT}`);
if (process.argv.includes("--check") && worst > LIMIT) process.exitCode = 1;
