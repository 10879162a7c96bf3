// Sessions, commands, terminals and mail, with a daemon.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import {
  Agent,
  Client,
  Command,
  CommandError,
  DaemonError,
  NoDaemonError,
  NotStartedError,
  Session,
  type SessionOptions,
} from "../src/index.js";
import { GUARD_MS, type Home, Served, freePort, until, withHome } from "./daemon.js";

function bash(home: Home, work: (session: Session) => Promise<void>, more: SessionOptions = {}): Promise<void> {
  return Session.with({ client: home.client, shell: "bash", workingDir: home.work, ...more }, work);
}

const code = (wanted: string) => (error: unknown) => error instanceof DaemonError && error.code === wanted;

test(
  "state carries over, and the session ends with the block",
  withHome(async (home) => {
    let id = "";
    await bash(home, async (session) => {
      id = session.id;
      await session.run("cd /usr; x=42");
      const result = await session.run("echo $x; pwd; echo no >&2; (exit 3)");
      assert.deepEqual([result.stdout, result.stderr, result.exitCode, result.ok], ["42\n/usr\n", "no\n", 3, false]);
      assert.equal(result.workingDir, "/usr");
    });
    await assert.rejects(home.client.sessionInfo({ session_id: id }), (error) => error instanceof DaemonError);
  }),
);

test(
  "options of a command",
  withHome((home) =>
    bash(home, async (session) => {
      const options = { stdin: "typed\n", env: { A: "b" }, workingDir: "/usr", timeoutMs: 20_000 };
      assert.equal((await session.run("cat; echo $A; pwd", options)).stdout, "typed\nb\n/usr\n");
      const late = await session.run("echo begun; sleep 60", { timeoutMs: 200 });
      assert.deepEqual([late.timedOut, late.stdout, late.ok], [true, "begun\n", false]);
    }),
  ),
);

test(
  "errors have code and details, and a checked command its result",
  withHome(async (home) => {
    await assert.rejects(home.client.call("exec.run", { session_id: "x", comand: "true" }), (error) => {
      assert.ok(error instanceof DaemonError);
      assert.equal(error.code, "INVALID_PARAMS");
      assert.match(error.message, /comand/);
      assert.ok(error.details !== undefined);
      return true;
    });
    await bash(home, async (session) => {
      await assert.rejects(session.run("echo why >&2; false", { check: true }), (error) => {
        assert.ok(error instanceof CommandError);
        assert.deepEqual([error.code, error.result.stderr, error.result.exitCode], ["COMMAND_FAILED", "why\n", 1]);
        return true;
      });
      await session.start("sleep 60");
      await assert.rejects(session.run("true"), code("SESSION_BUSY"));
      assert.equal(await session.cancel(), true);
      assert.equal((await session.run("echo free", { waitMs: 20_000 })).stdout, "free\n");
    });
  }),
);

test(
  "a daemon that cannot be started is said; clients that race start one",
  withHome(async (home) => {
    const env = { TRL_HOME: join(home.path, "other") };
    await assert.rejects(new Client({ program: "/nowhere/trl", env }).systemPing(), NotStartedError);
    await assert.rejects(new Client({ program: "/bin/true", env }).systemPing(), NotStartedError);
    await assert.rejects(new Client({ start: false, env }).systemPing(), NoDaemonError);
    const clients = Array.from({ length: 8 }, () => home.another());
    const pids = await Promise.all(clients.map(async (client) => (await client.systemInfo()).pid));
    assert.equal(new Set(pids).size, 1);
    for (const client of clients) client.close();
  }),
);

test(
  "a signal cancels the command and leaves the session",
  withHome((home) =>
    bash(home, async (session) => {
      await session.run("x=kept");
      const controller = new AbortController();
      const running = session.run("echo ran >> log; sleep 60; echo on >> log", { signal: controller.signal });
      const rejected = assert.rejects(running, /enough/);
      await until("it runs", () => home.lines("log").length === 1);
      controller.abort(new Error("enough"));
      await rejected;
      assert.equal((await session.run("echo $x")).stdout, "kept\n");
      assert.equal((await session.history())[1]?.cancelled, true);

      const signal = AbortSignal.timeout(300);
      await assert.rejects(async () => {
        for await (const _ of session.stream("echo streamed >> log; sleep 60", { signal }));
      }, /Timeout|aborted/i);
      assert.equal((await session.run("echo free", { waitMs: 20_000 })).stdout, "free\n");
      assert.deepEqual(home.lines("log"), ["ran", "streamed"]);
      await assert.rejects(session.run("echo never >> log", { signal: AbortSignal.abort() }), /abort/i);
      const background = await session.background("sleep 60");
      await assert.rejects(background.wait({ signal: AbortSignal.timeout(100) }), /Timeout|aborted/i);
      assert.deepEqual(home.lines("log"), ["ran", "streamed"]);
    }),
  ),
);

