"""Where the daemon is: what the caller says, else the environment, else the config file.

The rules are those of `trl` itself (docs/configuration.md).
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Start:
    """How to start a daemon when none listens."""

    program: str
    args: tuple[str, ...]
    #: Held while a daemon is started, so that clients that race start one between them.
    lock: Path
    #: Where the daemon says why it did not start.
    log: Path


@dataclass(frozen=True)
class SocketTarget:
    path: Path
    start: Start | None
    #: Where a daemon of this home keeps its state, if others may share the socket's place.
    state: Path | None = None


@dataclass(frozen=True)
class HttpTarget:
    host: str
    port: int
    #: The `Host` header.
    authority: str
    path: str
    tls: bool
    token: str | None


Target = SocketTarget | HttpTarget


def target(
    socket: str | os.PathLike[str] | None,
    url: str | None,
    token: str | None,
    *,
    program: str | os.PathLike[str] | None,
    start: bool,
    environ: Mapping[str, str],
) -> Target:
    if url is not None:
        if socket is not None:
            raise ValueError("give either a socket or a URL, not both")
        return _http(url, token or environ.get("TRL_AUTH_TOKEN") or None)
    runtime, state, config = _places(environ)
    named = socket or environ.get("TRL_SOCKET_PATH") or _configured_socket(config)
    path = Path(os.path.abspath(named or runtime / "trl.sock"))
    # Whoever names a socket means the daemon there, whoever started it.
    is_common = not named and not environ.get("TRL_HOME") and _xdg(environ, "XDG_RUNTIME_DIR") is None
    compared = state if is_common else None
    found = str(program) if program is not None else shutil.which("trl", path=environ.get("PATH"))
    if not start or found is None:
        return SocketTarget(path, None, compared)
    args = ("serve", "--detached", "--socket", str(path))
    return SocketTarget(path, Start(found, args, runtime / "start.lock", state / "daemon.log"), compared)


def _http(url: str, token: str | None) -> HttpTarget:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or parts.hostname is None:
        raise ValueError(f"{url!r} is no URL of a daemon; it takes http://HOST:PORT or https://HOST:PORT")
    tls = parts.scheme == "https"
    port = parts.port or (443 if tls else 80)
    authority = parts.netloc.rpartition("@")[2]
    return HttpTarget(parts.hostname, port, authority, parts.path.rstrip("/") + "/v1/rpc", tls, token)


def _places(environ: Mapping[str, str]) -> tuple[Path, Path, Path]:
    """The runtime directory, the state directory and the config file."""
    home = environ.get("TRL_HOME")
    if home:
        root = Path(os.path.abspath(home))
        return root / "run", root / "state", root / "config" / "config.toml"
    user_home = Path(environ.get("HOME") or "/")
    return (
        _xdg(environ, "XDG_RUNTIME_DIR") or Path(f"/tmp/trl-{os.geteuid()}"),
        _xdg(environ, "XDG_STATE_HOME") or user_home / ".local/state/trl",
        (_xdg(environ, "XDG_CONFIG_HOME") or user_home / ".config/trl") / "config.toml",
    )


def _xdg(environ: Mapping[str, str], name: str) -> Path | None:
    """The standard has relative paths ignored."""
    value = environ.get(name, "")
    return Path(value) / "trl" if value.startswith("/") else None


def _configured_socket(config: Path) -> str | None:
    """The one key of the config file that a client needs; the file is flat TOML."""
    try:
        text = config.read_text(encoding="utf-8")
    except OSError:
        return None
    found = re.search(r"""^\s*socket_path\s*=\s*(?:"([^"\\\n]*)"|'([^'\n]*)')""", text, re.MULTILINE)
    return (found.group(1) or found.group(2)) if found else None
