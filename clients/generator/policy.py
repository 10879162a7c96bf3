"""What the contract does not say: which requests may be sent again when an answer was lost."""

from __future__ import annotations

from .model import Contract

#: A repetition changes nothing: these only read, or set what they set once more.
_READS = (
    "agent.list",
    "agent.sessions",
    "agent.whoami",
    "contact.list",
    "contact.presence",
    "exec.info",
    "exec.list",
    "exec.output",
    "exec.resize",
    "exec.screen",
    "exec.wait",
    "file.list",
    "file.read",
    "file.stat",
    "mail.await_reply",
    "mail.check_reply",
    "mail.dead_letters",
    "mail.held",
    "mail.status",
    "runtime.grants",
    "session.info",
    "session.list",
    "session.resize",
    "system.info",
    "system.ping",
    "system.runtimes",
    "system.stats",
)

#: A request that carries one of these is done once, however often it is sent.
_ID_PARAMS = ("run_id", "write_id", "send_id")

#: Params that say how long to wait, counted from when the daemon has the request.
_WAITS = {
    "exec.wait": "timeout_s",
    "mail.await_reply": "timeout_s",
}


def repeatable(contract: Contract) -> list[str]:
    known = {method.name for method in contract.methods}
    return [name for name in _READS if name in known]


def id_params(contract: Contract) -> dict[str, str]:
    """Method to the param that makes a repetition harmless."""
    return {
        method.name: field.name
        for method in contract.methods
        for field in method.params.fields
        if field.name in _ID_PARAMS
    }


def waits(contract: Contract) -> dict[str, str]:
    known = {method.name for method in contract.methods}
    return {name: param for name, param in _WAITS.items() if name in known}


#: The word in an exception's name is the code's, in the usual form: SESSION_BUSY is SessionBusyError.
def exception_name(code: str) -> str:
    words = "".join(word.capitalize() for word in code.split("_"))
    return words if words.endswith("Error") else f"{words}Error"
