// The sandbox module: the calls of the other SDK, on sessions.

import assert from "node:assert/strict";
import { homedir } from "node:os";
import { test } from "node:test";

import { METHODS } from "../src/index.js";
import {
  type ExecEvent,
  type LogEvent,
  NotSupportedError,
  ProcessExitedBeforeReadyError,
  ProcessReadyTimeoutError,
  type Sandbox,
  asyncIterableToSSEStream,
  collectFile,
  getSandbox,
  isExecResult,
  isProcess,
  isProcessStatus,
  parseSSEStream,
  responseToAsyncIterable,
} from "../src/sandbox.js";
import { GUARD_MS, type Home, freePort, until, withHome } from "./daemon.js";

const sandboxed = (work: (sandbox: Sandbox, home: Home) => Promise<void>) =>
  withHome(async (home) => {
    const sandbox = getSandbox(undefined, "box", { client: home.client });
    await sandbox.exec(`cd ${home.work}`);
    await work(sandbox, home);
    await sandbox.destroy();
    assert.deepEqual((await home.client.sessionList()).sessions, []);
  });

test(
  "exec",
  sandboxed(async (sandbox, home) => {
    await sandbox.exec("x=42");
    const result = await sandbox.exec("echo $x; echo no >&2; (exit 3)");
    const { success, exitCode, stdout, stderr, command } = result;
    assert.deepEqual([success, exitCode, stdout, stderr], [false, 3, "42\n", "no\n"]);
    assert.equal(command, "echo $x; echo no >&2; (exit 3)");
    const options = { env: { A: "b", B: undefined }, cwd: "/usr", stdin: "in\n", timeout: 20_000 };
    assert.equal((await sandbox.exec("cat; echo $A; pwd", options)).stdout, "in\nb\n/usr\n");
    const heard: string[] = [];
    const streamed = await sandbox.exec("echo a; sleep 0.05; echo b >&2", {
      stream: true,
      onOutput: (stream, data) => heard.push(`${stream}: ${data}`),
    });
    assert.deepEqual([heard, streamed.success], [["stdout: a\n", "stderr: b\n"], true]);
    await assert.rejects(sandbox.exec("sleep 60", { timeout: 100 }), /timeout after 100ms/);
    await assert.rejects(sandbox.exec("sleep 60", { timeout: 100, onOutput: () => undefined }), /timeout/);
    const nowhere = await sandbox.exec("true", { cwd: "/nowhere" });
    assert.deepEqual([nowhere.exitCode, nowhere.stderr], [1, "Failed to change directory to /nowhere\n"]);
    assert.equal((await sandbox.exec("head -c 3000000 /dev/zero")).stdout.length, 3_000_000);
    assert.deepEqual([isExecResult(result), isExecResult({}), isProcessStatus("killed")], [true, false, true]);
    // Calls at the same time take turns.
    const both = await Promise.all([sandbox.exec("sleep 0.1; echo one"), sandbox.exec("echo two")]);
    assert.deepEqual(both.map(({ stdout }) => stdout), ["one\n", "two\n"]);
    await sandbox.setEnvVars({ KEY: "it's", x: undefined });
    assert.equal((await sandbox.exec("echo $KEY $x")).stdout, "it's\n");
    const controller = new AbortController();
    const rejected = assert.rejects(sandbox.exec("echo > ran; sleep 60", { signal: controller.signal }), /abort/i);
    await until("it runs", async () => (await home.client.sessionList()).sessions[0]?.state === "running");
    controller.abort();
    await rejected;
    // The same id is the same sandbox, from anywhere.
    assert.equal((await getSandbox(home.client, "box").exec("echo $KEY")).stdout, "it's\n");
  }),
);

test(
  "execStream",
  sandboxed(async (sandbox) => {
    const types: string[] = [];
    let text = "";
    for await (const event of parseSSEStream<ExecEvent>(await sandbox.execStream("echo one; (exit 4)"))) {
      types.push(event.type);
      text += event.data ?? "";
      if (event.type === "complete") assert.equal(event.exitCode, 4);
    }
    assert.deepEqual([types, text], [["start", "stdout", "complete"], "one\n"]);
    // As a program passes a stream on to its own clients.
    const events = parseSSEStream<ExecEvent>(await sandbox.execStream("echo two"));
    const passedOn = new Response(asyncIterableToSSEStream(events));
    const heard: (string | undefined)[] = [];
    for await (const event of responseToAsyncIterable<ExecEvent>(passedOn)) heard.push(event.data);
    assert.deepEqual(heard, [undefined, "two\n", undefined]);
  }),
);

