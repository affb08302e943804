"""Sends bytes to a server that answers with their digest and with them, again and again.

    ask_digest.py ADDRESS PORT TIMES BYTES [AT ONCE]
"""

import concurrent.futures
import hashlib
import os
import socket
import sys

address, port, times, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])


def ask(_):
    data = os.urandom(size)
    with socket.create_connection((address, port), timeout=60) as sock:
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
        got = b""
        while more := sock.recv(65536):
            got += more
    assert got[:32] == hashlib.sha256(data).digest() and got[32:] == data, len(got)


with concurrent.futures.ThreadPoolExecutor(int(sys.argv[5]) if len(sys.argv) > 5 else 1) as pool:
    print("answered", len(list(pool.map(ask, range(times)))))
