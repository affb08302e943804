"""Two processes use one connection at the same time: the parent writes, its child reads.

    two_users.py ADDRESS PORT MODE BYTES CHUNK

Connects to an echo server. MODE is `poll`, `select`, `epoll` or `blocking`: how each of them waits.
The child checks that each byte comes back in its place.
"""

import os
import select
import socket
import sys

address, port, mode = sys.argv[1], int(sys.argv[2]), sys.argv[3]
total, chunk = int(sys.argv[4]), int(sys.argv[5])
PATIENCE = 100
connection = socket.create_connection((address, port), timeout=PATIENCE)
connection.setblocking(mode == "blocking")
pattern = bytes(at * 7 % 251 for at in range(251)) * (chunk // 251 + 2)


def waiter(writing):
    """Makes a function that waits until the connection is ready."""
    if mode == "blocking":
        return lambda: None
    if mode == "select":
        lists = ([], [connection], []) if writing else ([connection], [], [])
        return lambda: any(select.select(*lists, PATIENCE)) or sys.exit("select: too long")
    poller = select.epoll() if mode == "epoll" else select.poll()
    poller.register(connection, select.POLLOUT if writing else select.POLLIN)
    limit = PATIENCE if mode == "epoll" else PATIENCE * 1000
    return lambda: poller.poll(limit) or sys.exit(f"{mode}: too long")


def expected(at, length):
    return pattern[at % 251 : at % 251 + length]


def read():
    wait, at = waiter(False), 0
    while at < total:
        wait()
        try:
            data = connection.recv(chunk)
        except BlockingIOError:
            continue
        if not data or data != expected(at, len(data)):
            sys.exit(f"wrong data at {at}: {data[:20]}")
        at += len(data)


def write():
    wait, at = waiter(True), 0
    while at < total:
        wait()
        try:
            at += connection.send(expected(at, min(chunk, total - at)))
        except BlockingIOError:
            continue


child = os.fork()
if child == 0:
    read()
    os._exit(0)
write()
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status) and "the child failed")
