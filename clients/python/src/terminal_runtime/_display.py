"""How results look when they are printed or shown in a notebook."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

_SHORT = 200


class Shown:
    """Base of every reply: a table in a notebook, a plain `repr` elsewhere."""

    __slots__ = ()

    @classmethod
    def decode(cls, data: dict[str, Any]) -> Self:
        raise NotImplementedError(f"{cls.__name__} of {data!r}")

    def _repr_html_(self) -> str:
        if not is_dataclass(self):
            return f"<pre>{escape(repr(self))}</pre>"
        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(field.name)}</th>"
            f"<td style='text-align:left'>{_cell(getattr(self, field.name))}</td></tr>"
            for field in fields(self)
        )
        return f"<table>{rows}</table>"


def _cell(value: object) -> str:
    if isinstance(value, Shown) and is_dataclass(value):
        return value._repr_html_()  # pyright: ignore[reportPrivateUsage]
    text = "" if value is None else str(value)
    return escape(text if len(text) <= _SHORT else f"{text[:_SHORT]}…")


def short(text: str) -> str:
    """A long text by its beginning."""
    if len(text) <= _SHORT:
        return repr(text)
    return f"{text[:_SHORT]!r}… ({len(text)} characters)"


def box(text: str, *, colour: str = "inherit") -> str:
    """Preformatted text for a notebook."""
    return f"<pre style='margin:0;color:{colour}'>{escape(text)}</pre>"


def note(text: str) -> str:
    return f"<div style='font-size:85%;opacity:.7'>{escape(text)}</div>"
