"""Sends datagrams to ports that nobody has, and says which sockets learn of it.
Usage: unreachable.py OWN FAR: this machine's address and one of another machine."""

import errno
import select
import socket
import sys

OWN, FAR = sys.argv[1:]
IP_RECVERR = 11


def udp(at="", port=0, family=socket.AF_INET):
    made = socket.socket(family, socket.SOCK_DGRAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind((at, port))
    return made


def error_of(one, patience=5):
    """The socket's error, which may be on its way."""
    waiting = select.poll()
    waiting.register(one, 0)
    if not waiting.poll(patience * 1000):
        return "none"
    number = one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    return errno.errorcode.get(number, number)


def queue():
    """A socket without a peer is told in its queue, if it has one."""
    with udp("127.0.0.1") as silent, udp("127.0.0.1") as one:
        one.setsockopt(socket.SOL_IP, IP_RECVERR, 1)
        to = ("127.0.0.1", 9)
        silent.sendto(b"x", to)
        one.sendto(b"probe", to)
        print("queue", error_of(one), "silent", error_of(silent, 0))
        data, control, _, peer = one.recvmsg(100, 500, socket.MSG_ERRQUEUE)
        print("entry", data, peer == to, control[0][2][:7])


def two_addresses():
    """Two sockets have a port together: each at an address of its own."""
    with udp(OWN) as far:
        port = far.getsockname()[1]
        with udp("127.0.0.1", port) as near:
            near.connect(("127.0.0.1", 9))
            far.connect((FAR, 9))
            # The far machine sends 6 errors, then one a second.
            for _ in range(2):
                far.send(b"x")
                near.send(b"x")
                print("two addresses", error_of(far), error_of(near))


def two_destinations():
    """Two sockets have one address and port: each with a peer of its own."""
    with udp(OWN) as first:
        port = first.getsockname()[1]
        first.connect((FAR, 9))
        with udp(OWN, port) as second:
            second.connect((FAR, 10))
            first.send(b"x")
            print("two destinations", error_of(first), error_of(second, 0))
            second.send(b"x")
            print("two destinations", error_of(first, 0), error_of(second))


queue()
two_addresses()
two_destinations()
