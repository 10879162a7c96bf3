"""Names of keys, as the bytes that a terminal sends for them."""

from __future__ import annotations

_NAMED = {
    "enter": "\r",
    "return": "\r",
    "tab": "\t",
    "esc": "\x1b",
    "escape": "\x1b",
    "space": " ",
    "backspace": "\x7f",
    "bspace": "\x7f",
    "delete": "\x1b[3~",
    "insert": "\x1b[2~",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "right": "\x1b[C",
    "left": "\x1b[D",
    "home": "\x1b[H",
    "end": "\x1b[F",
    "pageup": "\x1b[5~",
    "pagedown": "\x1b[6~",
    "f1": "\x1bOP",
    "f2": "\x1bOQ",
    "f3": "\x1bOR",
    "f4": "\x1bOS",
    "f5": "\x1b[15~",
    "f6": "\x1b[17~",
    "f7": "\x1b[18~",
    "f8": "\x1b[19~",
    "f9": "\x1b[20~",
    "f10": "\x1b[21~",
    "f11": "\x1b[23~",
    "f12": "\x1b[24~",
}
_CONTROL = ("ctrl-", "ctrl+", "c-")
_ALT = ("alt-", "alt+", "m-")


def typed(key: str) -> str:
    """What a key sends: a name (`Enter`, `Ctrl-C`, `C-c`, `Alt-x`), or the text itself."""
    name = key.lower()
    if name in _NAMED:
        return _NAMED[name]
    for prefix in _CONTROL:
        rest = name.removeprefix(prefix)
        if rest != name and len(rest) == 1 and ((rest.isascii() and rest.isalpha()) or rest in "@[\\]^_ "):
            return chr(ord(rest.upper()) & 0x1F)
    for prefix in _ALT:
        if name.startswith(prefix) and len(key) > len(prefix):
            return "\x1b" + typed(key[len(prefix) :])
    return key
