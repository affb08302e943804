"""Takes COUNT datagrams on ADDRESS:PORT, and says so; or sends them there (`send` before)."""

import socket
import sys

sends = sys.argv[1] == "send"
address, port, count = sys.argv[-3], int(sys.argv[-2]), int(sys.argv[-1])
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
if sends:
    for number in range(count):
        datagrams.sendto(b"%d" % number, (address, port))
else:
    datagrams.bind((address, port))
    print("ready", flush=True)
    numbers = {datagrams.recv(100) for _ in range(count)}
    print("took", len(numbers), flush=True)
