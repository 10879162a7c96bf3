"""Writes the TypeScript client's types (`protocol.ts`) and method stubs (`methods.ts`)."""

from __future__ import annotations

import re
import textwrap

from . import policy
from .model import (
    Alias,
    Anything,
    Contract,
    ListOf,
    MapOf,
    Method,
    Object,
    OneOf,
    Plain,
    Type,
    Words,
)

HEADER = "// {doc}\n// Generated from docs/contract/protocol.json by clients/generate; do not edit.\n"
PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}

#: Streaming method to the class that follows it and the events that it tells.
STREAMS = {
    "exec.stream": ("CommandProgress", "CommandEvent"),
    "exec.attach": ("CommandProgress", "CommandEvent"),
    "session.attach": ("TerminalProgress", "Output"),
    "events.subscribe": ("ChangeProgress", "ChangesEvent"),
    "mail.subscribe": ("MailProgress", "MailEvent"),
}


def written(of: Type) -> str:
    if isinstance(of, Anything):
        return "unknown"
    if isinstance(of, Plain):
        return PLAIN[of.name]
    if isinstance(of, Words):
        return " | ".join(f'"{value}"' for value in of.values)
    if isinstance(of, ListOf):
        item = written(of.item)
        return f"readonly ({item})[]" if " | " in item else f"readonly {item}[]"
    if isinstance(of, MapOf):
        return f"Readonly<Record<string, {written(of.value)}>>"
    if isinstance(of, OneOf):
        return " | ".join(
            f"({written(option)})" if isinstance(option, ListOf) else written(option) for option in of.options
        )
    return of.name


def comment(text: str, indent: str) -> list[str]:
    """A doc comment."""
    lines = textwrap.wrap(" ".join(text.replace("*/", "* /").split()), 100 - len(indent))
    if not lines:
        return []
    if len(lines) == 1:
        return [f"{indent}/** {lines[0]} */"]
    return [f"{indent}/**", *(f"{indent} * {line}" for line in lines), f"{indent} */"]


def interface(of: Object) -> list[str]:
    lines = comment(of.doc, "")
    if of.tagged:
        options = [f"  | {{ readonly {f.name}: {written(f.type)} }}" for f in of.fields]
        return [*lines, f"export type {of.name} =", *options[:-1], f"{options[-1]};", ""]
    if not of.fields:
        return [*lines, f"export type {of.name} = Readonly<Record<string, never>>;", ""]
    lines.append(f"export interface {of.name} {{")
    for field in of.fields:
        lines += comment(field.doc, "  ")
        mark = "" if field.required else "?"
        lines.append(f"  readonly {field.name}{mark}: {written(field.type)};")
    return [*lines, "}", ""]


def protocol(contract: Contract) -> str:
    out = [
        HEADER.format(doc="The protocol's types."),
        f"export const PROTOCOL_VERSION = {contract.protocol_version};",
        "",
        *strings("METHODS", [method.name for method in contract.methods]),
        "export type MethodName = (typeof METHODS)[number];",
        "",
        *strings("CODES", list(contract.codes)),
        "export type Code = (typeof CODES)[number];",
        "",
        "/** A repetition of these changes nothing. */",
        "export const REPEATABLE: ReadonlySet<string> = new Set<string>([",
        *(f'  "{name}",' for name in policy.repeatable(contract)),
        "]);",
        "",
        "/** The param that makes a repetition of the method harmless. */",
        *mapping("ID_PARAMS", policy.id_params(contract)),
        "/** The param that says how long the daemon may wait. */",
        *mapping("WAITS", policy.waits(contract)),
    ]
    for _, declared in sorted(contract.named.items()):
        if isinstance(declared, Alias):
            doc = comment(declared.doc, "")
            out += [*doc, f"export type {declared.name} = {written(declared.type)};", ""]
        else:
            out += interface(declared)
    for method in contract.methods:
        out += interface(method.params)
    out += ["/** Params and reply of every method. */", "export interface Calls {"]
    for method in contract.methods:
        out.append(f'  "{method.name}": {{ params: {method.params.name}; reply: {method.reply.name} }};')
    return "\n".join([*out, "}"]) + "\n"


def strings(name: str, values: list[str]) -> list[str]:
    return [f"export const {name} = [", *(f'  "{value}",' for value in values), "] as const;", ""]


def mapping(name: str, items: dict[str, str]) -> list[str]:
    rows = [f'  "{key}": "{value}",' for key, value in sorted(items.items())]
    return [f"export const {name}: Readonly<Record<string, string>> = {{", *rows, "};", ""]


def methods(contract: Contract) -> str:
    body = [line for method in contract.methods for line in stub(method)]
    text = "\n".join(body)
    words = set(re.findall(r"\w+", text))
    progress = sorted(words & {name for pair in STREAMS.values() for name in pair if name != "MailEvent"})
    known = [*contract.named, *(method.params.name for method in contract.methods)]
    types = sorted(name for name in set(known) if name in words)
    raw = ["RawProgress"] if "RawProgress" in words else []
    out = [
        HEADER.format(doc="Every method of the protocol, one stub each."),
        "import {",
        *(f"  {'type ' if not name.endswith('Progress') else ''}{name}," for name in [*progress, *raw]),
        "  type Progress,",
        '} from "./progress.js";',
        "import type {",
        "  Calls,",
        *(f"  {name}," for name in types),
        '} from "./protocol.js";',
        'import type { EventStream } from "./stream.js";',
        "",
        "/** Ends the wait for an answer. What was asked for may be done nevertheless. */",
        "export interface CallOptions {",
        "  readonly signal?: AbortSignal | undefined;",
        "}",
        "",
        "/** The protocol as it is: what each method means is told by docs/protocol.md. */",
        "export abstract class Methods {",
        "  abstract request<M extends keyof Calls>(",
        "    method: M,",
        '    params: Calls[M]["params"],',
        "    options?: CallOptions,",
        '  ): Promise<Calls[M]["reply"]>;',
        "",
        "  abstract open<E, R>(progress: Progress<E, R>, options?: CallOptions): EventStream<E, R>;",
        "",
        text,
        "}",
    ]
    return "\n".join(out) + "\n"


def stub(method: Method) -> list[str]:
    params, reply = method.params.name, method.reply.name
    default = "" if any(field.required for field in method.params.fields) else " = {}"
    doc = f"`{method.name}`: {method.about}"
    lines = comment(doc, "  ")
    if method.events:
        progress, event = STREAMS.get(method.name, ("RawProgress", "[string, unknown]"))
        result = f"EventStream<{event}, {reply}>"
        return [
            *lines,
            f"  {camel(method.name)}(params: {params}{default}, options?: CallOptions): {result} {{",
            f'    return this.open(new {progress}<{reply}>("{method.name}", {{ ...params }}), options);',
            "  }",
            "",
        ]
    return [
        *lines,
        f"  {camel(method.name)}(params: {params}{default}, options?: CallOptions): Promise<{reply}> {{",
        f'    return this.request("{method.name}", params, options);',
        "  }",
        "",
    ]


def camel(method: str) -> str:
    first, *rest = re.split(r"[._]", method)
    return first + "".join(word.capitalize() for word in rest)
