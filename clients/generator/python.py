"""Writes the Python client's types (`protocol.py`), exceptions and asyncio method stubs."""

from __future__ import annotations

import keyword
import textwrap
from collections.abc import Iterable

from . import policy
from .model import (
    NULL,
    Alias,
    Anything,
    Contract,
    Field,
    ListOf,
    MapOf,
    Method,
    Named,
    Object,
    OneOf,
    Plain,
    Type,
    Words,
    is_optional,
)

HEADER = '"""{doc}\n\nGenerated from docs/contract/protocol.json by clients/generate; do not edit.\n"""\n'
PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}

#: Streaming method to the class that follows it; any other stream is not resumed.
STREAMS = {
    "exec.stream": "CommandProgress",
    "exec.attach": "CommandProgress",
    "session.attach": "TerminalProgress",
    "events.subscribe": "ChangeProgress",
    "mail.subscribe": "MailProgress",
}
EVENTS_OF = {
    "CommandProgress": "CommandEvent",
    "TerminalProgress": "Output",
    "ChangeProgress": "ChangeEvent | MissedEvent | SubscribedEvent",
    "MailProgress": "MailEvent",
}


def name_of(field: str) -> str:
    return f"{field}_" if keyword.iskeyword(field) or field == "self" else field


class Types:
    """How the contract's types are written, on the side of params or of replies."""

    def __init__(self, contract: Contract) -> None:
        self._named = contract.named

    def written(self, of: Type, *, param: bool) -> str:
        if isinstance(of, Anything):
            return "Any"
        if isinstance(of, Plain):
            return PLAIN[of.name]
        if isinstance(of, Words):
            return f"Literal[{', '.join(quoted(value) for value in of.values)}]"
        if isinstance(of, ListOf):
            item = self.written(of.item, param=param)
            return f"Sequence[{item}]" if param else f"list[{item}]"
        if isinstance(of, MapOf):
            value = self.written(of.value, param=param)
            return f"Mapping[str, {value}]" if param else f"dict[str, {value}]"
        if isinstance(of, OneOf):
            return " | ".join(self.written(option, param=param) for option in of.options)
        declared = self._named[of.name]
        if isinstance(declared, Alias):
            return of.name if is_words(declared) else self.written(declared.type, param=param)
        return f"{of.name}Param" if param else of.name

    def decoded(self, of: Type, expression: str) -> str:
        """The expression that makes a value of this type from JSON."""
        if isinstance(of, Named):
            declared = self._named[of.name]
            if isinstance(declared, Alias):
                return self.decoded(declared.type, expression)
            return f"{of.name}.decode({expression})"
        if isinstance(of, ListOf):
            item = self.decoded(of.item, "item")
            return expression if item == "item" else f"[{item} for item in {expression}]"
        if is_optional(of):
            assert isinstance(of, OneOf)
            rest = [option for option in of.options if option != NULL]
            inner = self.decoded(rest[0], "item") if len(rest) == 1 else "item"
            return expression if inner == "item" else f"(None if (item := {expression}) is None else {inner})"
        return expression

    def used(self, roots: Iterable[Type]) -> set[str]:
        """Names of the objects that are reached from these."""
        found: set[str] = set()
        waiting = list(roots)
        while waiting:
            of = waiting.pop()
            if isinstance(of, ListOf):
                waiting.append(of.item)
            elif isinstance(of, MapOf):
                waiting.append(of.value)
            elif isinstance(of, OneOf):
                waiting += of.options
            elif isinstance(of, Named) and of.name not in found:
                found.add(of.name)
                declared = self._named[of.name]
                waiting += (
                    [declared.type] if isinstance(declared, Alias) else [f.type for f in declared.fields]
                )
        return found


def is_words(alias: Alias) -> bool:
    return isinstance(alias.type, Words)


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def docstring(text: str, indent: str) -> list[str]:
    """`text` as a docstring, broken at a width that the line length check accepts."""
    text = text.replace("\\", "\\\\").replace('"""', "'''")
    lines = [line for part in text.split("\n") for line in (textwrap.wrap(part, 90 - len(indent)) or [""])]
    if len(lines) == 1:
        return [f'{indent}"""{lines[0]}"""']
    return [f'{indent}"""{lines[0]}', *(f"{indent}{line}".rstrip() for line in lines[1:]), f'{indent}"""']


def comment(text: str, indent: str) -> list[str]:
    return [f"{indent}#: {line}" for line in textwrap.wrap(" ".join(text.split()), 88 - len(indent))]


