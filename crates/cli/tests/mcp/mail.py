"""Mail with the official Python SDK, which refuses a structured result that does not match its schema.

    mail.py TRL

Run by crates/cli/tests/mcp/clients.rs.
"""

import os
import sys
from contextlib import asynccontextmanager

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

GUARD = 60


@asynccontextmanager
async def connected(mode, *args):
    server = StdioServerParameters(command=sys.argv[1], args=["mcp", *args], env=dict(os.environ))
    async with Client(stdio_client(server), mode=mode) as client:
        yield client


async def call(client, tool, **arguments):
    """The fields of a result. The SDK has checked them by now."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, (tool, result)
    return result.structured_content


async def refused(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    assert result.is_error, (tool, result)
    return result.structured_content["error"]["code"]


async def every_tool_of_mail(ann, bob, mode):
    def of_now(messages):
        """What an earlier round has left is not looked at."""
        return [message for message in messages if message["text"] in (f"{mode} one", f"{mode} two")]

    # Without an answer, without a session named, without a reason: each leaves fields out.
    sent = await call(ann, "send", to="bob", text=f"{mode} one")
    waited = await call(ann, "send_and_wait", to="bob", text=f"{mode} two", timeout_s=0.1)
    assert waited["timed_out"] and "reply" not in waited, waited
    assert "reply" not in await call(ann, "check_reply", message_id=sent["message_id"])
    assert (await call(ann, "await_reply", message_id=sent["message_id"], timeout_s=0.1))["timed_out"]
    shown = []
    with anyio.fail_after(GUARD):
        while len(shown) < 2:
            shown = of_now((await call(bob, "inbox", wait_s=1))["messages"])
    # The same again: nobody can know whether the first result was kept.
    again = of_now((await call(bob, "inbox"))["messages"])
    assert [m["message_id"] for m in again] == [m["message_id"] for m in shown], (again, shown)
    await call(bob, "send", to="ann", text="yes", in_reply_to=shown[0]["message_id"])
    left = of_now((await call(bob, "inbox", ack=[shown[1]["message_id"]]))["messages"])
    assert left == [], left
    reply = (await call(ann, "await_reply", message_id=sent["message_id"], timeout_s=GUARD))["reply"]
    assert reply["text"] == "yes" and reply["in_reply_to"] == sent["message_id"], reply
    answered = await call(ann, "send_and_wait", to="bob", text="three", timeout_s=0)
    assert answered["message_id"], answered
    for tool, arguments in [
        ("whoami", {}),
        ("sessions", {}),
        ("sessions", {"agent": "bob"}),
        ("contacts", {}),
        ("autorespond", {"action": "status"}),
        ("inbox", {"peek": True}),
        ("assign", {"agent": "ann", "scope": "project"}),
        ("assignments", {}),
        ("unassign", {"scope": "project"}),
        ("unassign", {"scope": "project"}),
        ("use", {"agent": "ann", "remember": "project"}),
        # Not twice within a minute.
        *([("reset", {"who": "bob"})] if mode == "legacy" else []),
    ]:
        await call(ann, tool, **arguments)
    assert await refused(ann, "check_reply", message_id="m-none") == "MESSAGE_NOT_FOUND"


async def every_tool_of_terminals(client):
    assert (await call(client, "cancel")) == {"cancelled": False}
    ran = await call(client, "run", command="echo out; exec sleep 1000", interactive=True, wait_s=0.5)
    exec_id = ran["exec_id"]
    for tool, arguments in [
        ("output", {"exec_id": exec_id}),
        ("input", {"exec_id": exec_id, "text": "x", "wait_s": 0.1}),
        ("screen", {"exec_id": exec_id}),
        ("wait", {"exec_id": exec_id, "timeout_s": 0.1}),
        ("list_sessions", {}),
        ("cancel", {"exec_id": exec_id}),
        ("wait", {"exec_id": exec_id}),
        ("cancel", {}),
        ("end_session", {}),
    ]:
        await call(client, tool, **arguments)


async def every_tool_of_files(client):
    for tool, arguments in [
        ("write_file", {"path": "a.txt", "content": "one"}),
        ("read_file", {"path": "a.txt"}),
        ("edit_file", {"path": "a.txt", "old": "one", "new": "two"}),
        ("make_directory", {"path": "sub"}),
        ("move_file", {"from": "a.txt", "to": "sub/b.txt"}),
        ("list_files", {"depth": 2}),
        ("file_info", {"path": "sub/b.txt"}),
        ("remove_file", {"path": "sub", "recursive": True}),
        ("run", {"command": "head -c 500000 /dev/urandom >c; head -c 500000 /dev/zero >d; ln -s d e"}),
        ("list_files", {}),
        ("read_file", {"path": "c", "limit": 500000}),
        ("read_file", {"path": "d", "limit": 500000}),
    ]:
        await call(client, tool, **arguments)
    assert await refused(client, "read_file", path="none") == "FILE_NOT_FOUND"


async def text_alone(mode):
    async with connected(mode, "--agent", "ann") as client:
        tools = (await client.list_tools()).tools
        assert all(tool.output_schema is None for tool in tools), tools
        for tool, arguments in [("inbox", {}), ("send", {"to": "bob", "text": mode}), ("cancel", {})]:
            result = await client.call_tool(tool, arguments)
            assert not result.is_error and result.structured_content is None, result
            assert result.content[0].text, result


async def main():
    with anyio.fail_after(GUARD * 2):
        for mode in ["legacy", "auto"]:
            full = ["--structured", "--tools", "full"]
            async with connected(mode, *full) as ann, connected(mode, *full) as bob:
                await call(ann, "use", agent="ann", create=True)
                await call(bob, "use", agent="bob", create=True, label=f"desk-{mode}")
                await every_tool_of_mail(ann, bob, mode)
                await every_tool_of_terminals(bob)
            async with connected(mode, "--structured", "--tools", "files") as client:
                await every_tool_of_files(client)
            await text_alone(mode)


anyio.run(main)
