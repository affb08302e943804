"""Datagrams with control messages: `receive OURS PORT INTERFACE` or `send OURS PORT THEIRS`.

A receiver prints "ready", and the control messages of each datagram until one is "end". A sender
prints the results of its calls. Both outputs are the same on any correct stack. OURS is bound to
where that matters.
"""

import errno
import socket
import struct
import sys
import zlib

what, ours, port, other = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
six = ":" in ours
udp = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM)
IP, SIX, UDP = socket.IPPROTO_IP, socket.IPPROTO_IPV6, socket.IPPROTO_UDP
UDP_CORK, UDP_SEGMENT, UDP_GRO, IP_PKTINFO = 1, 103, 104, 8
SO_TIMESTAMPNS, IP_RECVTTL = 35, 12


def pattern(length):
    return bytes(n * 7 % 251 for n in range(length))


def number(value):
    return struct.pack("@i", value)


def outcome(call, *words):
    """The result of a call, or the name of its error."""
    try:
        return call(*words)
    except OSError as error:
        return errno.errorcode[error.errno]


def shown(level, kind, data):
    """A control message as text. Values that differ from host to host are replaced by their names."""
    if (level, kind) == (IP, IP_PKTINFO):
        index, spec, to = struct.unpack("@I4s4s", data)
        place = "here" if index == socket.if_nametoindex(other) else str(index)
        same = "same" if spec == to else "other"
        return f"pktinfo {place} {same} {socket.inet_ntoa(to) == ours}"
    if (level, kind) == (SIX, socket.IPV6_PKTINFO):
        to, index = struct.unpack("@16sI", data)
        place = "here" if index == socket.if_nametoindex(other) else str(index)
        return f"pktinfo6 {place} {socket.inet_ntop(socket.AF_INET6, to) == ours}"
    if level == socket.SOL_SOCKET:
        seconds, rest = struct.unpack("@qq", data)
        return f"time {kind} {seconds > 1_700_000_000} {rest < 1_000_000_000}"
    if (level, kind) == (UDP, UDP_GRO):
        return ""
    return f"{level} {kind} {data.hex()}"


def receive():
    udp.bind(("", port))
    udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 400_000)
    asked = [(socket.SOL_SOCKET, SO_TIMESTAMPNS)]
    if six:
        asked += [(SIX, socket.IPV6_RECVPKTINFO), (SIX, socket.IPV6_RECVHOPLIMIT),
                  (SIX, socket.IPV6_RECVTCLASS)]
    else:
        asked += [(IP, IP_PKTINFO), (IP, IP_RECVTTL), (IP, socket.IP_RECVTOS)]
    for key in asked:
        udp.setsockopt(*key, 1)
    print("set", [udp.getsockopt(*key) for key in asked], flush=True)
    print("ready", flush=True)
    udp.settimeout(60)
    cut = 0
    while True:
        room = [500, 24, 0][cut % 3]
        data, messages, flags, sender = udp.recvmsg(70_000, room)
        if data == b"end":
            break
        if data.startswith(b"cut"):
            print("cut", room, bool(flags & socket.MSG_CTRUNC), len(messages))
            cut += 1
            continue
        told = sorted(shown(*message) for message in messages)
        print(len(data), zlib.crc32(data), flags, *told, sep=" | ", flush=True)


def joined():
    udp.bind(("", port))
    udp.setsockopt(UDP, UDP_GRO, 1)
    print("ready", flush=True)
    udp.settimeout(60)
    got = b""
    while len(got) < 9500:
        data, messages, _, _ = udp.recvmsg(70_000, 100)
        sizes = [struct.unpack("@i", data)[0] for level, kind, data in messages if level == UDP]
        assert sizes in ([], [1000]) and (sizes or len(data) <= 1000), (sizes, len(data))
        got += data
    print("joined", got == pattern(9500), flush=True)


