"""What the contract says, independent of any language."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Anything:
    """Any JSON value."""


@dataclass(frozen=True)
class Plain:
    """`string`, `integer`, `number`, `boolean` or `null`."""

    name: str


@dataclass(frozen=True)
class Words:
    """One of a fixed set of strings."""

    values: tuple[str, ...]


@dataclass(frozen=True)
class ListOf:
    item: Type


@dataclass(frozen=True)
class MapOf:
    value: Type


@dataclass(frozen=True)
class Named:
    """A reference to an entry of `Contract.named`."""

    name: str


@dataclass(frozen=True)
class OneOf:
    options: tuple[Type, ...]


Type = Anything | Plain | Words | ListOf | MapOf | Named | OneOf

NULL = Plain("null")


def optional(of: Type) -> Type:
    """`of` or null."""
    options = of.options if isinstance(of, OneOf) else (of,)
    return of if NULL in options or isinstance(of, Anything) else OneOf((*options, NULL))


def is_optional(of: Type) -> bool:
    return isinstance(of, OneOf) and NULL in of.options


@dataclass(frozen=True)
class Field:
    name: str
    type: Type
    required: bool
    doc: str


@dataclass(frozen=True)
class Alias:
    """A name for a type that is no object."""

    name: str
    type: Type
    doc: str


@dataclass(frozen=True)
class Object:
    name: str
    fields: tuple[Field, ...]
    doc: str
    #: Exactly one of the fields is there: a union of objects with one field each.
    tagged: bool = False


@dataclass(frozen=True)
class Method:
    name: str
    params: Object
    reply: Named
    #: Names of the events that come before the reply; empty for most methods.
    events: tuple[str, ...]
    about: str
    #: `safe`, `by_id` or `never`.
    retry: str
    #: The param that makes a repetition harmless, with `by_id`.
    retry_id: str | None

    @property
    def snake(self) -> str:
        return self.name.replace(".", "_")


@dataclass
class Contract:
    protocol_version: int
    codes: tuple[str, ...]
    methods: list[Method] = field(default_factory=list[Method])
    #: Event name to the name of its data's type.
    events: dict[str, str] = field(default_factory=dict[str, str])
    named: dict[str, Alias | Object] = field(default_factory=dict[str, "Alias | Object"])


def camel(name: str) -> str:
    """`exec.send_and_wait` as `ExecSendAndWait`."""
    return "".join(word[:1].upper() + word[1:] for word in name.replace(".", "_").split("_"))
