// The parts without I/O, and what is generated.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { Attempts, Patience, TRIES, UNREAD } from "../src/attempts.js";
import { DaemonError, LostError, UnreadableError, UntrustedSocketError } from "../src/errors.js";
import { CODES, Client, METHODS } from "../src/index.js";
import { typed } from "../src/keys.js";
import { target } from "../src/locate.js";
import { ChangeProgress, CommandProgress } from "../src/progress.js";
import { checkHome, checkSocket } from "../src/trust.js";
import { LineReader, SseReader, read, requestLine } from "../src/wire.js";
import { ROOT } from "./daemon.js";

function pieces(text: string, size: number): Buffer[] {
  const bytes = Buffer.from(text);
  return Array.from({ length: Math.ceil(bytes.length / size) }, (_, n) => bytes.subarray(n * size, (n + 1) * size));
}

test("lines and events are found wherever the bytes are cut", () => {
  const lines = '{"id":"ä"}\n{"id":"2"}\n';
  const events = 'event: stdout\ndata: {"a":1}\n\n: a comment\n\nevent: response\r\ndata:{"b":\r\ndata: 2}\r\n\r\n';
  for (let size = 1; size < 40; size += 1) {
    const reader = new LineReader();
    assert.deepEqual(pieces(lines, size).flatMap((piece) => reader.feed(piece)), ['{"id":"ä"}', '{"id":"2"}']);
    const sse = new SseReader();
    assert.deepEqual(pieces(events, size).flatMap((piece) => sse.feed(piece)), ['{"a":1}', '{"b":\n2}']);
  }
});

test("messages", () => {
  const incoming = (message: unknown) => read(JSON.stringify(message), "a", "m");
  assert.deepEqual(incoming({ id: "a", ok: true, data: { x: 1 } }), { kind: "done", data: { x: 1 } });
  assert.deepEqual(incoming({ id: "a", event: "gap", data: {} }), { kind: "event", name: "gap", data: {} });
  assert.equal(incoming({ id: "b", ok: true, data: {} }), undefined);
  for (const id of ["a", null]) {
    const failed = incoming({ id, ok: false, error: { code: "SESSION_BUSY", message: "busy", details: 1 } });
    assert.ok(failed?.kind === "failed");
    assert.deepEqual([failed.error.code, failed.error.message, failed.error.details], ["SESSION_BUSY", "busy", 1]);
  }
  for (const line of ["nothing", "[]", '{"ok":true}', '{"id":"a"}']) {
    assert.throws(() => read(line, "a", "m"), UnreadableError);
  }
  assert.equal(requestLine("1", "m", { c: "ä\n" }), '{"id":"1","method":"m","params":{"c":"ä\\n"}}\n');
});

test("a long wait may see many daemons", () => {
  let now = 0;
  const patience = new Patience(() => (now += 10_000));
  for (let daemon = 0; daemon < 3 * TRIES; daemon += 1) {
    patience.sent();
    assert.ok(patience.ended(false));
  }
});

test("what may be sent again", () => {
  const cases: [string, boolean, boolean][] = [
    ["session.create", false, false],
    ["session.create", true, true],
    ["session.destroy", false, false],
    ["exec.info", false, true],
    ["exec.run", false, true],
    ["exec.write", false, true],
  ];
  for (const [method, unread, again] of cases) {
    const attempts = new Attempts("1", method, {});
    if (again) attempts.ended(unread);
    else assert.throws(() => attempts.ended(unread), LostError);
  }
  const ping = new Attempts("1", "system.ping", {});
  // Each daemon that is killed takes the request, and its socket takes it once more: that costs nothing.
  for (let tried = 1; tried < TRIES; tried += 1) {
    ping.ended(false);
    ping.ended(true);
  }
  assert.throws(() => ping.ended(false), LostError);
  const unread = new Attempts("1", "session.create", {});
  for (let tried = 1; tried < UNREAD; tried += 1) unread.ended(true);
  assert.throws(() => unread.ended(true), LostError);
  const params = (attempts: Attempts) => (JSON.parse(attempts.line()) as { params: Record<string, unknown> }).params;
  assert.deepEqual(params(new Attempts("7", "exec.run", {})), { run_id: "7" });
  assert.deepEqual(params(new Attempts("7", "exec.run", { run_id: "mine" })), { run_id: "mine" });
  const wait = new Attempts("1", "exec.wait", { timeout_s: 5 });
  assert.equal(params(wait)["timeout_s"], 5);
  wait.ended(false);
  assert.ok((params(wait)["timeout_s"] as number) < 5);
  const leaving = new DaemonError("SHUTTING_DOWN", "");
  new Attempts("1", "session.create", {}).refused(leaving, true);
  assert.throws(() => new Attempts("1", "session.create", {}).refused(leaving, false), DaemonError);
  assert.throws(() => new Attempts("1", "system.ping", {}).refused(new DaemonError("INTERNAL_ERROR", ""), true));
});

