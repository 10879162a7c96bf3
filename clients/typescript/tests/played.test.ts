// A daemon played by the test cuts connections where a real one is hard to hit.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { type Server, type Socket, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { Client, DaemonError, LostError, Session, UnreadableError, UntrustedSocketError } from "../src/index.js";

interface Request {
  readonly id: string;
  readonly method: string;
  readonly params: Record<string, unknown>;
}

type Play = (request: Request, socket: Socket) => void;

/** One function for each connection, in the order in which they come; it gets the first request. */
async function played(plays: Play[], work: (client: Client, requests: Request[]) => Promise<void>): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), "trl-ts-"));
  const requests: Request[] = [];
  const server: Server = createServer((socket) => {
    const play = plays.shift();
    socket.on("error", () => undefined);
    socket.once("data", (data: Buffer) => {
      const request = JSON.parse(data.toString()) as Request;
      requests.push(request);
      play?.(request, socket);
    });
  });
  const path = join(directory, "s");
  await new Promise<void>((resolve) => server.listen(path, resolve));
  const client = new Client({ socket: path, start: false });
  try {
    await work(client, requests);
  } finally {
    client.close();
    server.close();
    rmSync(directory, { recursive: true });
  }
}

const answer =
  (data: unknown): Play =>
  ({ id }, socket) =>
    void socket.write(`${JSON.stringify({ id, ok: true, data })}\n`);
const fail =
  (code: string, id?: null): Play =>
  (request, socket) =>
    void socket.end(`${JSON.stringify({ id: id === null ? null : request.id, ok: false, error: { code, message: "" } })}\n`);
const go: Play = (_, socket) => void socket.end();

test("what may have been done is not done again", () =>
  played([go, answer({})], async (client, requests) => {
    await assert.rejects(client.call("session.create"), LostError);
    assert.equal(requests.length, 1);
  }));

test("a command is sent again under the same id", () =>
  played([go, answer({ stdout: "" })], async (client, requests) => {
    await Session.existing("x", { client }).run("y");
    assert.equal(requests.length, 2);
    assert.equal(requests[0]?.params["run_id"], requests[1]?.params["run_id"]);
  }));

test("half an answer is none", () =>
  played([(_, socket) => void socket.end('{"id":'), answer({ version: "1" })], async (client) => {
    assert.deepEqual(await client.call("system.ping"), { version: "1" });
  }));

test("a daemon that leaves is waited for", () =>
  played([fail("SHUTTING_DOWN"), answer({ session_id: "s-1" })], async (client) => {
    assert.deepEqual(await client.call("session.create"), { session_id: "s-1" });
  }));

test("an answer that cannot be read is said, and an error without an id is ours", () =>
  played([(_, socket) => void socket.write("nonsense\n"), fail("PARSE_ERROR", null)], async (client) => {
    await assert.rejects(client.call("system.ping"), UnreadableError);
    await assert.rejects(client.call("system.ping"), (error) => error instanceof DaemonError);
  }));

test("a stream that is cut goes on from the bytes that it has", () =>
  played(
    [
      ({ id }, socket) => {
        socket.write(`${JSON.stringify({ id, event: "started", data: { exec_id: "e-1" } })}\n`);
        socket.end(`${JSON.stringify({ id, event: "stdout", data: { base64: "YWJj", offset: 0 } })}\n{"id":`);
      },
      ({ id }, socket) => {
        socket.write(`${JSON.stringify({ id, event: "stdout", data: { base64: "Y2Rl", offset: 2 } })}\n`);
        socket.write(`${JSON.stringify({ id, ok: true, data: { exit_code: 0 } })}\n`);
      },
    ],
    async (client, requests) => {
      let heard = "";
      for await (const text of Session.existing("x", { client }).stream("y").text()) heard += text;
      assert.equal(heard, "abcde");
      assert.deepEqual([requests[1]?.method, requests[1]?.params["stdout_offset"]], ["exec.attach", 3]);
    },
  ));

test("nothing is sent to a socket of another user", async (context) => {
  if (process.geteuid?.() !== 0) {
    context.skip("only root can make a socket that belongs to another user");
    return;
  }
  const { chownSync } = await import("node:fs");
  const directory = mkdtempSync(join(tmpdir(), "trl-ts-"));
  const path = join(directory, "s");
  let connections = 0;
  const server = createServer(() => (connections += 1));
  await new Promise<void>((resolve) => server.listen(path, resolve));
  chownSync(path, 65534, 65534);
  await assert.rejects(new Client({ socket: path, start: false }).systemPing(), UntrustedSocketError);
  assert.equal(connections, 0);
  server.close();
  rmSync(directory, { recursive: true });
});
