// Whose daemon it is. Asked before anything is sent: a request may carry a whole environment.
//
// JavaScript runtimes do not tell the credentials of a socket's other end. Instead nobody but this user
// and root may be able to put a socket where we look: they own the socket, every directory and every link
// on the way to it, and nobody else may replace what is in a directory.

import { readFileSync, realpathSync } from "node:fs";
import { lstat, readFile, readlink } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";

import { UntrustedSocketError } from "./errors.js";

const HELP = "choose a directory of your own with XDG_RUNTIME_DIR or TRL_HOME";
const WRITABLE_BY_OTHERS = 0o022;
const STICKY = 0o1000;
/** As many as the kernel follows. */
const MAX_LINKS = 40;

/** What does not exist yet is no reason to fail. */
export async function checkSocket(path: string): Promise<void> {
  const user = process.geteuid?.();
  if (user === undefined) return;
  let at = "/";
  const ahead = ["", ...parts(resolve(path))].reverse();
  for (let links = 0; ahead.length > 0; ) {
    const name = ahead.pop() ?? "";
    if (name === "..") {
      at = dirname(at);
      continue;
    }
    const next = join(at, name);
    const found = await lstat(next).catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return undefined;
      throw error;
    });
    if (found === undefined) return;
    checkEntry(next, found.uid, found.mode, found.isDirectory(), user);
    if (!found.isSymbolicLink()) {
      at = next;
      continue;
    }
    links += 1;
    if (links > MAX_LINKS) throw new UntrustedSocketError(`${path}: too many symbolic links`);
    const target = await readlink(next);
    if (target.startsWith("/")) at = "/";
    ahead.push(...parts(target).reverse());
  }
}

function parts(path: string): string[] {
  return path.split("/").filter((part) => part !== "" && part !== ".");
}

function checkEntry(path: string, uid: number, mode: number, isDirectory: boolean, user: number): void {
  if (uid !== user && uid !== 0 && !(isDirectory && isUnmapped(uid))) {
    throw new UntrustedSocketError(`${path} belongs to another user (uid ${uid})`, { help: HELP });
  }
  if (isDirectory && (mode & WRITABLE_BY_OTHERS) !== 0 && (mode & STICKY) === 0) {
    const shown = (mode & 0o7777).toString(8).padStart(4, "0");
    throw new UntrustedSocketError(`${path} can be written by other users (mode ${shown})`, {
      help: `\`chmod go-w ${path}\` closes it; or ${HELP}`,
    });
  }
}

/** In a user namespace, directories of users outside of it have a number that nobody is. */
function isUnmapped(uid: number): boolean {
  try {
    const lines = readFileSync("/proc/self/uid_map", "utf8").trim().split("\n");
    const isMapped = (line: string): boolean => {
      const [first = 0, , count = 0] = line.trim().split(/\s+/).map(Number);
      return uid >= first && uid < first + count;
    };
    const isOverflow = uid === Number(readFileSync("/proc/sys/kernel/overflowuid", "utf8"));
    return isOverflow && !lines.some(isMapped);
  } catch {
    return false;
  }
}

/**
 * Without a runtime directory of its own, every process of a user finds the same socket. A daemon that was
 * started for another home has left a mark beside it.
 */
export async function checkHome(path: string, ours: string): Promise<void> {
  const theirs = await readFile(join(dirname(path), "state-dir"), "utf8").catch(() => undefined);
  if (theirs === undefined || real(theirs) === real(ours)) return;
  throw new UntrustedSocketError(
    `the daemon at ${path} was started for another home: its state is in ${theirs}, not in ${ours}`,
    { help: `${HELP}, or name the socket to use that daemon` },
  );
}

function real(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}
