// The daemon is killed with -9 while commands run; the client must not notice more than it has to.

import assert from "node:assert/strict";
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";

import { DaemonError, Session } from "../src/index.js";
import { GUARD_MS, type Home, Served, TOKEN, until, withHome } from "./daemon.js";

function bash(home: Home, work: (session: Session) => Promise<void>): Promise<void> {
  return Session.with({ client: home.client, shell: "bash", workingDir: home.work }, work);
}

const counted = (count: number, prefix = "line "): string =>
  Array.from({ length: count }, (_, number) => `${prefix}${number + 1}\n`).join("");

test(
  "a run is answered and runs once",
  withHome((home) =>
    bash(home, async (session) => {
      await session.run("x=kept");
      for (const number of [0, 1, 2]) {
        const running = session.run(`echo ${number} >> log; sleep 0.3; echo $x ${number}`, { timeoutMs: GUARD_MS });
        await until("it runs", () => home.lines("log").includes(String(number)));
        await home.kill();
        assert.equal((await running).stdout, `kept ${number}\n`);
      }
      assert.deepEqual(home.lines("log"), ["0", "1", "2"]);
    }),
  ),
);

test(
  "never twice and never gone, whenever it dies",
  withHome((home) =>
    bash(home, async (session) => {
      await session.run("true");
      for (let number = 0; number < 10; number += 1) {
        const pid = await home.pid();
        const killed = pause(number % 4).then(() => home.kill(pid));
        const result = await session.run(`echo ${number} >> log; echo ${number}`, { waitMs: 20_000 });
        await killed;
        assert.equal(result.stdout, `${number}\n`);
      }
      assert.deepEqual(home.lines("log"), Array.from({ length: 10 }, (_, number) => String(number)));
    }),
  ),
);

test(
  "a stream goes on without gap or repeat",
  withHome((home) =>
    bash(home, async (session) => {
      const script = "for i in $(seq 1 4000); do echo line $i; echo e$i >&2; done";
      const heard = { stdout: "", stderr: "" };
      const kills = [5_000, 15_000, 25_000];
      const stream = session.stream(script, { timeoutMs: 60_000 });
      for await (const output of stream.output()) {
        assert.equal(output.offset, heard[output.type].length);
        heard[output.type] += output.text;
        if (kills[0] !== undefined && heard.stdout.length > kills[0]) {
          kills.shift();
          await home.kill();
        }
      }
      assert.deepEqual([kills, stream.outcome.exitCode], [[], 0]);
      assert.equal(heard.stdout, counted(4000));
      assert.equal(heard.stderr, counted(4000, "e"));
    }),
  ),
);

test(
  "waits go on, and input is given once",
  withHome((home) =>
    bash(home, async (session) => {
      const command = await session.background("while [ ! -e go ]; do sleep 0.02; done; echo ready");
      const ready = command.waitForLog("ready", { timeoutMs: GUARD_MS });
      const over = command.wait({ timeoutMs: GUARD_MS });
      await home.kill();
      writeFileSync(join(home.work, "go"), "");
      assert.equal((await ready).text, "ready");
      assert.equal((await over).exit_code, 0);
      const cat = await session.start("cat", { stdinOpen: true });
      for (let number = 0; number < 6; number += 1) {
        if (number % 2 === 1) await home.kill();
        await cat.send(`${number}\n`);
      }
      await cat.sendEof();
      await cat.wait({ timeoutMs: GUARD_MS });
      assert.equal(await cat.output(), "0\n1\n2\n3\n4\n5\n");
    }),
  ),
);

test(
  "many sessions at once",
  withHome(async (home) => {
    const work = (number: number): Promise<string[]> =>
      Session.with({ client: home.client, shell: "bash", workingDir: home.work }, async (session) => {
        const outputs: string[] = [];
        for (const turn of [0, 1, 2]) {
          const script = `echo ${number}.${turn} >> log; sleep 0.1; echo ${number}.${turn}`;
          outputs.push((await session.run(script, { timeoutMs: 60_000 })).stdout);
        }
        return outputs;
      });
    const all = Promise.all(Array.from({ length: 8 }, (_, number) => work(number)));
    for (const count of [9, 17]) {
      // Nobody knows whether a session was made whose answer is lost, so all are there first.
      const begun = (): number => new Set(home.lines("log").map((line) => line.split(".")[0])).size;
      await until("some run", () => begun() === 8 && home.lines("log").length >= count);
      await home.kill();
    }
    const outputs = await all;
    assert.deepEqual(outputs[7], ["7.0\n", "7.1\n", "7.2\n"]);
    assert.equal(home.lines("log").length, 24);
    assert.equal(new Set(home.lines("log")).size, 24);
  }),
);

test(
  "over HTTP, with a daemon that is killed and comes back",
  withHome(async (home) => {
    const served = await Served.start(home);
    const client = home.another({ url: served.url, token: TOKEN });
    try {
      await assert.rejects(
        home.another({ url: served.url, token: "wrong" }).systemPing(),
        (error) => error instanceof DaemonError && error.code === "AUTH_FAILED",
      );
      await Session.with({ client, shell: "bash", workingDir: home.work }, async (session) => {
        assert.equal((await session.run("x=5; echo $((x+1))")).stdout, "6\n");
        const lines: string[] = [];
        for await (const line of session.stream("echo a; sleep 0.05; echo b").lines()) lines.push(line);
        assert.deepEqual(lines, ["a", "b"]);
        const replace = async (): Promise<void> => {
          await until("it runs", () => existsSync(join(home.work, "log")));
          await served.kill();
          await served.start();
          rmSync(join(home.work, "log"));
        };
        const replaced = replace();
        const result = await session.run("echo ran >> log; sleep 0.3; echo done", { timeoutMs: GUARD_MS });
        await replaced;
        assert.equal(result.stdout, "done\n");
        const again = replace();
        const script = "touch log; for i in $(seq 1 400); do echo line $i; sleep 0.002; done";
        let heard = "";
        for await (const text of session.stream(script, { timeoutMs: 60_000 }).text()) heard += text;
        await again;
        assert.equal(heard, counted(400));
        const controller = new AbortController();
        const rejected = assert.rejects(session.run("sleep 60", { signal: controller.signal }), /abort/i);
        await until("it runs", async () => (await session.info()).state === "running");
        controller.abort();
        await rejected;
        assert.equal((await session.run("echo free", { waitMs: 20_000 })).stdout, "free\n");
      });
    } finally {
      client.close();
      await served.kill();
    }
  }),
);
