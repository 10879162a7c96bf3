// Whether a value is what it is taken for, as the other SDK asks.

import type { ProcessStatus } from "./sandbox-process.js";
import type { ExecResult } from "./sandbox-session.js";

const STATUSES: readonly string[] = ["starting", "running", "completed", "failed", "killed", "error"];

function has(value: unknown, fields: Readonly<Record<string, string>>): boolean {
  if (typeof value !== "object" || value === null) return false;
  return Object.entries(fields).every(([name, type]) => typeof (value as Record<string, unknown>)[name] === type);
}

export function isExecResult(value: unknown): value is ExecResult {
  return has(value, { success: "boolean", exitCode: "number", stdout: "string", stderr: "string" });
}

export function isProcess(value: unknown): boolean {
  return has(value, { id: "string", command: "string", status: "string" });
}

export function isProcessStatus(value: string): value is ProcessStatus {
  return STATUSES.includes(value);
}
