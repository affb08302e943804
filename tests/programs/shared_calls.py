"""Processes call on the same sockets at the same time: names, options, listen, accept.

    shared_calls.py ADDRESS PORT ROUNDS

A bound stream, a bound datagram socket and the connection to ADDRESS PORT belong to four processes. The stream
becomes a listener in the middle, in all of them. Prints each call that failed, and "done".
"""

import os
import socket
import sys

PROCESSES = 4
address, port, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
connection = socket.create_connection((address, port))
listener = socket.socket()
listener.bind(("", 0))
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind(("", 0))
bound = [listener.getsockname(), datagrams.getsockname()]
own = connection.getsockname()


def attempt(what, call):
    try:
        return call()
    except OSError as error:
        print(what, error, flush=True)


def use(number):
    for at in range(rounds):
        keep = 60 + number
        attempt("setsockopt", lambda: connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, keep))
        idle = attempt("getsockopt", lambda: connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE))
        assert idle in range(60, 60 + PROCESSES), idle
        assert attempt("getpeername", connection.getpeername) == (address, port)
        assert attempt("getsockname", connection.getsockname) == own
        if at == rounds // 2:
            attempt("listen", lambda: listener.listen(8))
            listener.setblocking(False)
        if at > rounds // 2:
            try:
                listener.accept()
            except BlockingIOError:
                pass
        assert [attempt("getsockname", one.getsockname) for one in (listener, datagrams)] == bound


children = []
for number in range(1, PROCESSES):
    children.append(os.fork())
    if children[-1] == 0:
        try:
            use(number)
            os._exit(0)
        finally:
            os._exit(1)
use(0)
assert [os.waitpid(child, 0)[1] for child in children] == [0] * len(children)
attempt("shutdown", lambda: connection.shutdown(socket.SHUT_WR))
print("done")
