"""A middle man between two hosts: middle_man.py PORT HOST PORT WHAT OFFSET.

Takes one connection after another at the first port, and passes bytes to and from the other host. WHAT says what it
does to them at OFFSET bytes of one direction: flip-up or flip-down (one bit), cut-up or cut-down (ends the
connection in order), drop-up or drop-down (leaves out a byte), repeat-up or repeat-down (sends 64 bytes twice), pass
(nothing). Up is from who connects.
"""

import asyncio
import sys


def change(what, data, at):
    """The bytes with the change at `at`."""
    if what == "flip":
        return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1:]
    if what == "drop":
        return data[:at] + data[at + 1:]
    if what == "repeat":
        return data[:at + 1] + data[max(0, at - 63):]
    return data[:at]


async def pump(reader, writer, what, offset):
    """One direction, until its end."""
    seen = 0
    try:
        while data := await reader.read(1 << 16):
            at = offset - seen
            seen += len(data)
            if what and 0 <= at < len(data):
                writer.write(change(what, data, at))
                if what == "cut":
                    break
            else:
                writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except ConnectionError:
        writer.transport.abort()


async def main():
    port, host, to, what, offset = sys.argv[1:]
    what, _, way = what.partition("-")

    async def serve(reader, writer):
        far_reader, far_writer = await asyncio.open_connection(host, int(to))
        up = pump(reader, far_writer, what if way == "up" else None, int(offset))
        down = pump(far_reader, writer, what if way == "down" else None, int(offset))
        await asyncio.gather(up, down)
        far_writer.close()
        writer.close()

    server = await asyncio.start_server(serve, "0.0.0.0", int(port))
    print("ready", flush=True)
    async with server:
        await server.serve_forever()


asyncio.run(main())