test(
  "a signal ends what waits for its turn, and what nobody reads at the moment",
  withHome((home) =>
    bash(home, async (session) => {
      const first = await session.start("sleep 60");
      const controller = new AbortController();
      const { signal } = controller;
      const queued = session.stream("echo ran >> log", { waitMs: GUARD_MS, signal }).finish();
      const rejected = assert.rejects(queued, /enough/);
      await until("it waits", async () => (await session.history()).length === 2);
      controller.abort(new Error("enough"));
      await rejected;
      await first.cancel();
      await session.run("true", { waitMs: GUARD_MS });
      assert.deepEqual(home.lines("log"), []);

      const another = new AbortController();
      const stream = session.stream("echo begun; sleep 60", { signal: another.signal });
      await stream.next();
      another.abort(new Error("enough"));
      await until("it has ended", async () => (await session.info()).state === "idle");
      await assert.rejects(stream.next(), /enough/);
      await assert.rejects(session.run("true", { timeoutMs: NaN }), RangeError);
    }),
  ),
);

test(
  "large files are written in pieces, and `await using` ends a session",
  withHome(async (home) => {
    {
      await using session = await Session.create({ client: home.client, shell: "bash", workingDir: home.work });
      const data = Buffer.alloc(5 << 20, "0123456789");
      assert.equal(await session.files.write("large", data, { mode: "0600" }), data.length);
      assert.ok(data.equals(await session.files.readBytes("large")));
      assert.equal(await session.files.write("large", data.subarray(0, 5_000_000), { append: true }), 5_000_000);
      const { bytes, mode } = await session.files.stat("large");
      assert.deepEqual([bytes, mode], [data.length + 5_000_000, "0600"]);
      assert.equal(await session.files.write("large", "short"), 5);
      assert.equal(await session.files.write("empty", ""), 0);
      assert.deepEqual([await session.files.read("large"), await session.files.read("empty")], ["short", ""]);
    }
    assert.deepEqual((await home.client.sessionList()).sessions, []);
  }),
);

test(
  "events come as they happen, and bytes are exact",
  withHome((home) =>
    bash(home, async (session) => {
      const stream = session.stream("echo one; while [ ! -e go ]; do sleep 0.02; done; echo two >&2");
      const types: string[] = [];
      for await (const event of stream) {
        types.push(event.type);
        if (event.type === "stdout") {
          assert.equal(event.text, "one\n");
          writeFileSync(join(home.work, "go"), "");
        }
      }
      assert.deepEqual(types, ["started", "stdout", "stderr"]);
      assert.equal(stream.outcome.exitCode, 0);

      let bytes = 0;
      const zeros = session.stream("head -c 3000000 /dev/zero; printf '\\377\\376'");
      for await (const output of zeros.output()) {
        assert.equal(output.offset, bytes);
        bytes += output.data.length;
      }
      assert.equal(bytes, 3_000_002);
      assert.deepEqual([...((await zeros.command?.outputBytes()) ?? []).slice(-3)], [0, 255, 254]);

      const script = "printf 'a\\nb'; sleep 0.05; printf 'c\\nd'; echo e >&2";
      const lines: string[] = [];
      for await (const line of session.stream(script).lines("stdout")) lines.push(line);
      assert.deepEqual(lines, ["a", "bc", "d"]);
    }),
  ),
);

test(
  "a stream that is left early ends nothing",
  withHome((home) =>
    bash(home, async (session) => {
      const stream = session.stream("echo begun; while [ ! -e go ]; do sleep 0.02; done; echo done");
      for await (const _ of stream.output()) break;
      writeFileSync(join(home.work, "go"), "");
      const command = stream.command;
      assert.ok(command !== undefined);
      assert.equal((await command.wait({ timeoutMs: GUARD_MS })).exit_code, 0);
      let rest = "";
      for await (const text of command.stream({ stdoutOffset: 6 }).text()) rest += text;
      assert.equal(rest, "done\n");
    }),
  ),
);

test(
  "a server in the background",
  withHome((home) =>
    bash(home, async (session) => {
      const port = await freePort();
      const server = await session.background(`python3 -u -m http.server --bind 127.0.0.1 ${port}`);
      assert.match((await server.waitForLog(/port \d+/, { timeoutMs: GUARD_MS })).text, /port \d+/);
      const ready = await server.waitForPort(port, { httpPath: "/", timeoutMs: GUARD_MS });
      assert.equal(ready.state, "running");
      assert.equal((await session.run("echo free")).stdout, "free\n");
      await assert.rejects(server.waitForLog("never", { timeoutMs: 100 }), code("WAIT_TIMEOUT"));
      assert.equal(await server.cancel(), true);
      assert.equal((await server.wait({ timeoutMs: GUARD_MS })).state, "finished");
      await assert.rejects(server.waitForLog("never", { timeoutMs: GUARD_MS }), code("COMMAND_FAILED"));
    }),
  ),
);

