// Files as a session sees them: its directory, its rights, its isolation.

import { TRIES } from "./attempts.js";
import type { Client } from "./client.js";
import { DaemonError, LostError } from "./errors.js";

/** One request or reply holds at most about this much. */
const PIECE = 4 * 1024 * 1024;

export interface FileEntry {
  readonly path: string;
  /** `file`, `directory`, `symlink` or `other`. */
  readonly kind: string;
  readonly bytes: number;
  /** Permissions, as an octal string. */
  readonly mode: string;
  readonly modified_at: string;
  /** Where a symbolic link leads. */
  readonly target?: string | null;
}

export interface WriteOptions {
  /** Adds to the end instead of replacing the file. */
  readonly append?: boolean | undefined;
  /** Permissions, as an octal string such as `0644`. */
  readonly mode?: string | undefined;
  /** Makes missing directories on the way. */
  readonly makeParents?: boolean | undefined;
  /** Writes only if the file now has this content; else `FILE_CONFLICT`. */
  readonly ifSha256?: string | undefined;
}

/** A session's files. Relative paths begin at the session's directory. */
export class Files {
  readonly #client: Client;
  readonly #session: string;

  constructor(client: Client, session: string) {
    this.#client = client;
    this.#session = session;
  }

  #call(method: string, params: object): Promise<unknown> {
    const given = Object.fromEntries(Object.entries(params).filter(([, value]) => value !== undefined));
    return this.#client.call(method, { session_id: this.#session, ...given });
  }

  /** The same for what changes nothing if it is done twice: a daemon may go away in the middle of it. */
  async #callAgain(method: string, params: object): Promise<unknown> {
    for (let left = TRIES - 1; ; left -= 1) {
      try {
        return await this.#call(method, params);
      } catch (error) {
        if (!(error instanceof LostError) || left === 0) throw error;
      }
    }
  }

  /** The text of a file. Bytes that are no UTF-8 become U+FFFD. */
  async read(path: string): Promise<string> {
    return new TextDecoder().decode(await this.readBytes(path));
  }

  async readBytes(path: string): Promise<Uint8Array> {
    const pieces: Buffer[] = [];
    for (let offset = 0; ; ) {
      const reply = (await this.#call("file.read", { path, offset, limit: PIECE, encoding: "base64" })) as {
        base64?: string;
        next_offset: number;
        total_bytes: number;
      };
      pieces.push(Buffer.from(reply.base64 ?? "", "base64"));
      if (reply.next_offset >= reply.total_bytes || reply.next_offset === offset) return Buffer.concat(pieces);
      offset = reply.next_offset;
    }
  }

  /**
   * Replaces a file as a whole: a reader sees the old content or the new one. More than 4 MiB are written in
   * pieces, and a reader may see some of them. Returns how many bytes were written.
   */
  async write(path: string, content: string | Uint8Array, options: WriteOptions = {}): Promise<number> {
    const { append, mode, makeParents, ifSha256 } = options;
    const data = typeof content === "string" ? Buffer.from(content) : Buffer.from(content);
    let written = 0;
    for (let offset = 0; offset === 0 || offset < data.length; offset += PIECE) {
      const piece = data.subarray(offset, offset + PIECE).toString("base64");
      const place = append === true || offset === 0 ? undefined : offset;
      const first = offset > 0 ? {} : { mode, make_parents: makeParents, if_sha256: ifSha256 };
      const params = { path, content: piece, encoding: "base64", append, offset: place, ...first };
      const isOnce = append === true || (offset === 0 && ifSha256 !== undefined);
      const reply = isOnce ? this.#call("file.write", params) : this.#callAgain("file.write", params);
      written += ((await reply) as { bytes: number }).bytes;
    }
    return written;
  }

  /** Replaces text that occurs exactly once, or with `all` everywhere; else `FILE_CONFLICT`. */
  async edit(path: string, before: string, after: string, options: { readonly all?: boolean } = {}): Promise<number> {
    const params = { path, old: before, new: after, all: options.all };
    return ((await this.#call("file.edit", params)) as { replaced: number }).replaced;
  }

  async list(
    path = ".",
    options: { readonly depth?: number; readonly glob?: string } = {},
  ): Promise<readonly FileEntry[]> {
    return ((await this.#call("file.list", { path, ...options })) as { entries: readonly FileEntry[] }).entries;
  }

  async stat(path: string): Promise<FileEntry> {
    return (await this.#call("file.stat", { path })) as FileEntry;
  }

  async exists(path: string): Promise<boolean> {
    try {
      await this.stat(path);
      return true;
    } catch (error) {
      if (error instanceof DaemonError && error.code === "FILE_NOT_FOUND") return false;
      throw error;
    }
  }

  async move(from: string, to: string, options: { readonly overwrite?: boolean } = {}): Promise<void> {
    await this.#call("file.move", { from, to, overwrite: options.overwrite });
  }

  async remove(path: string, options: { readonly recursive?: boolean } = {}): Promise<void> {
    await this.#call("file.remove", { path, recursive: options.recursive });
  }

  async makeDir(path: string, options: { readonly parents?: boolean } = {}): Promise<void> {
    await this.#call("file.make_dir", { path, parents: options.parents });
  }
}
