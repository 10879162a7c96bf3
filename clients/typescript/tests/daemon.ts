// A daemon of each test's own, in a directory of its own.

import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createConnection, createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";

import { Client, type ClientOptions } from "../src/index.js";

export const PACKAGE = join(dirname(fileURLToPath(import.meta.url)), "../..");
export const ROOT = join(PACKAGE, "../..");
export const TRL = process.env["TRL_PROGRAM"] ?? join(ROOT, "target/debug/trl");
export const TOKEN = "a-token-for-tests";
/** Longer than anything takes that works. */
export const GUARD_MS = 30_000;

/** Where one test's daemon lives. It is started by whoever asks first. */
export class Home {
  readonly path = mkdtempSync(join(tmpdir(), "trl-ts-"));
  readonly work = join(this.path, "work");
  readonly env: Record<string, string>;
  readonly client: Client;

  constructor() {
    mkdirSync(this.work);
    const kept = ["PATH", "LANG", "HOME", "USER", "SHELL"].map((name) => [name, process.env[name]]);
    const env = Object.fromEntries(kept.filter(([, value]) => value !== undefined)) as Record<string, string>;
    this.env = { ...env, TRL_HOME: join(this.path, "home"), TRL_EXIT_IDLE_SEC: "60" };
    this.client = this.another();
  }

  another(options: ClientOptions = {}): Client {
    return new Client({ program: TRL, env: this.env, ...options });
  }

  /** The daemon's, asked over a connection of its own. There is one afterwards. */
  async pid(): Promise<number> {
    const client = this.another();
    const { pid } = await client.systemInfo();
    client.close();
    return pid;
  }

  /** Ends the daemon as a crash would, and waits until it is gone. */
  async kill(known?: number): Promise<void> {
    const pid = known ?? (await this.pid());
    process.kill(pid, "SIGKILL");
    await until("the daemon is gone", () => !runs(pid));
  }

  lines(name: string): string[] {
    const file = join(this.work, name);
    return existsSync(file) ? readFileSync(file, "utf8").split("\n").slice(0, -1) : [];
  }

  async end(): Promise<void> {
    this.client.close();
    const client = this.another();
    const { pid } = await client.systemShutdown();
    client.close();
    await until("the daemon is gone", () => !runs(pid));
    rmSync(this.path, { recursive: true });
  }
}

/** A daemon with HTTP, started and ended by the test itself. */
export class Served {
  readonly url: string;
  readonly #home: Home;
  readonly #port: number;
  #child: ReturnType<typeof spawn> | undefined;

  private constructor(home: Home, port: number) {
    this.#home = home;
    this.#port = port;
    this.url = `http://127.0.0.1:${port}`;
  }

  static async start(home: Home): Promise<Served> {
    const served = new Served(home, await freePort());
    await served.start();
    return served;
  }

  async start(): Promise<void> {
    const env = { ...this.#home.env, TRL_AUTH_TOKEN: TOKEN };
    this.#child = spawn(TRL, ["serve", "--http", `127.0.0.1:${this.#port}`], { env, stdio: "ignore" });
    await until("the daemon listens", () => listens(this.#port));
  }

  async kill(): Promise<void> {
    const child = this.#child;
    if (child === undefined) return;
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await gone;
  }
}

export function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer();
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0));
    });
  });
}

function listens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createConnection(port, "127.0.0.1");
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}

/** Whether the process is there and no zombie. */
export function runs(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/stat`, "utf8").replace(/^.*\) /s, "")[0] !== "Z";
  } catch {
    return false;
  }
}

/** For what has no event that a test could wait for: another process's doing. */
export async function until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + GUARD_MS;
  while (!(await holds())) {
    if (performance.now() > deadline) throw new Error(`not within ${GUARD_MS / 1000} s: ${what}`);
    await pause(5);
  }
}

/** Runs `work` with a daemon of its own. */
export function withHome(work: (home: Home) => Promise<void>): () => Promise<void> {
  return async () => {
    const home = new Home();
    try {
      await work(home);
    } finally {
      await home.end();
    }
  };
}
