"""The official Python SDK against `trl`: the same conversation over every way in.

    conversation.py stdio TRL [ARGS…]    conversation.py alone TRL [ARGS…]    conversation.py http URL TOKEN

`alone` is over stdio too, with sessions that no other client can see.

Run by crates/cli/tests/mcp/clients.rs. The SDK checks each structured result against the
tool's output schema by itself, and fails the call if they do not agree.
"""

import os
import sys
from contextlib import asynccontextmanager

import anyio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

GUARD = 60


@asynccontextmanager
async def connected(mode):
    """A client that speaks the newest protocol it can ("auto"), or the one with a handshake ("legacy")."""
    way, *rest = sys.argv[1:]
    if way != "http":
        server = StdioServerParameters(command=rest[0], args=rest[1:], env=dict(os.environ))
        async with Client(stdio_client(server), mode=mode) as client:
            yield client
    else:
        url, token = rest
        async with create_mcp_http_client(headers={"Authorization": f"Bearer {token}"}) as http:
            async with Client(streamable_http_client(url, http_client=http), mode=mode) as client:
                yield client


async def run(client, command, **more):
    result = await client.call_tool("run", {"command": command, **more})
    assert not result.is_error, result
    return result.structured_content


async def tools_are_listed(client):
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert 4 <= len(tools) <= 10, tools.keys()
    assert tools["output"].annotations.read_only_hint
    assert tools["run"].annotations.destructive_hint
    assert all(tool.output_schema for tool in tools.values())


async def state_stays(client):
    fields = await run(client, "cd /usr; x=5; echo out; echo err >&2; (exit 3)")
    assert (fields["stdout"], fields["stderr"]) == ("out\n", "err\n"), fields
    assert (fields["exit_code"], fields["cwd"]) == (3, "/usr"), fields
    assert (await run(client, "echo $x"))["stdout"] == "5\n"


async def faults_are_results(client):
    result = await client.call_tool("output", {"exec_id": "e-00000000-1"})
    assert result.is_error, result
    assert result.structured_content["error"]["code"] == "EXEC_NOT_FOUND", result
    assert result.content[0].text.startswith("EXEC_NOT_FOUND: "), result


async def progress_is_told(client):
    heard = []

    async def hear(progress, total, message):
        heard.append((progress, message))

    await client.call_tool("run", {"command": "echo working; sleep 1.3"}, progress_callback=hear)
    assert heard and heard[0][1] == "working", heard
    assert [when for when, _ in heard] == sorted(when for when, _ in heard), heard


async def cancelling_ends_the_command_only(client):
    begun = anyio.Event()

    async def hear(progress, total, message):
        begun.set()

    async with anyio.create_task_group() as group:

        async def long():
            await client.call_tool("run", {"command": "echo begun; sleep 1000"}, progress_callback=hear)

        group.start_soon(long)
        await begun.wait()
        group.cancel_scope.cancel()
    # The session is busy until the command has ended; then its shell is the one from before.
    assert (await run(client, "echo $x", wait_s=GUARD))["stdout"] == "5\n"


async def long_commands_come_back(client):
    running = await run(client, "echo begun; exec sleep 1000", wait_s=0.5, background=True)
    assert (running["state"], running["stdout"]) == ("running", "begun\n"), running
    exec_id = running["exec_id"]
    await client.call_tool("cancel", {"exec_id": exec_id})
    with anyio.fail_after(GUARD):
        while True:
            now = (await client.call_tool("output", {"exec_id": exec_id})).structured_content
            if now["state"] == "finished":
                break
    assert now["cancelled"], now


async def large_results_fit(client):
    for command in ["yes | head -c 5000000", "head -c 3000000 /dev/zero | tr '\\0' '\\033'"]:
        fields = await run(client, command, max_output=3_000_000, ansi=True)
        assert fields["exit_code"] == 0 and len(fields["stdout"]) > 10_000, fields["exit_code"]


async def names_are_shared():
    async with connected("legacy") as one, connected("legacy") as two:
        await run(one, "y=shared", session="both")
        assert (await run(two, "echo $y", session="both"))["stdout"] == "shared\n"
        await run(one, "y=own")
        assert (await run(two, "echo [$y]"))["stdout"] == "[]\n"


async def main():
    with anyio.fail_after(GUARD * 2):
        for mode in ["legacy", "auto"]:
            async with connected(mode) as client:
                await tools_are_listed(client)
                await state_stays(client)
                await faults_are_results(client)
                await progress_is_told(client)
                await cancelling_ends_the_command_only(client)
                await long_commands_come_back(client)
                await large_results_fit(client)
                print(mode, client.protocol_version)
        if sys.argv[1] != "alone":
            await names_are_shared()


anyio.run(main)