test(
  "processes",
  sandboxed(async (sandbox) => {
    const port = await freePort();
    let exited: number | null | undefined;
    const server = await sandbox.startProcess(`python3 -u -m http.server --bind 127.0.0.1 ${port}`, {
      processId: "web",
      onExit: (code) => (exited = code),
    });
    assert.deepEqual([server.id, server.status], ["web", "running"]);
    const { line, match } = await server.waitForLog(/port (\d+)/, GUARD_MS);
    assert.match(line, /^Serving HTTP on/);
    assert.equal(match?.[1], String(port));
    await server.waitForPort(port, { timeout: GUARD_MS });
    await server.waitForPort(port, { mode: "tcp", timeout: GUARD_MS });
    assert.match((await server.getLogs()).stdout, /Serving/);
    assert.deepEqual((await sandbox.listProcesses()).map(({ id }) => id), ["web"]);
    assert.equal((await sandbox.getProcess("web"))?.status, "running");
    assert.equal(await sandbox.getProcess("nothing"), null);
    await sandbox.killProcess("web");
    await server.waitForExit(GUARD_MS);
    assert.equal(await server.getStatus(), "killed");
    await until("the exit is told", () => exited !== undefined);
    const other = await sandbox.startProcess("echo out; echo err >&2; exit 3");
    assert.deepEqual(await other.waitForExit(GUARD_MS), { exitCode: 3 });
    const logs = await sandbox.getProcessLogs(other.id);
    assert.deepEqual([logs.stdout, logs.stderr], ["out\n", "err\n"]);
    const events: string[] = [];
    for await (const event of parseSSEStream<LogEvent>(await sandbox.streamProcessLogs(other.id))) events.push(event.type);
    assert.equal(events.at(-1), "exit");
    const sleeper = await sandbox.startProcess("sleep 60");
    assert.ok(isProcess(sleeper));
    await assert.rejects(sleeper.waitForLog("never", 100), (error) => {
      assert.ok(error instanceof ProcessReadyTimeoutError);
      assert.deepEqual([error.processId, error.condition, error.timeout], [sleeper.id, "never", 100]);
      return true;
    });
    await assert.rejects(other.waitForLog("never", GUARD_MS), (error) => {
      assert.ok(error instanceof ProcessExitedBeforeReadyError);
      assert.deepEqual([error.exitCode, error.command], [3, other.command]);
      return true;
    });
    assert.equal(await sandbox.killAllProcesses(), 1);
  }),
);

test(
  "sessions",
  sandboxed(async (sandbox) => {
    const session = await sandbox.createSession({ id: "build", env: { STAGE: "test" }, cwd: "/usr" });
    assert.equal((await session.exec("echo $STAGE; pwd; y=1")).stdout, "test\n/usr\n");
    assert.equal((await (await sandbox.getSession("build")).exec("echo $y")).stdout, "1\n");
    assert.equal((await sandbox.exec("echo [$y]")).stdout, "[]\n");
    const nowhere = await sandbox.createSession({ id: "nowhere", cwd: "/nowhere" });
    assert.equal((await nowhere.exec("pwd")).stdout, `${homedir()}\n`);
    await assert.rejects(session.createCodeContext(), NotSupportedError);
    assert.equal((await sandbox.deleteSession("build")).success, true);
    await assert.rejects(sandbox.runCode("1"), NotSupportedError);
    await assert.rejects(sandbox.exposePort(80), NotSupportedError);
  }),
);

test(
  "files",
  { skip: (METHODS as readonly string[]).includes("file.read") ? false : "the protocol has no files" },
  sandboxed(async (sandbox) => {
    await sandbox.mkdir("src/deep", { recursive: true });
    await sandbox.writeFile("src/a.txt", "hello");
    const read = await sandbox.readFile("src/a.txt");
    assert.deepEqual([read.content, read.encoding, read.size], ["hello", "utf-8", 5]);
    await sandbox.writeFile("bytes", Buffer.from([0, 255]).toString("base64"), { encoding: "base64" });
    assert.deepEqual([(await sandbox.readFile("bytes")).encoding, (await sandbox.exists("bytes")).exists], ["base64", true]);
    await sandbox.renameFile("bytes", "other");
    await sandbox.deleteFile("other");
    assert.equal((await sandbox.exists("other")).exists, false);
    await sandbox.writeFile(".hidden", "");
    const listed = await sandbox.listFiles(".", { recursive: true });
    assert.deepEqual(listed.files.map(({ name }) => name).sort(), ["a.txt", "deep", "src"]);
    assert.equal((await sandbox.listFiles(".", { includeHidden: true })).count, 2);
    assert.deepEqual(listed.files.find(({ name }) => name === "a.txt")?.permissions.readable, true);
    const text = await collectFile(await sandbox.readFileStream("src/a.txt"));
    assert.deepEqual(text, {
      content: "hello",
      metadata: { mimeType: "text/plain", size: 5, isBinary: false, encoding: "utf-8" },
    });
    await sandbox.writeFile("long", new Blob([Buffer.alloc(200_000, "\xff", "latin1")]).stream());
    const bytes = await collectFile(await sandbox.readFileStream("long"));
    assert.deepEqual([bytes.content.length, bytes.content.at(-1), bytes.metadata.isBinary], [200_000, 255, true]);
    const { content, size } = await sandbox.readFile("long", { encoding: "none" });
    assert.deepEqual([(await new Response(content).arrayBuffer()).byteLength, size], [200_000, 200_000]);
  }),
);
