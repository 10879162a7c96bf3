// Starts a daemon when there is none.
//
// Clients that race may start several; the daemon has a lock of its own, so one of them listens and the
// others say that it does. The child's stdout says when it listens.

import { spawn } from "node:child_process";

import { NotStartedError } from "./errors.js";
import type { Start } from "./locate.js";

/** A daemon listens within milliseconds; one that waits for another to end takes longer. */
const PATIENCE_MS = 30_000;

/** `undefined` once it listens; else why it refuses, which may be that another one does. */
export async function launch(start: Start): Promise<string | undefined> {
  const see = { help: `${start.log} may say more` };
  const line = await firstLine(start);
  let said: { listening?: unknown; refused?: { message?: unknown } };
  try {
    said = JSON.parse(line) as typeof said;
  } catch {
    throw new NotStartedError("the daemon did not start: it ended at once", see);
  }
  if (said.listening !== undefined) return undefined;
  return String(said.refused?.message ?? line);
}

function firstLine(start: Start): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(start.program, [...start.args], {
      detached: true,
      stdio: ["ignore", "pipe", "ignore"],
      env: start.env as NodeJS.ProcessEnv,
    });
    let line = "";
    const done = (): void => {
      clearTimeout(timer);
      // The daemon outlives this program, which must not wait for it.
      child.stdout.destroy();
      // Deno has nothing to release where no process came to be.
      if (child.pid !== undefined) child.unref();
    };
    const timer = setTimeout(() => {
      done();
      reject(new NotStartedError(`the daemon did not start: it said nothing for ${PATIENCE_MS / 1000} s`));
    }, PATIENCE_MS);
    child.on("error", (error) => {
      done();
      reject(new NotStartedError(`${start.program}: ${error.message}`, { cause: error }));
    });
    child.stdout.setEncoding("utf8");
    child.stdout.on("data", (piece: string) => {
      line += piece;
      if (!line.includes("\n")) return;
      done();
      resolve(line);
    });
    child.stdout.on("end", () => {
      done();
      resolve(line);
    });
  });
}
