"""The peer of interrupted_send.c on ADDRESS:PORT: takes three connections, and does not read before.

Then it reads the second one to its end, checks the bytes and prints their number.
"""

import socket
import sys

PERIOD = bytes(range(251))

with socket.create_server((sys.argv[1], int(sys.argv[2]))) as listener:
    print("ready", flush=True)
    unread, (stream, _), order = (listener.accept() for _ in range(3))
length = 0
while piece := stream.recv(1 << 18):
    start = length % len(PERIOD)
    wanted = (PERIOD * (len(piece) // len(PERIOD) + 2))[start : start + len(piece)]
    assert piece == wanted, f"other bytes after {length}"
    length += len(piece)
print("read", length, flush=True)
