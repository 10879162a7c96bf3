"""Makes the blocking Python API from the asyncio one, word by word.

Both then say and do the same. What differs for real (sockets, sleeping, what
interrupts a wait) is in `_aio/_pipe.py` and `_sync/_pipe.py`, each written by hand.
"""

from __future__ import annotations

import re

HEADER = "# Made from _aio/{name} by clients/generate; do not edit.\n"

#: In this order: a longer form comes before the shorter one that it contains.
WORDS = (
    (r"\basync def\b", "def"),
    (r"\basync with\b", "with"),
    (r"\basync for\b", "for"),
    (r"\bawait ", ""),
    (r"\b__aenter__\b", "__enter__"),
    (r"\b__aexit__\b", "__exit__"),
    (r"\b__aiter__\b", "__iter__"),
    (r"\b__anext__\b", "__next__"),
    (r"\bStopAsyncIteration\b", "StopIteration"),
    (r"\bAsyncIterator\b", "Iterator"),
    (r"\baclose\b", "close"),
    (r"\bAsync(?=[A-Z])", ""),
    (r"\bAn asyncio\b", "A blocking"),
    (r"\basyncio\b", "blocking"),
)


def of(name: str, text: str) -> str:
    for pattern, replacement in WORDS:
        text = re.sub(pattern, replacement, text)
    return HEADER.format(name=name) + text
