"""Sends datagrams to ADDRESS:9 until none is taken for a while; then says "full" and goes on."""

import select
import socket
import sys

flood = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
flood.connect((sys.argv[1], 9))
flood.setblocking(False)
while True:
    try:
        flood.send(bytes(1400))
    except BlockingIOError:
        if not select.select([], [flood], [], 0.5)[1]:
            print("full", flush=True)
            select.select([], [flood], [])
