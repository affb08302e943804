#!/usr/bin/python3
"""Fast Open: fastopen.py serve ADDRESS PORT, or fastopen.py connect ADDRESS PORT HOW [LEN].

The server counts the bytes that came before a connection was accepted, or soon after. Its answer is
their number and content. HOW is "sendto" (MSG_FASTOPEN) or "option" (TCP_FASTOPEN_CONNECT), and each
also with "-nonblocking". The client prints a line with the results of its calls. Another line has the
server's answer, and whether the data in the SYN was acknowledged (TCP_INFO)."""

import errno
import select
import socket
import sys

TCP_INFO, TCP_FASTOPEN, TCP_FASTOPEN_CONNECT = 11, 23, 30
MSG_FASTOPEN = 0x20000000
SYN_DATA = 32


def attempt(call, *arguments):
    try:
        return str(call(*arguments))
    except OSError as error:
        return errno.errorcode[error.errno]


def serve(address, port):
    listener = socket.create_server((address, int(port)))
    listener.setsockopt(socket.IPPROTO_TCP, TCP_FASTOPEN, 5)
    print("ready", flush=True)
    while True:
        connection, _ = listener.accept()
        with connection:
            got = b""
            while b"\n" not in got:
                more = connection.recv(1 << 16)
                if not more:
                    break
                got += more
            options = connection.getsockopt(socket.IPPROTO_TCP, TCP_INFO, 104)[5]
            print(f"got {len(got)} syn-data {options & SYN_DATA != 0}", flush=True)
            connection.sendall(b"%d\n" % len(got))


def connect(address, port, how, length="100"):
    data = b"x" * (int(length) - 1) + b"\n"
    to = (address, int(port))
    stream = socket.socket()
    waits = not how.endswith("-nonblocking")
    stream.setblocking(waits)
    if how.startswith("sendto"):
        said = attempt(stream.sendto, data, MSG_FASTOPEN, to)
    else:
        stream.setsockopt(socket.IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1)
        said = attempt(stream.connect, to)
        again = attempt(stream.connect, to) if said == "None" and not waits else "-"
        writable = bool(select.select([], [stream], [], 0)[1])
        said += f" again {again} writable {writable}"
        said += " sent " + attempt(stream.send, data)
    print("calls", said, flush=True)
    done = said.split()[-1]
    if not done.isdigit() and done != "EINPROGRESS":
        return
    sent = int(done) if done.isdigit() else 0
    stream.setblocking(True)
    select.select([], [stream], [])
    if sent < len(data):
        stream.sendall(data[sent:])
    answer = stream.makefile().readline().strip()
    options = stream.getsockopt(socket.IPPROTO_TCP, TCP_INFO, 104)[5]
    print(f"answer {answer} syn-data {options & SYN_DATA != 0}", flush=True)


{"serve": serve, "connect": connect}[sys.argv[1]](*sys.argv[2:])
