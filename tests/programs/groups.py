"""Multicast: `listen GROUP PORT INTERFACE` or `say GROUP PORT INTERFACE HOPS`.

A listener joins, prints "ready", and ends when it has printed one datagram. INTERFACE is a name.
"""

import errno
import socket
import struct
import sys

what, group, port, interface = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
index = socket.if_nametoindex(interface)
six = ":" in group
family = socket.AF_INET6 if six else socket.AF_INET
udp = socket.socket(family, socket.SOCK_DGRAM)

if six:
    level, join, leave = socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, socket.IPV6_LEAVE_GROUP
    hops, loop, out = (socket.IPV6_MULTICAST_HOPS, socket.IPV6_MULTICAST_LOOP,
                       socket.IPV6_MULTICAST_IF)
    member = socket.inet_pton(family, group) + struct.pack("@I", index)
    device = struct.pack("@I", index)
else:
    level, join, leave = socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.IP_DROP_MEMBERSHIP
    hops, loop, out = socket.IP_MULTICAST_TTL, socket.IP_MULTICAST_LOOP, socket.IP_MULTICAST_IF
    member = socket.inet_aton(group) + bytes(4) + struct.pack("@I", index)
    device = bytes(8) + struct.pack("@I", index)


def outcome(*words):
    """The name of the error that setsockopt answers with, or "ok"."""
    try:
        udp.setsockopt(*words)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "ok"


if what == "listen":
    udp.bind(("", port))
    print("leave", outcome(level, leave, member))
    print("join", outcome(level, join, member), outcome(level, join, member))
    print("wrong", outcome(level, join, bytes(len(member))), outcome(level, join, member[:7]),
          outcome(level, join, member[:-4] + struct.pack("@I", 77)))
    print("ready", flush=True)
    udp.settimeout(60)
    data, sender = udp.recvfrom(100)
    print("got", data.decode(), "from", sender[0].split("%")[0])
    print("leave", outcome(level, leave, member), outcome(level, leave, member), flush=True)
else:
    print("defaults", udp.getsockopt(level, hops), udp.getsockopt(level, loop))
    print("hops", outcome(level, hops, 256), outcome(level, hops, -1), udp.getsockopt(level, hops),
          outcome(level, hops, int(sys.argv[5])), udp.getsockopt(level, hops))
    print("loop", outcome(level, loop, 0), udp.getsockopt(level, loop))
    print("if", outcome(level, out, device))
    udp.sendto(b"hello", (group, port))
