"""One exception for each code of the protocol.

Generated from docs/contract/protocol.json by clients/generate; do not edit.
"""

from __future__ import annotations

from ._failures import DaemonError


class AgentNotFoundError(DaemonError):
    """`AGENT_NOT_FOUND`."""


class AuthFailedError(DaemonError):
    """`AUTH_FAILED`."""


class CommandFailedError(DaemonError):
    """`COMMAND_FAILED`."""


class CommandTimeoutError(DaemonError):
    """`COMMAND_TIMEOUT`."""


class ContactRequiredError(DaemonError):
    """`CONTACT_REQUIRED`."""


class ExecNotFoundError(DaemonError):
    """`EXEC_NOT_FOUND`."""


class FileConflictError(DaemonError):
    """`FILE_CONFLICT`."""


class FileDeniedError(DaemonError):
    """`FILE_DENIED`."""


class FileExistsError(DaemonError):
    """`FILE_EXISTS`."""


class FileNotFoundError(DaemonError):
    """`FILE_NOT_FOUND`."""


class InternalError(DaemonError):
    """`INTERNAL_ERROR`."""


class InvalidParamsError(DaemonError):
    """`INVALID_PARAMS`."""


class IsolationUnavailableError(DaemonError):
    """`ISOLATION_UNAVAILABLE`."""


class LabelTakenError(DaemonError):
    """`LABEL_TAKEN`."""


class MaxSessionsReachedError(DaemonError):
    """`MAX_SESSIONS_REACHED`."""


class MessageNotFoundError(DaemonError):
    """`MESSAGE_NOT_FOUND`."""


class MethodNotFoundError(DaemonError):
    """`METHOD_NOT_FOUND`."""


class NameTakenError(DaemonError):
    """`NAME_TAKEN`."""


class ParseError(DaemonError):
    """`PARSE_ERROR`."""


class PayloadTooLargeError(DaemonError):
    """`PAYLOAD_TOO_LARGE`."""


class ResourcePressureError(DaemonError):
    """`RESOURCE_PRESSURE`."""


class RuntimeNotFoundError(DaemonError):
    """`RUNTIME_NOT_FOUND`."""


class RuntimeUnavailableError(DaemonError):
    """`RUNTIME_UNAVAILABLE`."""


class SessionBusyError(DaemonError):
    """`SESSION_BUSY`."""


class SessionLimitExceededError(DaemonError):
    """`SESSION_LIMIT_EXCEEDED`."""


class SessionNotFoundError(DaemonError):
    """`SESSION_NOT_FOUND`."""


class SessionTerminatedError(DaemonError):
    """`SESSION_TERMINATED`."""


class ShuttingDownError(DaemonError):
    """`SHUTTING_DOWN`."""


class WaitTimeoutError(DaemonError):
    """`WAIT_TIMEOUT`."""


BY_CODE: dict[str, type[DaemonError]] = {
    "AGENT_NOT_FOUND": AgentNotFoundError,
    "AUTH_FAILED": AuthFailedError,
    "COMMAND_FAILED": CommandFailedError,
    "COMMAND_TIMEOUT": CommandTimeoutError,
    "CONTACT_REQUIRED": ContactRequiredError,
    "EXEC_NOT_FOUND": ExecNotFoundError,
    "FILE_CONFLICT": FileConflictError,
    "FILE_DENIED": FileDeniedError,
    "FILE_EXISTS": FileExistsError,
    "FILE_NOT_FOUND": FileNotFoundError,
    "INTERNAL_ERROR": InternalError,
    "INVALID_PARAMS": InvalidParamsError,
    "ISOLATION_UNAVAILABLE": IsolationUnavailableError,
    "LABEL_TAKEN": LabelTakenError,
    "MAX_SESSIONS_REACHED": MaxSessionsReachedError,
    "MESSAGE_NOT_FOUND": MessageNotFoundError,
    "METHOD_NOT_FOUND": MethodNotFoundError,
    "NAME_TAKEN": NameTakenError,
    "PARSE_ERROR": ParseError,
    "PAYLOAD_TOO_LARGE": PayloadTooLargeError,
    "RESOURCE_PRESSURE": ResourcePressureError,
    "RUNTIME_NOT_FOUND": RuntimeNotFoundError,
    "RUNTIME_UNAVAILABLE": RuntimeUnavailableError,
    "SESSION_BUSY": SessionBusyError,
    "SESSION_LIMIT_EXCEEDED": SessionLimitExceededError,
    "SESSION_NOT_FOUND": SessionNotFoundError,
    "SESSION_TERMINATED": SessionTerminatedError,
    "SHUTTING_DOWN": ShuttingDownError,
    "WAIT_TIMEOUT": WaitTimeoutError,
}

__all__ = [
    "AgentNotFoundError",
    "AuthFailedError",
    "CommandFailedError",
    "CommandTimeoutError",
    "ContactRequiredError",
    "ExecNotFoundError",
    "FileConflictError",
    "FileDeniedError",
    "FileExistsError",
    "FileNotFoundError",
    "InternalError",
    "InvalidParamsError",
    "IsolationUnavailableError",
    "LabelTakenError",
    "MaxSessionsReachedError",
    "MessageNotFoundError",
    "MethodNotFoundError",
    "NameTakenError",
    "ParseError",
    "PayloadTooLargeError",
    "ResourcePressureError",
    "RuntimeNotFoundError",
    "RuntimeUnavailableError",
    "SessionBusyError",
    "SessionLimitExceededError",
    "SessionNotFoundError",
    "SessionTerminatedError",
    "ShuttingDownError",
    "WaitTimeoutError",
]
