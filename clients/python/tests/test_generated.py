"""What is generated is what the contract says, and all of it can be reached."""

from __future__ import annotations

import inspect
import json
import subprocess
import unittest
from pathlib import Path

from terminal_runtime import AsyncClient, Client, errors, protocol

from .daemon import ROOT, DaemonTest


class Generated(unittest.TestCase):
    def setUp(self) -> None:
        self.contract = json.loads((ROOT / "docs/contract/protocol.json").read_text(encoding="utf-8"))

    def test_nothing_is_stale(self) -> None:
        checked = subprocess.run(
            [str(ROOT / "clients/generate"), "--check"], capture_output=True, text=True, check=False
        )
        self.assertEqual((checked.returncode, checked.stderr), (0, ""))

    def test_a_change_of_the_contract_is_noticed(self) -> None:
        """Otherwise the test above could not fail."""
        program = (
            "import sys; sys.path.insert(0, sys.argv[1])\n"
            "import json, pathlib, tempfile\n"
            "from generator import contract, python\n"
            "raw = json.loads(pathlib.Path(sys.argv[2]).read_text())\n"
            "raw['methods']['system.ping']['reply']['properties']['added'] = {'type': 'string'}\n"
            "with tempfile.NamedTemporaryFile('w', suffix='.json') as file:\n"
            "    json.dump(raw, file); file.flush()\n"
            "    print(python.protocol(contract.read(pathlib.Path(file.name))))\n"
        )
        contract = ROOT / "docs/contract/protocol.json"
        ran = subprocess.run(
            ["python3", "-c", program, str(ROOT / "clients"), str(contract)],
            capture_output=True,
            text=True,
            check=True,
        )
        now = Path(protocol.__file__ or "").read_text(encoding="utf-8")
        self.assertNotEqual(ran.stdout.strip(), now.strip())
        self.assertIn("added", ran.stdout)

    def test_every_method_has_a_stub_with_its_params(self) -> None:
        for name, method in self.contract["methods"].items():
            for client in (Client, AsyncClient):
                stub = getattr(client, name.replace(".", "_"))
                params = {parameter.rstrip("_") for parameter in inspect.signature(stub).parameters} - {
                    "self"
                }
                self.assertEqual(params, set(method["params"].get("properties", {})), name)

    def test_every_code_has_an_exception(self) -> None:
        for code in self.contract["codes"]:
            name = "".join(word.capitalize() for word in code.split("_"))
            kind = getattr(errors, name if name.endswith("Error") else f"{name}Error")
            self.assertTrue(issubclass(kind, errors.DaemonError))


class Reachable(DaemonTest):
    def test_the_daemon_knows_every_method(self) -> None:
        self.assertLessEqual(set(protocol.METHODS), set(self.client.system_info().features))


if __name__ == "__main__":
    unittest.main()
