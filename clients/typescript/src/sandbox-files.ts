// Files of the sandbox module: what is told of them, and files as streams of server-sent events (`metadata`,
// `chunk`, `complete`).

import { basename, isAbsolute, join } from "node:path";

import type { FileEntry } from "./files.js";
import { parseSSEStream } from "./sandbox-events.js";

/** Bytes of a file in one event. */
const CHUNK = 64 * 1024;

export interface FileMetadata {
  /** `text/plain` or `application/octet-stream`. */
  readonly mimeType: string;
  readonly size: number;
  readonly isBinary: boolean;
  readonly encoding: "utf-8" | "base64";
}

/** A piece of a file: text, or bytes if it is no text. */
export type FileChunk = string | Uint8Array;

export type FileStreamEvent =
  | ({ readonly type: "metadata" } & FileMetadata)
  | { readonly type: "chunk"; readonly data: string }
  | { readonly type: "complete"; readonly bytesRead: number }
  | { readonly type: "error"; readonly error: string };

export function metadataOf(bytes: Buffer): FileMetadata {
  const isBinary = !Buffer.from(bytes.toString("utf8"), "utf8").equals(bytes);
  return {
    mimeType: isBinary ? "application/octet-stream" : "text/plain",
    size: bytes.length,
    isBinary,
    encoding: isBinary ? "base64" : "utf-8",
  };
}

export async function* fileEvents(bytes: Buffer): AsyncGenerator<FileStreamEvent> {
  const metadata = metadataOf(bytes);
  yield { type: "metadata", ...metadata };
  const text = new TextDecoder();
  for (let at = 0; at < bytes.length; at += CHUNK) {
    const piece = bytes.subarray(at, at + CHUNK);
    const data = metadata.isBinary ? piece.toString("base64") : text.decode(piece, { stream: true });
    yield { type: "chunk", data };
  }
  yield { type: "complete", bytesRead: bytes.length };
}

/** The pieces of what `readFileStream` returns, decoded. */
export async function* streamFile(stream: ReadableStream<Uint8Array>): AsyncGenerator<FileChunk, FileMetadata> {
  let metadata: FileMetadata | undefined;
  for await (const event of parseSSEStream<FileStreamEvent>(stream)) {
    if (event.type === "metadata") {
      const { type: _type, ...rest } = event;
      metadata = rest;
    } else if (event.type === "error") throw new Error(event.error);
    else if (metadata === undefined) throw new Error("the stream does not begin with what it is about");
    else if (event.type === "complete") return metadata;
    else yield metadata.isBinary ? new Uint8Array(Buffer.from(event.data, "base64")) : event.data;
  }
  throw new Error("the stream ended before the file did");
}

/** All of what `readFileStream` returns. */
export async function collectFile(
  stream: ReadableStream<Uint8Array>,
): Promise<{ content: string | Uint8Array; metadata: FileMetadata }> {
  const pieces: FileChunk[] = [];
  const chunks = streamFile(stream);
  for (;;) {
    const next = await chunks.next();
    if (next.done !== true) {
      pieces.push(next.value);
      continue;
    }
    const bytes = pieces.filter((piece): piece is Uint8Array => typeof piece !== "string");
    const content = next.value.isBinary ? new Uint8Array(Buffer.concat(bytes)) : pieces.join("");
    return { content, metadata: next.value };
  }
}

export type FileEncoding = "utf-8" | "utf8" | "base64" | "none";

export interface ReadFileResult {
  readonly success: true;
  readonly path: string;
  readonly content: string;
  readonly encoding: "utf-8" | "base64";
  readonly isBinary: boolean;
  readonly mimeType: string;
  readonly size: number;
  readonly timestamp: string;
}

export interface ReadFileStreamResult {
  readonly success: true;
  readonly path: string;
  readonly content: ReadableStream<Uint8Array>;
  readonly size: number;
  readonly mimeType: string;
  readonly timestamp: string;
}

export interface ListFilesOptions {
  readonly recursive?: boolean | undefined;
  readonly includeHidden?: boolean | undefined;
}

export interface FileInfo {
  readonly name: string;
  readonly absolutePath: string;
  readonly relativePath: string;
  readonly type: "file" | "directory" | "symlink" | "other";
  readonly size: number;
  readonly modifiedAt: string;
  readonly mode: string;
  /** What its owner may do with it. */
  readonly permissions: { readonly readable: boolean; readonly writable: boolean; readonly executable: boolean };
}

export interface ListFilesResult {
  readonly success: true;
  readonly path: string;
  readonly files: readonly FileInfo[];
  readonly count: number;
  readonly timestamp: string;
}

export interface Done {
  readonly success: true;
  readonly path: string;
  readonly timestamp: string;
}

export function done(path: string): Done {
  return { success: true, path, timestamp: new Date().toISOString() };
}

export function decoded(content: string, encoding: string | undefined): Uint8Array {
  return Buffer.from(content, encoding === "base64" ? "base64" : "utf8");
}

export function streamed(bytes: Buffer): ReadableStream<Uint8Array> {
  return new Blob([bytes as Uint8Array<ArrayBuffer>]).stream() as ReadableStream<Uint8Array>;
}

export async function collected(stream: ReadableStream<Uint8Array>): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  for await (const piece of stream) pieces.push(piece);
  return Buffer.concat(pieces);
}

export function isHidden(path: string): boolean {
  return path.split("/").some((part) => part.startsWith("."));
}

export function fileInfo(entry: FileEntry, base: string): FileInfo {
  const absolutePath = isAbsolute(entry.path) ? entry.path : join(base, entry.path);
  const kinds: Readonly<Record<string, FileInfo["type"]>> = {
    file: "file",
    dir: "directory",
    directory: "directory",
    symlink: "symlink",
    link: "symlink",
  };
  const owner = parseInt(String(entry.mode), 8) >> 6;
  return {
    name: basename(entry.path),
    absolutePath,
    relativePath: entry.path,
    type: kinds[entry.kind] ?? "other",
    size: entry.bytes,
    modifiedAt: entry.modified_at,
    mode: String(entry.mode),
    permissions: { readable: (owner & 4) > 0, writable: (owner & 2) > 0, executable: (owner & 1) > 0 },
  };
}
