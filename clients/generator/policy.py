"""What the clients are told about a method beside its types."""

from __future__ import annotations

from .model import Contract

#: Params that say how long to wait, counted from when the daemon has the request.
_WAITS = {"exec.wait": "timeout_s"}


def repeatable(contract: Contract) -> list[str]:
    """Methods that may be sent again when an answer was lost: a repetition changes nothing."""
    return [method.name for method in contract.methods if method.retry == "safe"]


def id_params(contract: Contract) -> dict[str, str]:
    """Method to the param by which the daemon knows a repetition."""
    return {method.name: method.retry_id for method in contract.methods if method.retry_id is not None}


def waits(contract: Contract) -> dict[str, str]:
    known = {method.name for method in contract.methods}
    return {name: param for name, param in _WAITS.items() if name in known}


def exception_name(code: str) -> str:
    """The code in the usual form: SESSION_BUSY is SessionBusyError."""
    words = "".join(word.capitalize() for word in code.split("_"))
    return words if words.endswith("Error") else f"{words}Error"
