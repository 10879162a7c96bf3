"""Every exception of the package."""

from ._failures import (
    DaemonError,
    LostError,
    NoDaemonError,
    NotStartedError,
    TerminalRuntimeError,
    UnreadableError,
    UntrustedSocketError,
)
from ._faults import *  # noqa: F403
from ._faults import __all__ as _codes

__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    "DaemonError",
    "LostError",
    "NoDaemonError",
    "NotStartedError",
    "TerminalRuntimeError",
    "UnreadableError",
    "UntrustedSocketError",
    *_codes,
]
