"""Datagrams made of several sends (MSG_MORE, UDP_CORK), split by UDP_SEGMENT and not.

`corked_datagrams.py ADDRESS ADDRESS6`: prints which datagrams arrive, and the error of each step.
"""

import errno
import select
import socket
import struct
import sys

UDP, UDP_CORK, UDP_SEGMENT = 17, 1, 103
MORE = socket.MSG_MORE


def outcome(call, *words):
    try:
        return call(*words)
    except OSError as error:
        return errno.errorcode[error.errno]


def segment(size):
    """The control message of one send."""
    return [(UDP, UDP_SEGMENT, struct.pack("=H", size))] if size else []


def lengths(receiver, sender):
    """The lengths of all datagrams that have arrived: the last one is a mark."""
    got = []
    while True:
        sender.sendto(b"the end", receiver.getsockname())
        while select.select([receiver], [], [], 10)[0]:
            data = receiver.recv(70000)
            if data == b"the end":
                return got
            got.append(len(data))


def runs(lengths_):
    """Equal lengths in a row as one word."""
    got = []
    for length in lengths_:
        if got and got[-1][0] == length:
            got[-1][1] += 1
        else:
            got.append([length, 1])
    return " ".join(f"{length}*{count}" for length, count in got)


def way(name, family, address, option, sizes, messages, cork, to=None):
    receiver = socket.socket(family, socket.SOCK_DGRAM)
    receiver.bind((address, 0))
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    sender = socket.socket(family, socket.SOCK_DGRAM)
    if to is None:
        sender.connect(receiver.getsockname())
    said = [outcome(sender.setsockopt, UDP, UDP_SEGMENT, option)] if option else []
    if cork:
        said.append(outcome(sender.setsockopt, UDP, UDP_CORK, 1))
    for number, size in enumerate(sizes):
        more = 0 if cork or number + 1 == len(sizes) else MORE
        message = segment(messages[number]) if number < len(messages) else []
        said.append(outcome(sender.sendmsg, [bytes(size)], message, more,
                            *([receiver.getsockname()] if to and number == 0 else [])))
    if cork:
        said.append(outcome(sender.setsockopt, UDP, UDP_CORK, 0))
    other = socket.socket(family, socket.SOCK_DGRAM)
    other.bind((address, 0))
    if to is None:
        receiver.connect(sender.getsockname())
        sender.setsockopt(UDP, UDP_SEGMENT, 0) if option else None
        print(name, *said, "arrived", runs(lengths_of_peer(receiver, sender)), flush=True)
    else:
        print(name, *said, "arrived", runs(lengths(receiver, other)), flush=True)


def lengths_of_peer(receiver, sender):
    got = []
    while True:
        outcome(sender.send, b"the end")
        while select.select([receiver], [], [], 10)[0]:
            data = receiver.recv(70000)
            if data == b"the end":
                return got
            got.append(len(data))


for family, address in ((socket.AF_INET, sys.argv[1]), (socket.AF_INET6, sys.argv[2]),
                        (socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    for cork in (False, True):
        tag = f"{'lo' if address in ('127.0.0.1', '::1') else 'here'} {family.name} {'cork' if cork else 'more'}"

        def each(name, *words, **more):
            way(f"{tag} {name}", family, address, *words, cork, **more)

        each("plain", 0, [700, 700], [])
        each("option", 1000, [700, 700], [])
        each("option short", 1000, [300, 300], [])
        each("option exact", 1000, [500, 500], [])
        each("option twice", 1000, [1000, 1000], [])
        each("option three", 400, [700, 700, 1], [])
        each("message first", 0, [700, 700], [1000])
        each("message last", 0, [700, 700], [0, 1000])
        each("message over option", 1000, [700, 700], [500])
        each("message later than option", 1000, [700, 700], [0, 500])
        each("most", 10, [640, 640], [])
        each("too many", 10, [640, 641], [])
        each("many in one", 10, [1281], [])
        each("empty parts", 100, [0, 0, 150, 0], [])
        each("unconnected", 1000, [700, 700], [], to="given")
        each("long", 1000, [30000, 30000], [])
        each("alone", 1000, [1400], [])
    for size in (0, 1, -1, 65535, 65536, 70000):
        one = socket.socket(family, socket.SOCK_DGRAM)
        print("option", size, outcome(one.setsockopt, UDP, UDP_SEGMENT, size),
              one.getsockopt(UDP, UDP_SEGMENT))
