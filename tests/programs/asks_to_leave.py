"""A middle man that asks an initiator to leave: asks_to_leave.py PORT HOST PORT EVENT.

Takes one connection after another at the first port, and passes the PDUs of plain iSCSI to and from the other host.
Before the eighth answer to a command of the first connection it puts in an Asynchronous Message (RFC 7143 11.9) with
that AsyncEvent, such as 1 for a logout. Prints the reason of each Logout Request.
"""

import asyncio
import sys

SCSI_RESPONSE, DATA_IN, ASYNC = 0x21, 0x25, 0x32
LOGOUT = 0x06
BEFORE = 8


async def pdus(reader):
    """PDUs without digests, until the end of the stream."""
    try:
        while True:
            head = await reader.readexactly(48)
            length = 4 * head[4] + (int.from_bytes(head[5:8], "big") + 3) // 4 * 4
            yield head, await reader.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError):
        return


def message(event, head):
    """The message, with the numbers of an answer."""
    numbers = head[24:36]
    parameters = bytes(4) + (3).to_bytes(2, "big")
    start = bytes([ASYNC, 0x80]) + bytes(14) + b"\xff" * 4 + bytes(4)
    return start + numbers + bytes([event, 0]) + parameters + bytes(4)


async def main():
    port, host, to, event = sys.argv[1:]
    asked = False

    async def down(reader, writer):
        nonlocal asked
        answers = 0
        async for head, rest in pdus(reader):
            answers += head[0] == SCSI_RESPONSE or head[0] == DATA_IN and head[1] & 1
            if answers == BEFORE and not asked:
                asked = True
                writer.write(message(int(event), head))
            writer.write(head + rest)
            await writer.drain()
        writer.close()

    async def up(reader, writer):
        async for head, rest in pdus(reader):
            if head[0] & 0x3F == LOGOUT:
                print("logout", head[1] & 0x7F, flush=True)
            writer.write(head + rest)
            await writer.drain()
        writer.close()

    async def serve(reader, writer):
        far_reader, far_writer = await asyncio.open_connection(host, int(to))
        await asyncio.gather(up(reader, far_writer), down(far_reader, writer), return_exceptions=True)

    server = await asyncio.start_server(serve, "0.0.0.0", int(port))
    print("ready", flush=True)
    async with server:
        await server.serve_forever()


asyncio.run(main())
