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
      if (event.type === "started") yield { type: "start", timestamp: timestamp(), command, sessionId };
      else if (event.type === "stdout" || event.type === "stderr") {
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
export function sseStream(events: AsyncGenerator<ExecEvent | LogEvent>): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const next = await events.next();
      if (next.done === true) controller.close();
      else controller.enqueue(encoder.encode(`data: ${JSON.stringify(next.value)}\n\n`));
    },
    async cancel() {
      await events.return(undefined);
    },
  });
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
