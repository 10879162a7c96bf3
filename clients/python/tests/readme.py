"""Runs the examples of the README against the package that is installed, and compares what they print.

    python3 tests/readme.py [README]

`trl` must be on PATH, and the daemon's directory be set by TRL_HOME.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

EXAMPLE = re.compile(r"^```python\n(.*?)^```\n\n^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def main() -> int:
    readme = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent / "README.md"
    examples = EXAMPLE.findall(readme.read_text(encoding="utf-8"))
    failures = 0
    for number, (program, expected) in enumerate(examples, 1):
        ran = subprocess.run(
            [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=120
        )
        if ran.returncode != 0 or ran.stdout != expected or ran.stderr:
            failures += 1
            print(f"example {number} of {readme.name}: exit {ran.returncode}\n{ran.stdout}{ran.stderr}")
            print(f"expected:\n{expected}")
    print(f"README examples: {len(examples) - failures} of {len(examples)} as written")
    return 1 if failures or len(examples) < 5 else 0


if __name__ == "__main__":
    sys.exit(main())
