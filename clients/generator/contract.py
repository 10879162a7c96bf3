"""Reads `docs/contract/protocol.json` into the model.

Every schema of the contract stands alone, with its own `$defs`. A definition that is
the same wherever it occurs keeps its name. Where two differ, each is named after the
part of the protocol that it belongs to (`SessionState`, `ExecState`).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

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
    camel,
    optional,
)

Schema = Any


def read(path: Path) -> Contract:
    raw = json.loads(path.read_text(encoding="utf-8"))
    contract = Contract(raw["protocol_version"], tuple(raw["codes"]))
    names = _Names(raw)
    for event, schema in sorted(raw["events"].items()):
        reader = _Reader(contract, names, "events", schema)
        contract.events[event] = reader.declare(schema["title"], schema)
    for name, method in sorted(raw["methods"].items()):
        params = _Reader(contract, names, name, method["params"])
        reply = _Reader(contract, names, name, method["reply"])
        contract.methods.append(
            Method(
                name,
                params.object(f"{camel(name)}Params", method["params"]),
                Named(reply.declare(names.reply(name, method["reply"]), method["reply"])),
                tuple(method.get("events", ())),
                method["about"],
                method["retry"],
                method.get("retry_id"),
            )
        )
    return contract


def _content(schema: Schema) -> str:
    """The schema without what depends on where it stands."""
    if isinstance(schema, dict):
        schema = {k: v for k, v in _keys(schema).items() if k not in ("$defs", "$schema", "title")}
    return json.dumps(schema, sort_keys=True)


def _keys(schema: Schema) -> dict[str, Any]:
    """The schema as an object; `true`, which allows anything, says nothing."""
    return cast("dict[str, Any]", schema) if isinstance(schema, dict) else {}


class _Names:
    """Which name a definition has, given all others."""

    def __init__(self, raw: dict[str, Any]) -> None:
        self._contents: dict[str, set[str]] = {}
        self._by_domain: dict[tuple[str, str], set[str]] = {}
        taken = {schema["title"] for schema in raw["events"].values()}
        for where, schema in _all_schemas(raw):
            for name, definition in schema.get("$defs", {}).items():
                content = _content(definition)
                self._contents.setdefault(name, set()).add(content)
                self._by_domain.setdefault((_domain(where), name), set()).add(content)
                if name in taken:
                    self._contents[name].add("an event")

    def definition(self, where: str, name: str) -> str:
        if len(self._contents[name]) == 1:
            return name
        if len(self._by_domain[_domain(where), name]) == 1:
            return camel(_domain(where)) + name
        return camel(where) + name

    def reply(self, method: str, schema: Schema) -> str:
        """A reply that is also a part of other replies has that one's name."""
        title = schema.get("title", "")
        if self._contents.get(title) == {_content(schema)}:
            return title
        return f"{camel(method)}Reply"


def _domain(where: str) -> str:
    return where.split(".")[0]


def _all_schemas(raw: dict[str, Any]) -> list[tuple[str, Schema]]:
    found = [("events", schema) for schema in raw["events"].values()]
    for name, method in raw["methods"].items():
        found += [(name, method["params"]), (name, method["reply"])]
    return found


class _Reader:
    """Reads the types of one schema."""

    def __init__(self, contract: Contract, names: _Names, where: str, root: Schema) -> None:
        self._contract = contract
        self._names = names
        self._where = where
        self._definitions: dict[str, Schema] = root.get("$defs", {})

    def declare(self, name: str, schema: Schema) -> str:
        named = self._contract.named
        if name in named:
            return name
        # Its place is kept first: a type may contain itself.
        named[name] = Object(name, (), "")
        tagged = _tagged(schema)
        if tagged:
            named[name] = self._merged(name, schema, tagged)
        elif "properties" in schema or _is_empty_object(schema):
            named[name] = self.object(name, schema)
        else:
            named[name] = Alias(name, self._type(name, schema), _doc(schema))
        return name

    def object(self, name: str, schema: Schema) -> Object:
        required = set(schema.get("required", ()))
        fields = [
            Field(key, self._type(name + camel(key), value), key in required, _doc(value))
            for key, value in schema.get("properties", {}).items()
        ]
        return Object(name, tuple(fields), _doc(schema))

    def _merged(self, name: str, schema: Schema, parts: list[Schema]) -> Object:
        """A union of objects with one field each, as one object of which one field is there."""
        fields: list[Field] = []
        for part in parts:
            ((key, value),) = part["properties"].items()
            fields.append(Field(key, self._type(name + camel(key), value), False, _doc(value)))
        return Object(name, tuple(fields), _doc(schema), tagged=True)

    def _type(self, name: str, schema: Schema) -> Type:
        """`name` is what an object that is written out here is called."""
        if schema is True or schema == {}:
            return Anything()
        if "$ref" in schema:
            definition = schema["$ref"].rsplit("/", 1)[-1]
            declared = self.declare(
                self._names.definition(self._where, definition), self._definitions[definition]
            )
            return Named(declared)
        if "allOf" in schema and len(schema["allOf"]) == 1:
            return self._type(name, schema["allOf"][0])
        if "const" in schema:
            return Words((schema["const"],))
        if "enum" in schema:
            return Words(tuple(schema["enum"]))
        for key in ("anyOf", "oneOf"):
            if key in schema:
                return _union(
                    [self._type(_option_name(name, option, schema[key]), option) for option in schema[key]]
                )
        return self._by_type_word(name, schema)

    def _by_type_word(self, name: str, schema: Schema) -> Type:
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = cast("list[str]", kind)
            rest = [word for word in kind if word != "null"]
            options = [self._by_type_word(name, {**schema, "type": word}) for word in rest]
            return optional(_union(options)) if "null" in kind else _union(options)
        if kind == "array":
            return ListOf(self._type(f"{name}Item", schema.get("items", True)))
        if kind == "object":
            if "properties" in schema or _is_empty_object(schema):
                return Named(self.declare(name, schema))
            return MapOf(self._type(f"{name}Value", schema.get("additionalProperties", True)))
        return Plain(kind) if kind else Anything()


def _is_empty_object(schema: Schema) -> bool:
    return _keys(schema).get("type") == "object" and _keys(schema).get("additionalProperties") is False


def _tagged(schema: Schema) -> list[Schema]:
    """The parts of a union whose parts are objects with one field each."""
    parts: list[Schema] = _keys(schema).get("oneOf", [])
    return parts if all(len(_keys(part).get("properties", ())) == 1 for part in parts) else []


def _option_name(name: str, option: Schema, options: list[Schema]) -> str:
    """An object beside words has a name of its own: that of the union belongs to all of them together."""
    properties = list(_keys(option).get("properties", ()))
    if properties and any("const" in _keys(other) for other in options):
        return name + "".join(word.capitalize() for word in properties[0].split("_"))
    return name


def _union(options: list[Type]) -> Type:
    """Words are put together; null comes last; a union in a union becomes part of it."""
    flat: list[Type] = []
    for option in options:
        flat += option.options if isinstance(option, OneOf) else (option,)
    words = tuple(value for option in flat if isinstance(option, Words) for value in option.values)
    others = [option for option in flat if not isinstance(option, Words) and option != NULL]
    merged: list[Type] = [Words(words)] if words else []
    merged += [option for n, option in enumerate(others) if option not in others[:n]]
    if any(isinstance(option, Anything) for option in merged):
        return Anything()
    if NULL in flat:
        merged.append(NULL)
    return merged[0] if len(merged) == 1 else OneOf(tuple(merged))


def _doc(schema: Schema) -> str:
    return _keys(schema).get("description", "")
