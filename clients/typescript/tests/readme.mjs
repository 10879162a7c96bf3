// Runs the examples of the README against the package that is installed here, and compares what they print.
//
//     node readme.mjs README.md
//
// `trl` must be on PATH, and the daemon's directory be set by TRL_HOME.

import { spawnSync } from "node:child_process";
import { readFileSync, rmSync, writeFileSync } from "node:fs";

const readme = readFileSync(process.argv[2], "utf8");
const examples = [...readme.matchAll(/^```js\n(.*?)^```\n\n^```text\n(.*?)^```$/gms)];
let failures = 0;
for (const [number, [, program, expected]] of examples.entries()) {
  const file = `example-${number + 1}.mjs`;
  writeFileSync(file, program);
  const ran = spawnSync(process.execPath, [file], { encoding: "utf8", timeout: 120_000 });
  rmSync(file);
  if (ran.status !== 0 || ran.stdout !== expected || ran.stderr !== "") {
    failures += 1;
    console.log(`example ${number + 1}: exit ${ran.status}\n${ran.stdout}${ran.stderr}\nexpected:\n${expected}`);
  }
}
console.log(`README examples: ${examples.length - failures} of ${examples.length} as written`);
process.exitCode = failures > 0 || examples.length < 5 ? 1 : 0;