test("a command that waits is told and known", () => {
  const progress = new CommandProgress("exec.stream", { run_id: "r" });
  assert.deepEqual(progress.accept("queued", { exec_id: "e-1" }), { type: "queued", exec_id: "e-1" });
  progress.resume();
  assert.deepEqual([progress.method, progress.params["exec_id"]], ["exec.attach", "e-1"]);
  assert.equal(progress.accept("queued", { exec_id: "e-1" }), undefined);
  assert.equal(progress.accept("started", { exec_id: "e-1" })?.type, "started");
});

test("a cut command goes on from where it was", () => {
  const progress = new CommandProgress("exec.stream", { run_id: "r" });
  assert.ok(progress.resume());
  assert.equal(progress.method, "exec.stream", "nothing was heard, so it is sent again");
  assert.equal(progress.accept("started", { exec_id: "e-1" })?.type, "started");
  assert.equal((progress.accept("stdout", { base64: "YWJj", offset: 0 }) as { text: string }).text, "abc");
  progress.resume();
  assert.deepEqual(progress.params, { exec_id: "e-1", stdout_offset: 3, stderr_offset: 0, encoding: "base64" });
  assert.equal(progress.accept("started", { exec_id: "e-1" }), undefined);
  assert.equal(progress.accept("stdout", { base64: "YWI=", offset: 0 }), undefined);
  const again = progress.accept("stdout", { base64: "Y2Rl", offset: 2 }) as { text: string; offset: number };
  assert.deepEqual([again.text, again.offset], ["de", 3]);
  progress.accept("gap", { stream: "stderr", from: 0, to: 9 });
  progress.resume();
  assert.deepEqual([progress.params["stdout_offset"], progress.params["stderr_offset"]], [5, 9]);
  assert.equal(progress.accept("something_new", {}), undefined);
  const torn = new CommandProgress("exec.stream", {});
  const texts = [
    torn.accept("stdout", { base64: "w6TD", offset: 0 }),
    torn.accept("stdout", { base64: "tg==", offset: 3 }),
  ];
  assert.deepEqual(texts.map((output) => (output as { text: string }).text), ["ä", "ö"]);
  const changes = new ChangeProgress("events.subscribe", {});
  changes.accept("subscribed", { next: 5 });
  const change = { seq: 5, at: "", topic: "session", change: "created" };
  assert.ok(changes.accept("change", change) !== undefined);
  assert.equal(changes.accept("change", change), undefined);
  assert.equal(changes.params["from"], 6);
});

test("keys", () => {
  const cases: [string, string][] = [
    ["Enter", "\r"],
    ["Ctrl-C", "\x03"],
    ["C-d", "\x04"],
    ["ctrl+[", "\x1b"],
    ["Up", "\x1b[A"],
    ["Alt-x", "\x1bx"],
    ["M-Enter", "\x1b\r"],
    ["ls -l", "ls -l"],
    ["c", "c"],
    ["constructor", "constructor"],
  ];
  for (const [key, sent] of cases) assert.equal(typed(key), sent, key);
});

