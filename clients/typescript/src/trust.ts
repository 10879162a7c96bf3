// Whose daemon it is. Asked before anything is sent: a request may carry a whole environment.
//
// JavaScript runtimes do not tell the credentials of a socket's other end. Instead nobody but this user
// and root may be able to put a socket where we look: they own the socket and every directory on the way
// to it, and nobody else may replace what is in one.

import { realpath, stat } from "node:fs/promises";
import { dirname } from "node:path";

import { UntrustedSocketError } from "./errors.js";

const HELP = "choose a directory of your own with TRL_HOME, or name the socket";
const WRITABLE_BY_GROUP = 0o020;
const WRITABLE_BY_ALL = 0o002;
const STICKY = 0o1000;

export async function checkSocket(path: string): Promise<void> {
  const user = process.geteuid?.();
  if (user === undefined) return;
  const found = await there(path);
  if (found !== undefined && found.uid !== user && found.uid !== 0) {
    throw new UntrustedSocketError(`${path} belongs to another user (uid ${found.uid})`, { help: HELP });
  }
  let directory = await realpath(dirname(path)).catch(() => dirname(path));
  for (;;) {
    await checkDirectory(directory, user);
    const above = dirname(directory);
    if (above === directory) return;
    directory = above;
  }
}

async function checkDirectory(directory: string, user: number): Promise<void> {
  const found = await there(directory);
  if (found === undefined) return;
  if (found.uid !== user && found.uid !== 0) {
    throw new UntrustedSocketError(`${directory} belongs to another user (uid ${found.uid})`, { help: HELP });
  }
  // Many systems give each user a group of their own; that one may write.
  const foreignGroup = (found.mode & WRITABLE_BY_GROUP) !== 0 && found.gid !== process.getegid?.();
  if (((found.mode & WRITABLE_BY_ALL) !== 0 || foreignGroup) && (found.mode & STICKY) === 0) {
    throw new UntrustedSocketError(`others may write to ${directory}`, { help: HELP });
  }
}

async function there(path: string): Promise<{ uid: number; gid: number; mode: number } | undefined> {
  try {
    return await stat(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
