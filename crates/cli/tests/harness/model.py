"""A model that says what a script tells it, for harnesses that ask one over HTTP on this machine.

    model.py SCRIPT RECORD

Speaks Anthropic's `POST /v1/messages` and OpenAI's `POST /v1/responses` and `/v1/chat/completions`, as event
streams. SCRIPT is a JSON list of steps, one for each turn of the model:

    {"tool": "run", "input": {...}}     calls the tool whose name ends with `run`
    {"text": "done"}                    says that and ends its turn

A string in `input` may have `{{regex}}`: it is replaced by what the regex (its first group) finds in the newest
request. `"if": "regex"` lets a step wait for a request that matches: another request is answered "…" meanwhile.
RECORD gets one line of JSON for each request. Prints its port.
"""

import json
import re
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

script = json.load(open(sys.argv[1]))
record = open(sys.argv[2], "a", buffering=1)
lock = threading.Lock()


def next_step(said, tools):
    """The step for a request, or words that end the turn."""
    with lock:
        if not script or not tools:
            return {"text": "ok"}
        wanted = script[0].get("if")
        if wanted and not re.search(wanted, said):
            return {"text": "…"}
        return script.pop(0)


def filled(value, said):
    if isinstance(value, str):
        def found(match):
            hits = list(re.finditer(match.group(1), said))
            if not hits:
                return f"NOT FOUND: {match.group(1)}"
            return hits[-1].group(1) if hits[-1].groups() else hits[-1].group(0)

        return re.sub(r"\{\{(.*?)\}\}", found, value)
    if isinstance(value, dict):
        return {key: filled(inner, said) for key, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, said) for inner in value]
    return value


def named(tools, wanted):
    """The tool as the harness calls it: behind a prefix with the name of its server."""
    for name in tools:
        if name == wanted or re.search(rf"(__|_|\.){re.escape(wanted)}$", name):
            return name
    return wanted


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_HEAD(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self):
        self.json({"data": [], "object": "list"})

    def json(self, body):
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def events(self, events, named_events=True):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for event in events:
            head = f"event: {event['type']}\n" if named_events and "type" in event else ""
            self.wfile.write(f"{head}data: {json.dumps(event)}\n\n".encode())
        if not named_events:
            self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        path = self.path.split("?")[0]
        with lock:
            record.write(json.dumps({"path": path, "body": body}) + "\n")
        if path.endswith("/count_tokens"):
            return self.json({"input_tokens": 1})
        if path.endswith("/messages"):
            return self.anthropic(body)
        if path.endswith("/responses"):
            return self.openai(body)
        if path.endswith("/chat/completions"):
            return self.chat(body)
        self.json({})

    def anthropic(self, body):
        # Newest last; what the user's machine adds comes in messages too.
        said = json.dumps(body.get("messages", []), ensure_ascii=False)
        tools = [tool["name"] for tool in body.get("tools", [])]
        step = next_step(said, tools)
        message = {
            "id": "msg_1", "type": "message", "role": "assistant", "model": body.get("model"), "content": [],
            "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        if "tool" in step:
            block = {"type": "tool_use", "id": f"toolu_{time.time_ns():x}", "name": named(tools, step["tool"]), "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(filled(step.get("input", {}), said))}
            reason = "tool_use"
        else:
            block = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": filled(step["text"], said)}
            reason = "end_turn"
        if not body.get("stream"):
            content = dict(block)
            if reason == "tool_use":
                content["input"] = filled(step.get("input", {}), said)
            else:
                content["text"] = delta["text"]
            return self.json({**message, "content": [content], "stop_reason": reason})
        self.events([
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        ])

    def openai(self, body):
        said = json.dumps(body.get("input", []), ensure_ascii=False)
        tools = {}
        for tool in body.get("tools", []):
            if tool.get("type") == "namespace":
                for inner in tool.get("tools", []):
                    tools[f"{tool['name']}__{inner['name']}"] = (tool["name"], inner["name"])
            elif "name" in tool:
                tools[tool["name"]] = (None, tool["name"])
        step = next_step(said, tools)
        if "tool" in step:
            namespace, name = tools.get(named(tools, step["tool"]), (None, step["tool"]))
            item = {
                "type": "function_call", "id": "fc_1", "call_id": f"call_{len(script)}", "name": name,
                "arguments": json.dumps(filled(step.get("input", {}), said)), "status": "completed",
            }
            if namespace:
                item["namespace"] = namespace
        else:
            item = {
                "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": filled(step["text"], said), "annotations": []}],
            }
        done = {"id": "resp_1", "object": "response", "status": "completed", "output": [item],
                "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}}
        self.events([
            {"type": "response.created", "response": {"id": "resp_1", "object": "response", "status": "in_progress"}},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": done},
        ])

    def chat(self, body):
        said = json.dumps(body.get("messages", []), ensure_ascii=False)
        tools = [tool["function"]["name"] for tool in body.get("tools", [])]
        step = next_step(said, tools)
        if "tool" in step:
            call = {"index": 0, "id": f"call_{len(script)}", "type": "function", "function": {
                "name": named(tools, step["tool"]), "arguments": json.dumps(filled(step.get("input", {}), said))}}
            message, reason = {"role": "assistant", "tool_calls": [call]}, "tool_calls"
        else:
            message, reason = {"role": "assistant", "content": filled(step["text"], said)}, "stop"
        whole = {"id": "c1", "created": 1, "model": body.get("model", "m")}
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": reason}
            return self.json({**whole, "object": "chat.completion", "choices": [choice], "usage": {}})
        chunk = {**whole, "object": "chat.completion.chunk"}
        self.events([
            {**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
            {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
        ], named_events=False)


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(server.server_address[1], flush=True)
server.serve_forever()
