"""Asks lite_echo.py on ADDRESS:PORT over UDP-Lite; prints a line for each thing."""

import errno
import socket
import sys

LITE, SEND_COVERAGE, RECV_COVERAGE = 136, 10, 11

address, port = sys.argv[1], int(sys.argv[2])
family = socket.AF_INET6 if ":" in address else socket.AF_INET
with socket.socket(family, socket.SOCK_DGRAM, LITE) as sock:
    sock.settimeout(60)
    sock.connect((address, port))
    print("protocol", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PROTOCOL))

    def ask(coverage, text):
        """Whether the answer comes. It has that coverage."""
        data = b"%d %s" % (coverage, text)
        sock.send(data)
        try:
            return "answered" if sock.recv(1 << 16) == data else "something else"
        except TimeoutError:
            return "nothing"

    for coverage in (0, 8, 20, 1000):
        sock.setsockopt(LITE, SEND_COVERAGE, coverage)
        print("covers", coverage, ask(coverage, b"x" * 100))
    print("long", ask(20, b"x" * 4000))
    sock.setsockopt(LITE, RECV_COVERAGE, 20)
    print("enough", ask(20, b"x" * 100))
    sock.settimeout(2)
    print("too little", ask(19, b"x" * 100))
    sock.setsockopt(LITE, RECV_COVERAGE, 0)
    print("all wanted", ask(20, b"x" * 100))
    sock.settimeout(60)
    print("all given", ask(0, b"x" * 100))

with socket.socket(family, socket.SOCK_DGRAM, LITE) as sock:
    sock.settimeout(60)
    sock.connect((address, port + 1))
    sock.send(b"nobody")
    try:
        print("port without socket", sock.recv(100))
    except OSError as error:
        print("port without socket", errno.errorcode[error.errno])
