"""UDP-Lite echo server on ADDRESS:PORT: sends each datagram back with the coverage that it names.

A datagram is "COVERAGE text"; the answer has the same bytes.
"""

import socket
import sys

LITE, SEND_COVERAGE = 136, 10

address, port = sys.argv[1], int(sys.argv[2])
family = socket.AF_INET6 if ":" in address else socket.AF_INET
with socket.socket(family, socket.SOCK_DGRAM, LITE) as sock:
    sock.bind((address, port))
    print("ready", flush=True)
    while True:
        data, sender = sock.recvfrom(1 << 16)
        sock.setsockopt(LITE, SEND_COVERAGE, int(data.split()[0]))
        sock.sendto(data, sender)
