// Streams of the sandbox module: server-sent events in a ReadableStream, as the other SDK has them.

import type { CommandStream } from "./command.js";

export interface ExecEvent {
  readonly type: "start" | "stdout" | "stderr" | "complete" | "error";
  readonly timestamp: string;
  readonly data?: string;
  readonly command?: string;
  readonly exitCode?: number;
  readonly error?: string;
  readonly sessionId?: string;
  /** With `start`, where it is known. */
  readonly pid?: number;
}

export interface LogEvent {
  readonly type: "stdout" | "stderr" | "exit" | "error";
  readonly timestamp: string;
  readonly data: string;
  readonly processId: string;
  readonly exitCode?: number;
}

const timestamp = (): string => new Date().toISOString();

/** The exit status, as a number: 128 and more where a signal or nobody knows. */
export function exitNumber(exitCode: number | null | undefined): number {
  return exitCode ?? 255;
}

export async function* execEvents(stream: CommandStream, command: string, sessionId: string): AsyncGenerator<ExecEvent> {
  try {
    for await (const event of stream) {
      if (event.type === "started") {
        const pid = typeof event.pid === "number" ? { pid: event.pid } : {};
        yield { type: "start", timestamp: timestamp(), command, sessionId, ...pid };
      } else if (event.type === "stdout" || event.type === "stderr") {
        yield { type: event.type, timestamp: timestamp(), data: event.text, sessionId };
      }
    }
    const exitCode = exitNumber(stream.outcome.exitCode);
    yield { type: "complete", timestamp: timestamp(), exitCode, sessionId };
  } catch (error) {
    yield { type: "error", timestamp: timestamp(), error: String(error), sessionId };
  }
}

export async function* logEvents(stream: CommandStream, processId: string): AsyncGenerator<LogEvent> {
  try {
    for await (const output of stream.output()) {
      yield { type: output.type, timestamp: timestamp(), data: output.text, processId };
    }
    const exitCode = exitNumber(stream.outcome.exitCode);
    yield { type: "exit", timestamp: timestamp(), data: "", processId, exitCode };
  } catch (error) {
    yield { type: "error", timestamp: timestamp(), data: String(error), processId };
  }
}

/** Events as server-sent events. A reader that cancels leaves the stream. */
export function sseStream(events: AsyncIterable<unknown>): ReadableStream<Uint8Array> {
  return asyncIterableToSSEStream(events);
}

/** The events of such a stream. */
export async function* parseSSEStream<T>(stream: ReadableStream<Uint8Array>, signal?: AbortSignal): AsyncGenerator<T> {
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      signal?.throwIfAborted();
      const { done, value } = await reader.read();
      if (done) return;
      const parts = (rest + decoder.decode(value, { stream: true })).split("\n\n");
      rest = parts.pop() ?? "";
      for (const part of parts) {
        const data = part.split("\n").filter((line) => line.startsWith("data:"));
        if (data.length > 0) yield JSON.parse(data.map((line) => line.slice(5).trimStart()).join("\n")) as T;
      }
    }
  } finally {
    await reader.cancel();
  }
}

/** The events of a response with such a stream. */
export async function* responseToAsyncIterable<T>(response: Response, signal?: AbortSignal): AsyncGenerator<T> {
  if (!response.ok) throw new Error(`the response failed: ${response.status} ${response.statusText}`);
  if (response.body === null) throw new Error("the response has no body");
  yield* parseSSEStream<T>(response.body as ReadableStream<Uint8Array>, signal);
}

/** Anything that can be iterated over, as such a stream. */
export function asyncIterableToSSEStream<T>(
  events: AsyncIterable<T>,
  options: { readonly signal?: AbortSignal; readonly serialize?: (event: T) => string } = {},
): ReadableStream<Uint8Array> {
  const { signal, serialize = JSON.stringify } = options;
  const encoder = new TextEncoder();
  const iterator = events[Symbol.asyncIterator]();
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      signal?.throwIfAborted();
      const next = await iterator.next();
      if (next.done === true) controller.close();
      else controller.enqueue(encoder.encode(`data: ${serialize(next.value)}\n\n`));
    },
    async cancel() {
      await iterator.return?.();
    },
  });
}