test(
  "a conversation with a program on a terminal",
  withHome((home) =>
    bash(home, async (session) => {
      const options = { tty: true, mergeStderr: true, env: { PYTHON_BASIC_REPL: "1", TERM: "dumb" } };
      const program = await session.start("python3 -q", options);
      await program.expect(">>> ", { timeoutMs: GUARD_MS });
      await program.sendLine("6 * 7");
      const match = await program.expect([/^never/, /^42\b/], { timeoutMs: GUARD_MS });
      assert.deepEqual([match.text, match.index], ["42", 1]);
      await program.expect(">>> ", { timeoutMs: GUARD_MS });
      assert.match(String(await program.screen()), /6 \* 7/);
      await session.sendKeys("Ctrl-D");
      assert.equal((await program.wait({ timeoutMs: GUARD_MS })).exit_code, 0);
      await assert.rejects(session.sendKeys("x"), /nothing runs/);

      const cat = await session.start("cat", { stdinOpen: true });
      await cat.send("one\n");
      await cat.send(Buffer.from("two\n"));
      await cat.sendEof();
      await cat.wait({ timeoutMs: GUARD_MS });
      assert.equal(await cat.output(), "one\ntwo\n");
    }),
  ),
);

test(
  "a question is told, and a person sees the session",
  withHome((home) =>
    bash(home, async (session) => {
      const stream = session.stream("read -p 'name? ' name; echo hello $name", { tty: true });
      for await (const event of stream) {
        if (event.type === "waiting") await new Command(home.client, event.exec_id).sendLine("ada");
      }
      assert.match((await stream.command?.output()) ?? "", /hello ada/);
      const view = session.attach({ rows: 24, cols: 80 });
      await session.start("echo shown; sleep 60", { tty: true });
      let seen = "";
      for await (const output of view) {
        seen += output.text;
        if (seen.includes("shown")) break;
      }
      await session.cancel();
    }),
  ),
);

test(
  "mail between agents, across a killed daemon",
  withHome(async (home) => {
    const ada = await Agent.use("ada", { client: home.client });
    const bob = await Agent.use("bob", { client: home.client });
    const sent = await ada.send("bob", "which port?");
    const [message] = await bob.inbox({ waitMs: GUARD_MS });
    assert.ok(message !== undefined);
    assert.deepEqual([message.from, message.text], ["ada", "which port?"]);
    await bob.reply(message, "8080");
    assert.equal((await ada.awaitReply(sent.message_id, { timeoutMs: GUARD_MS })).reply?.text, "8080");
    const label = ada.label;
    await ada.send("bob", "before");
    await home.kill();
    assert.deepEqual((await bob.inbox({ waitMs: GUARD_MS })).map((one) => one.text), ["before"]);
    await ada.contacts();
    assert.equal(ada.label, label);
    await ada.release();
    await bob.release();
  }),
);

test(
  "a stream that is asked several times at once answers in order",
  withHome((home) =>
    bash(home, async (session) => {
      const stream = session.stream("echo a; sleep 0.1; echo b");
      const events = await Promise.all([1, 2, 3, 4].map(() => stream.next()));
      const texts = events.map(({ value }) => (value !== undefined && "text" in value ? value.text : ""));
      assert.deepEqual(texts.filter((text) => text !== ""), ["a\n", "b\n"]);
    }),
  ),
);

test(
  "another agent is let in and shut out",
  withHome(async (home) => {
    const served = await Served.start(home);
    const ada = await Agent.use("ada", { client: home.client });
    const bob = await Agent.use("bob", { client: home.client });
    const granted = await bob.grant("ada", { profile: "none", maxSessions: 1, expiresMs: 600_000 });
    assert.deepEqual([granted.agent, granted.granted_by], ["ada", "bob"]);
    const given = async (): Promise<string | undefined> =>
      (await home.client.systemRuntimes()).runtimes.find((row) => typeof row.granted_by === "string")?.name;
    await until("the grant arrives by mail", async () => (await given()) !== undefined);
    assert.deepEqual((await bob.grants()).map((row) => [row.state, row.max_sessions]), [["active", 1]]);
    assert.deepEqual(await ada.grants(), []);
    assert.equal((await bob.revoke(granted)).agent, "ada");
    await until("the runtime is gone", async () => (await given()) === undefined);
    assert.deepEqual((await bob.grants()).map((row) => row.state), ["revoked"]);
    await ada.release();
    await bob.release();
    await served.kill();
  }),
);

test(
  "changes are told",
  withHome(async (home) => {
    const seen: string[] = [];
    for await (const event of home.client.eventsSubscribe({ topics: ["session"] })) {
      if (event.type === "subscribed") await bash(home, () => Promise.resolve(), { name: "watched" });
      if (event.type === "change") seen.push(`${event.change} ${event.name ?? ""}`);
      if (seen.length === 2) break;
    }
    assert.deepEqual(seen, ["created watched", "ended watched"]);
  }),
);