test("where the daemon is", () => {
  const directory = mkdtempSync(join(tmpdir(), "trl-ts-"));
  const user = process.geteuid?.() ?? 0;
  const socket = (env: Record<string, string>) => {
    const found = target({ env, program: "trl" });
    assert.ok(found.kind === "socket");
    return found.path;
  };
  assert.equal(socket({ HOME: directory }), `/tmp/trl-${user}/trl.sock`);
  assert.equal(socket({ XDG_RUNTIME_DIR: "/run/u" }), "/run/u/trl/trl.sock");
  assert.equal(socket({ XDG_RUNTIME_DIR: "u" }), `/tmp/trl-${user}/trl.sock`);
  assert.equal(socket({ TRL_HOME: "/h", TRL_SOCKET_PATH: "/s" }), "/s");
  mkdirSync(join(directory, "config"));
  writeFileSync(join(directory, "config/config.toml"), '# socket_path = "/no"\nsocket_path = "/from/file"\n');
  assert.equal(socket({ TRL_HOME: directory }), "/from/file");
  rmSync(directory, { recursive: true });
  const started = target({ env: { TRL_HOME: "/h" }, program: "/x/trl" });
  assert.ok(started.kind === "socket");
  assert.deepEqual(started.start?.args, ["serve", "--detached", "--socket", "/h/run/trl.sock"]);
  const web = target({ url: "https://box:7700/", env: { TRL_AUTH_TOKEN: "t" } });
  assert.ok(web.kind === "http");
  assert.deepEqual([web.url.href, web.token], ["https://box:7700/v1/rpc", "t"]);
  for (const url of ["box", "ftp://box", "http://"]) assert.throws(() => target({ url, env: {} }), TypeError);
});

test("only what nobody else can replace is trusted, and only a daemon of this home", async () => {
  const directory = mkdtempSync(join(tmpdir(), "trl-ts-"));
  const inside = join(directory, "open/mine");
  mkdirSync(inside, { recursive: true });
  symlinkSync("open/mine", join(directory, "link"));
  for (const path of [join(inside, "s"), join(directory, "link/s")]) {
    for (const [mode, trusted] of [
      [0o755, true],
      [0o777, false],
      [0o775, false],
      [0o1777, true],
    ] as const) {
      chmodSync(join(directory, "open"), mode);
      if (trusted) await checkSocket(path);
      else await assert.rejects(checkSocket(path), UntrustedSocketError);
    }
  }
  const socket = join(directory, "trl.sock");
  await checkHome(socket, join(directory, "ours"));
  writeFileSync(join(directory, "state-dir"), join(directory, "theirs"));
  await assert.rejects(checkHome(socket, join(directory, "ours")), UntrustedSocketError);
  await checkHome(socket, join(directory, "theirs"));
  rmSync(directory, { recursive: true });
  const compared = (env: Record<string, string>) => {
    const found = target({ env, program: "trl" });
    return found.kind === "socket" ? found.state : undefined;
  };
  assert.equal(compared({ HOME: "/h" }), "/h/.local/state/trl");
  assert.equal(compared({ HOME: "/h", TRL_SOCKET_PATH: "/s" }), undefined);
  assert.equal(compared({ HOME: "/h", XDG_RUNTIME_DIR: "/run/u" }), undefined);
});

test("nothing that is generated is stale, and all of it can be reached", () => {
  execFileSync(join(ROOT, "clients/generate"), ["--check"], { stdio: "pipe" });
  const contract = JSON.parse(readFileSync(join(ROOT, "docs/contract/protocol.json"), "utf8")) as {
    methods: Record<string, unknown>;
    codes: Record<string, unknown>;
  };
  assert.deepEqual([...METHODS].sort(), Object.keys(contract.methods).sort());
  assert.deepEqual([...CODES].sort(), Object.keys(contract.codes).sort());
  for (const method of METHODS) {
    const name = method.replace(/[._](\w)/g, (_, letter: string) => letter.toUpperCase());
    assert.equal(typeof (Client.prototype as unknown as Record<string, unknown>)[name], "function", name);
  }
});
