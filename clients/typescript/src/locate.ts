// Where the daemon is: what the caller says, else the environment, else the config file.
// The rules are those of `trl` itself (docs/configuration.md).

import { accessSync, constants, readFileSync } from "node:fs";
import { delimiter, join, resolve } from "node:path";

export type Environment = Readonly<Record<string, string | undefined>>;

/** How to start a daemon when none listens. */
export interface Start {
  readonly program: string;
  readonly args: readonly string[];
  /** Where the daemon says why it did not start. */
  readonly log: string;
  readonly env: Environment;
}

export type Target =
  | {
      readonly kind: "socket";
      readonly path: string;
      readonly start: Start | undefined;
      /** Where a daemon of this home keeps its state, if others may share the socket's place. */
      readonly state: string | undefined;
    }
  | { readonly kind: "http"; readonly url: URL; readonly token: string | undefined };

export interface Where {
  readonly socket?: string | undefined;
  readonly url?: string | undefined;
  readonly token?: string | undefined;
  readonly program?: string | undefined;
  readonly start?: boolean | undefined;
  readonly env?: Environment | undefined;
}

export function target(where: Where): Target {
  const env = where.env ?? process.env;
  if (where.url !== undefined) {
    if (where.socket !== undefined) throw new TypeError("give either a socket or a URL, not both");
    return { kind: "http", url: daemonUrl(where.url), token: where.token ?? (env["TRL_AUTH_TOKEN"] || undefined) };
  }
  const { runtime, state, config } = places(env);
  const named = where.socket ?? (env["TRL_SOCKET_PATH"] || configuredSocket(config));
  const path = resolve(named ?? join(runtime, "trl.sock"));
  // Whoever names a socket means the daemon there, whoever started it.
  const isCommon = named === undefined && !env["TRL_HOME"] && xdg(env, "XDG_RUNTIME_DIR") === undefined;
  const compared = isCommon ? state : undefined;
  const program = where.start === false ? undefined : (where.program ?? onPath("trl", env));
  if (program === undefined) return { kind: "socket", path, start: undefined, state: compared };
  const args = ["serve", "--detached", "--socket", path];
  const start = { program, args, log: join(state, "daemon.log"), env };
  return { kind: "socket", path, start, state: compared };
}

function daemonUrl(text: string): URL {
  let url: URL | undefined;
  try {
    url = new URL(text);
  } catch {
    // Said below.
  }
  if (url === undefined || !["http:", "https:"].includes(url.protocol) || url.hostname === "") {
    throw new TypeError(`${JSON.stringify(text)} is no URL of a daemon; it takes http://HOST:PORT or https://HOST:PORT`);
  }
  url.pathname = `${url.pathname.replace(/\/+$/, "")}/v1/rpc`;
  return url;
}

function places(env: Environment): { runtime: string; state: string; config: string } {
  const home = env["TRL_HOME"];
  if (home) {
    const root = resolve(home);
    return { runtime: join(root, "run"), state: join(root, "state"), config: join(root, "config/config.toml") };
  }
  const user = env["HOME"] || "/";
  return {
    runtime: xdg(env, "XDG_RUNTIME_DIR") ?? `/tmp/trl-${process.geteuid?.() ?? 0}`,
    state: xdg(env, "XDG_STATE_HOME") ?? join(user, ".local/state/trl"),
    config: join(xdg(env, "XDG_CONFIG_HOME") ?? join(user, ".config/trl"), "config.toml"),
  };
}

/** The standard has relative paths ignored. */
function xdg(env: Environment, name: string): string | undefined {
  const value = env[name];
  return value?.startsWith("/") === true ? join(value, "trl") : undefined;
}

/** The one key of the config file that a client needs; the file is flat TOML. */
function configuredSocket(config: string): string | undefined {
  let text: string;
  try {
    text = readFileSync(config, "utf8");
  } catch {
    return undefined;
  }
  const found = /^\s*socket_path\s*=\s*(?:"([^"\\\n]*)"|'([^'\n]*)')/m.exec(text);
  return found?.[1] ?? found?.[2];
}

function onPath(name: string, env: Environment): string | undefined {
  for (const directory of (env["PATH"] ?? "").split(delimiter)) {
    const file = join(directory, name);
    try {
      if (directory !== "") {
        accessSync(file, constants.X_OK);
        return file;
      }
    } catch {
      // Not there.
    }
  }
  return undefined;
}
