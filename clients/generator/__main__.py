"""Writes the files, or with `--check` says which are not what it would write."""

from __future__ import annotations

import sys
from pathlib import Path

from . import blocking, contract, python, typescript

ROOT = Path(__file__).resolve().parent.parent
PYTHON = ROOT / "python/src/terminal_runtime"
TYPESCRIPT = ROOT / "typescript/src"
#: Written for each API by hand.
BY_HAND = ("_pipe.py",)


def generated() -> dict[Path, str]:
    model = contract.read(ROOT.parent / "docs/contract/protocol.json")
    files = {
        PYTHON / "protocol.py": python.protocol(model),
        PYTHON / "_faults.py": python.faults(model),
        PYTHON / "_aio/_methods.py": python.methods(model),
        TYPESCRIPT / "protocol.ts": typescript.protocol(model),
        TYPESCRIPT / "methods.ts": typescript.methods(model),
    }
    asyncio_files = {*(PYTHON / "_aio").glob("*.py"), PYTHON / "_aio/_methods.py"}
    for source in sorted(asyncio_files):
        if source.name not in BY_HAND:
            text = files.get(source) or source.read_text(encoding="utf-8")
            files[PYTHON / "_sync" / source.name] = blocking.of(source.name, text)
    return files


def main() -> int:
    stale = [
        (path, text)
        for path, text in generated().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    if "--check" in sys.argv[1:]:
        for path, _ in stale:
            print(f"{path.relative_to(ROOT.parent)} is stale: run clients/generate", file=sys.stderr)
        return 1 if stale else 0
    for path, text in stale:
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(ROOT.parent))
    return 0


if __name__ == "__main__":
    sys.exit(main())