def protocol(contract: Contract) -> str:
    types = Types(contract)
    reply_side = types.used(
        [method.reply for method in contract.methods] + [Named(n) for n in contract.events.values()]
    )
    param_side = types.used(f.type for method in contract.methods for f in method.params.fields)
    out = [
        HEADER.format(doc="The protocol's types: dataclasses for replies, typed dictionaries for params."),
        "from __future__ import annotations",
        "",
        "COLLECTIONS",
        "from dataclasses import dataclass, field",
        "from typing import TYPE_CHECKING, Any, Literal, TypedDict",
        "",
        "from ._display import Shown",
        "",
        "if TYPE_CHECKING:",
        "    from typing_extensions import Self",
        "",
        f"PROTOCOL_VERSION = {contract.protocol_version}",
        "",
        *collection("METHODS", "tuple[str, ...]", "(", ")", [quoted(m.name) for m in contract.methods]),
        *collection("CODES", "tuple[str, ...]", "(", ")", [quoted(code) for code in contract.codes]),
        "#: A repetition of these changes nothing.",
        *collection(
            "REPEATABLE",
            "frozenset[str]",
            "frozenset((",
            "))",
            [quoted(name) for name in policy.repeatable(contract)],
        ),
        "#: The param that makes a repetition of the method harmless.",
        *mapping("ID_PARAMS", policy.id_params(contract)),
        "#: The param that says how long the daemon may wait.",
        *mapping("WAITS", policy.waits(contract)),
    ]
    for name in sorted(reply_side | param_side):
        declared = contract.named[name]
        if isinstance(declared, Alias) and is_words(declared):
            assert isinstance(declared.type, Words)
            words = [quoted(value) for value in declared.type.values]
            out += [f"{name} = Literal[", *(f"    {word}," for word in words), "]", ""]
    for name in sorted(reply_side):
        declared = contract.named[name]
        if isinstance(declared, Object):
            out += ["", *reply_class(types, declared)]
    for name in sorted(param_side):
        declared = contract.named[name]
        if isinstance(declared, Object):
            out += ["", *param_class(types, declared)]
    return imported("\n".join(out).rstrip() + "\n")


def imported(text: str) -> str:
    """Puts the collections that are used in the place that was left for their import."""
    names = [name for name in ("Mapping", "Sequence") if name in split_words(text)]
    line = f"from collections.abc import {', '.join(names)}\n" if names else ""
    return text.replace("COLLECTIONS\n", line)


def collection(name: str, of: str, begin: str, end: str, items: list[str]) -> list[str]:
    return [f"{name}: {of} = {begin}", *(f"    {item}," for item in items), end, ""]


def mapping(name: str, items: dict[str, str]) -> list[str]:
    rows = [f"    {quoted(key)}: {quoted(value)}," for key, value in sorted(items.items())]
    return [f"{name}: dict[str, str] = {{", *rows, "}", ""]


def reply_class(types: Types, of: Object) -> list[str]:
    lines = ["@dataclass(slots=True, kw_only=True)", f"class {of.name}(Shown):"]
    if of.doc:
        lines += [*docstring(of.doc, "    "), ""]
    for field in of.fields:
        lines += comment(field.doc, "    ")
        lines.append(f"    {name_of(field.name)}: {declared_as(types, field)}")
    lines += [
        "",
        "    @classmethod",
        "    def decode(cls, data: dict[str, Any]) -> Self:",
    ]
    if not of.fields:
        return [*lines, "        return cls()", ""]
    lines.append("        return cls(")
    for field in of.fields:
        lines.append(f"            {name_of(field.name)}={read_from(types, field)},")
    return [*lines, "        )", ""]


def declared_as(types: Types, field: Field) -> str:
    written = types.written(field.type, param=False)
    if field.required:
        return written
    if field.type == Plain("boolean"):
        return f"{written} = False"
    if isinstance(field.type, ListOf):
        return f"{written} = field(default_factory={written})"
    return f"{written} = None" if is_optional(field.type) or written == "Any" else f"{written} | None = None"


def read_from(types: Types, field: Field) -> str:
    key = quoted(field.name)
    if field.required:
        return types.decoded(field.type, f"data[{key}]")
    if field.type == Plain("boolean"):
        return f"data.get({key}, False)"
    if isinstance(field.type, ListOf):
        decoded = types.decoded(field.type, f"data.get({key}, ())")
        return decoded if needs_decoding(types, field) else f"data.get({key}) or []"
    wrapped = field.type if is_optional(field.type) else OneOf((field.type, NULL))
    return types.decoded(wrapped, f"data.get({key})")


def needs_decoding(types: Types, field: Field) -> bool:
    return types.decoded(field.type, "x") != "x"


def param_class(types: Types, of: Object) -> list[str]:
    """A typed dictionary; the functional form, since a key may be a word of the language."""
    required = [f for f in of.fields if f.required]
    optional = [f for f in of.fields if not f.required]
    name = f"{of.name}Param"
    lines: list[str] = []
    base = "TypedDict"
    if required and optional:
        base = f"_{name}Required"
        lines += [*typed_dict(types, base, "TypedDict", required, total=True), "", ""]
        return lines + typed_dict(types, name, base, optional, total=False)
    return typed_dict(types, name, base, required or optional, total=bool(required))


