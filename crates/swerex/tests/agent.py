"""mini-swe-agent, unchanged, works on `trl swerex`, with a model on loopback whose answers are written down here.

    TRL_PROGRAM=target/debug/trl python3 crates/swerex/tests/agent.py

Needs the packages `swe-rex` and `mini-swe-agent`. The environment class is the one of docs/swerex.md.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from client import TOKEN, Server

DOCUMENT = Path(__file__).resolve().parents[3] / "docs/swerex.md"

#: What the model wants to have run, one command after the other.
COMMANDS = [
    "printf 'def add(a, b):\\n    return a - b\\n' > sums.py; pwd",
    "python3 -c 'import sums; assert sums.add(2, 2) == 4, sums.add(2, 2)'",
    "sed -i 's/a - b/a + b/' sums.py && cat <<'EOF' > check.py\nimport sums\nprint('sum', sums.add(2, 2))\nEOF",
    "echo begun; sleep 60",
    "python3 check.py; echo to stderr >&2; exit 3",
    "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; cat sums.py",
]

#: mini-swe-agent's own client of OpenRouter, with another address.
MODEL = '''
import os
from minisweagent.models.openrouter_model import OpenRouterModel

class LoopbackModel(OpenRouterModel):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self._api_url = os.environ["MODEL_URL"]
'''


class Model:
    """Answers each request with the next command, and remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        model = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                model.told.append(str(asked["messages"][-1]["content"]))
                body = json.dumps(model.answer(len(model.told) - 1)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, number: int) -> dict[str, object]:
        arguments = json.dumps({"command": COMMANDS[number]})
        function = {"name": "bash", "arguments": arguments}
        call = {"id": f"call-{number}", "type": "function", "function": function}
        message = {"role": "assistant", "content": "The next step.", "tool_calls": [call]}
        return {
            "choices": [{"message": message, "finish_reason": "tool_calls"}],
            "usage": {"cost": 0.0001, "prompt_tokens": 1, "completion_tokens": 1},
        }

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class AgentTest(unittest.TestCase):
    def test_it_solves_its_task(self) -> None:
        server = Server()
        self.addCleanup(server.end)
        model = Model()
        self.addCleanup(model.close)
        work = server.home / "work"
        work.mkdir()
        documented = re.search(r"^```python\n(import asyncio\n.*?)^```$", DOCUMENT.read_text(), re.M | re.S)
        assert documented is not None
        (work / "trl_environment.py").write_text(documented.group(1))
        (work / "loopback.py").write_text(MODEL)
        settings = {"auth_token": TOKEN, "port": server.port, "cwd": work, "timeout": 5}
        command = [sys.executable, "-m", "minisweagent.run.mini", "--yolo", "--exit-immediately", "-c", "mini.yaml"]
        for name, value in settings.items():
            command += ["-c", f"environment.{name}={value}"]
        command += ["--environment-class", "trl_environment.TrlEnvironment", "-t", "Make the sum right"]
        command += ["--model-class", "loopback.LoopbackModel", "-m", "scripted", "-o", str(work / "told.json")]
        own = {"MODEL_URL": model.url, "MSWEA_CONFIGURED": "true", "PYTHONPATH": str(work), "NO_PROXY": "*"}
        ran = subprocess.run(
            command,
            cwd=work,
            env={**server.env, **own},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
        )
        self.assertEqual(ran.returncode, 0, ran.stdout)
        told = json.loads((work / "told.json").read_text())
        self.assertEqual(told["info"]["exit_status"], "Submitted", ran.stdout)
        self.assertEqual(told["info"]["submission"], "def add(a, b):\n    return a + b\n")
        task, *results = model.told
        self.assertIn("Make the sum right", task)
        seen = [json.loads(result) for result in results]
        self.assertEqual((seen[0]["returncode"], seen[0]["output"]), (0, f"{work}\n"))
        self.assertEqual(seen[1]["returncode"], 1)
        self.assertIn("AssertionError: 0", seen[1]["output"])
        self.assertEqual(seen[2]["returncode"], 0)
        self.assertIn("Timeout", seen[3]["exception_info"])
        self.assertEqual((seen[4]["returncode"], seen[4]["output"]), (3, "sum 4\nto stderr\n"))


if __name__ == "__main__":
    unittest.main()