def send():
    to = (other, port)
    if six:
        hops = (SIX, socket.IPV6_HOPLIMIT, number(7))
        kind = (SIX, socket.IPV6_TCLASS, number(0x28))
        place = lambda ip: socket.inet_pton(socket.AF_INET6, ip) + number(0)
        info = (SIX, socket.IPV6_PKTINFO, place(ours))
        wrong = (SIX, socket.IPV6_PKTINFO, place("fd99::99"))
        nowhere = (SIX, socket.IPV6_PKTINFO, bytes(16) + number(77))
        bad = [(SIX, socket.IPV6_HOPLIMIT, number(256)), (SIX, 200, number(1))]
    else:
        hops, kind = (IP, socket.IP_TTL, number(7)), (IP, socket.IP_TOS, b"\x28")
        info = (IP, IP_PKTINFO, number(0) + socket.inet_aton(ours) + bytes(4))
        wrong = (IP, IP_PKTINFO, number(0) + socket.inet_aton("10.99.99.99") + bytes(4))
        nowhere = (IP, IP_PKTINFO, number(77) + bytes(8))
        bad = [(IP, socket.IP_TTL, number(0)), (IP, socket.IP_TTL, number(256)),
               (IP, 200, number(1))]
    say = lambda data, *messages: outcome(udp.sendmsg, [data], messages, 0, to)
    print("plain", outcome(udp.sendto, b"plain", to))
    print("said", say(b"hops", hops), say(b"kind", kind), say(b"all", hops, kind, info))
    print("bad", *[say(b"bad", one) for one in bad], say(b"wrong", wrong), say(b"x", nowhere))
    for _ in range(3):
        udp.sendto(b"cut", to)
    most = 65_527 if six else 65_507
    print("long", outcome(udp.sendto, pattern(40_000), to),
          outcome(udp.sendto, pattern(65_000), to), outcome(udp.sendto, pattern(most + 1), to))
    segment = (UDP, UDP_SEGMENT, struct.pack("@H", 1000))
    print("cut", say(pattern(2500), segment), say(pattern(2500), (UDP, UDP_SEGMENT, b"\1")),
          say(pattern(9000), (UDP, UDP_SEGMENT, struct.pack("@H", 3000))))
    print("more", udp.sendto(b"one ", socket.MSG_MORE, to), udp.sendto(b"two", to))
    udp.setsockopt(UDP, UDP_CORK, 1)
    print("cork", udp.getsockopt(UDP, UDP_CORK), udp.sendto(b"three ", to), udp.sendto(b"four", to))
    udp.setsockopt(UDP, UDP_CORK, 0)
    udp.setsockopt(UDP, UDP_SEGMENT, 10)
    print("option", udp.getsockopt(UDP, UDP_SEGMENT), udp.sendto(pattern(25), to))
    udp.setsockopt(UDP, UDP_SEGMENT, 0)
    print("segment", outcome(udp.setsockopt, UDP, UDP_SEGMENT, 65_536),
          outcome(udp.setsockopt, UDP, UDP_SEGMENT, -1))
    if not six:
        whole = ours.rsplit(".", 1)[0] + ".255"
        print("broadcast", outcome(udp.sendto, b"x", (whole, 9)))
        udp.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        print("broadcast", outcome(udp.sendto, b"x", (whole, 9)))
    # The receiver ends at b"end", and in mode library its stack ends with it. Nobody would refuse
    # a datagram after that.
    nobody = socket.socket(udp.family, socket.SOCK_DGRAM)
    nobody.connect((other, 9))
    nobody.settimeout(60)
    print("refused", outcome(nobody.send, b"anybody?"), outcome(nobody.recv, 10))
    udp.sendto(b"end", to)


def burst():
    udp.setsockopt(UDP, UDP_SEGMENT, 1000)
    print("burst", udp.sendto(pattern(9500), (other, port)))


{"receive": receive, "send": send, "joined": joined, "burst": burst}[what]()