def typed_dict(types: Types, name: str, base: str, fields: list[Field], *, total: bool) -> list[str]:
    lines = [f"class {name}({base}{'' if total else ', total=False'}):"]
    for field in fields:
        lines += comment(field.doc, "    ")
        lines.append(f"    {field.name}: {types.written(field.type, param=True)}")
    return [*lines, *([] if fields else ["    pass"]), ""]


def faults(contract: Contract) -> str:
    names = {code: policy.exception_name(code) for code in contract.codes}
    out = [
        HEADER.format(doc="One exception for each code of the protocol."),
        "from __future__ import annotations",
        "",
        "from ._failures import DaemonError",
        "",
    ]
    for code, name in names.items():
        out += ["", f"class {name}(DaemonError):", f'    """`{code}`."""', ""]
    out += ["", "BY_CODE: dict[str, type[DaemonError]] = {"]
    out += [f"    {quoted(code)}: {name}," for code, name in names.items()]
    out += ["}", "", "__all__ = [", *(f"    {quoted(name)}," for name in sorted(names.values())), "]"]
    return "\n".join(out) + "\n"


def methods(contract: Contract) -> str:
    types = Types(contract)
    body: list[str] = []
    for method in contract.methods:
        body += stub(types, method)
    text = "\n".join(body)
    from_protocol = sorted(
        (
            name
            for name in [
                *(n for n, d in contract.named.items() if isinstance(d, Object) or is_words(d)),
                *(f"{n}Param" for n in contract.named),
            ]
            if any(part == name for part in split_words(text))
        ),
        # As the linter sorts imports.
        key=str.lower,
    )
    progress = sorted({*STREAMS.values(), "RawProgress"} & set(split_words(text)))
    events = sorted({"CommandEvent", "Output"} & set(split_words(text)))
    out = [
        HEADER.format(doc="Every method of the protocol, one stub each."),
        "from __future__ import annotations",
        "",
        "COLLECTIONS",
        f"from typing import Any, {'Literal, ' if 'Literal' in split_words(text) else ''}TypeVar",
        "",
        "from .._display import Shown",
        "from .._progress import (",
        *(f"    {name}," for name in sorted([*progress, *events, "Progress"])),
        ")",
        "from ..protocol import (",
        *(f"    {name}," for name in from_protocol),
        ")",
        "from ._stream import AsyncEventStream",
        "",
        'ReplyT = TypeVar("ReplyT", bound=Shown)',
        'EventT = TypeVar("EventT")',
        "",
        "",
        "def _given(params: dict[str, Any]) -> dict[str, Any]:",
        "    return {name: value for name, value in params.items() if value is not None}",
        "",
        "",
        "class AsyncMethods:",
        '    """The protocol as it is: what each method means is told by docs/protocol.md."""',
        "",
        "    async def _request(self, method: str, params: dict[str, Any], reply: type[ReplyT]) -> ReplyT:",
        "        raise NotImplementedError",
        "",
        "    def _stream(self, progress: Progress[EventT, ReplyT]) -> AsyncEventStream[EventT, ReplyT]:",
        "        raise NotImplementedError",
        "",
        text,
    ]
    return imported("\n".join(out).rstrip() + "\n")


def split_words(text: str) -> set[str]:
    return set("".join(c if c.isalnum() or c == "_" else " " for c in text).split())


def stub(types: Types, method: Method) -> list[str]:
    reply = method.reply.name
    progress = STREAMS.get(method.name, "RawProgress")
    if method.events:
        event = EVENTS_OF.get(progress, "tuple[str, dict[str, Any]]")
        head, result = "def", f"AsyncEventStream[{event}, {reply}]"
    else:
        head, result = "async def", reply
    lines = [f"    {head} {method.snake}("]
    ordered = sorted(method.params.fields, key=lambda field: not field.required)
    lines += ["        self,", *(["        *,"] if ordered else [])]
    for field in ordered:
        written = types.written(field.type, param=True)
        if field.required:
            lines.append(f"        {name_of(field.name)}: {written},")
        elif is_optional(field.type) or written == "Any":
            lines.append(f"        {name_of(field.name)}: {written} = None,")
        else:
            lines.append(f"        {name_of(field.name)}: {written} | None = None,")
    lines.append(f"    ) -> {result}:")
    doc = f"`{method.name}`: {' '.join(method.about.split())}"
    lines += docstring(doc, "        ")
    lines += ["        params = _given(", "            {"]
    lines += [f"                {quoted(f.name)}: {name_of(f.name)}," for f in ordered]
    lines += ["            }", "        )"]
    if not method.events:
        lines.append(f"        return await self._request({quoted(method.name)}, params, {reply})")
    else:
        lines.append(f"        return self._stream({progress}({quoted(method.name)}, params, {reply}))")
    return [*lines, ""]
