"""Options of IP, IPv6 and UDP: which values they take, what they then are, and what they do.

`datagram_options.py ADDRESS ADDRESS6 INTERFACE`: addresses of this host on INTERFACE.
"""

import array
import ctypes
import errno
import fcntl
import ipaddress
import select
import socket
import struct
import sys

HERE, HERE6, DEVICE = sys.argv[1:4]
INDEX = socket.if_nametoindex(DEVICE)
BROADCAST = str(ipaddress.ip_network(HERE + "/24", strict=False).broadcast_address)
IP, IPV6, UDP, SOL = 0, 41, 17, socket.SOL_SOCKET
# Longer ones first.
HERE_HEX = socket.inet_aton(HERE).hex()
WORDS = {HERE_HEX: "here", HERE6: "here6", BROADCAST: "broadcast", HERE: "here", DEVICE: "device"}


def row(*words):
    text = " ".join(str(word) for word in words)
    for address, word in WORDS.items():
        text = text.replace(address, word)
    print(text, flush=True)


def outcome(call, *words):
    try:
        return call(*words)
    except OSError as error:
        return errno.errorcode[error.errno] if error.errno else "timed out"


def udp(family=socket.AF_INET):
    one = socket.socket(family, socket.SOCK_DGRAM)
    one.settimeout(10)
    return one


def values():
    """Values in and out of range, of all lengths."""
    numbers = (-2, -1, 0, 1, 2, 5, 64, 127, 128, 255, 256, 300, 65536)
    lists = ((IP, {"TOS": 1, "TTL": 2, "PKTINFO": 8, "MTU_DISCOVER": 10, "RECVERR": 11, "RECVTTL": 12,
                   "RECVTOS": 13, "MTU": 14, "RECVORIGDSTADDR": 20,
                   "BIND_NO_PORT": 24, "MULTICAST_TTL": 33, "MULTICAST_LOOP": 34,
                   "MULTICAST_ALL": 49, "RECVOPTS": 6, "RETOPTS": 7, "PASSSEC": 18,
                   "CHECKSUM": 23}),
             (IPV6, {"UNICAST_HOPS": 16, "MULTICAST_HOPS": 18, "MULTICAST_LOOP": 19, "MTU_DISCOVER": 23,
                     "RECVERR": 25, "V6ONLY": 26, "MULTICAST_ALL": 29, "FLOWINFO": 11,
                     "FLOWINFO_SEND": 33, "RECVPKTINFO": 49, "RECVHOPLIMIT": 51, "RECVHOPOPTS": 53,
                     "RECVRTHDR": 56, "RECVDSTOPTS": 58, "RECVPATHMTU": 60,
                     "RECVTCLASS": 66, "TCLASS": 67,
                     "ORIGDSTADDR": 74,
                     "2292PKTINFO": 2, "2292HOPOPTS": 3, "2292DSTOPTS": 4, "2292RTHDR": 5,
                     "2292HOPLIMIT": 8}),
             (UDP, {"CORK": 1, "SEGMENT": 103, "GRO": 104}),
             (SOL, {"BROADCAST": 6}))
    for family, kind in ((socket.AF_INET, socket.SOCK_DGRAM), (socket.AF_INET6, socket.SOCK_DGRAM),
                         (socket.AF_INET6, socket.SOCK_STREAM), (socket.AF_INET, socket.SOCK_STREAM)):
        for level, names in lists:
            if level == UDP and kind == socket.SOCK_STREAM:
                continue
            for name, option in names.items():
                # The ECN bits of a stream are its own.
                if kind == socket.SOCK_STREAM and name in ("TOS", "TCLASS"):
                    continue
                one = socket.socket(family, kind)
                got = [str(outcome(one.getsockopt, level, option))]
                for number in numbers:
                    done = outcome(one.setsockopt, level, option, number)
                    read = outcome(one.getsockopt, level, option)
                    got.append(f"{number}:{'' if done is None else done}={read}")
                for value in (b"", b"\1", b"\1\1", bytes(3), bytes(5), bytes(8)):
                    done = outcome(one.setsockopt, level, option, value)
                    got.append(f"{len(value)}B:{'' if done is None else done}")
                for room in (1, 2, 8):
                    got.append(f"{room}b:{outcome(one.getsockopt, level, option, room)}")
                row("value", family.name, kind.name, level, name, *got)


def received(receiver):
    data, messages, flags, source = receiver.recvmsg(999, 999)
    got = []
    for level, kind, value in messages:
        if (level, kind) in ((IP, 8), (IPV6, 50), (IPV6, 2)):
            index = struct.unpack_from("@I", value, 0 if level == IP else 16)[0]
            value = value[4:] if level == IP else value[:16]
            value = (index == INDEX, index == 1, value.hex())
        else:
            value = value.hex()
        got.append((level, kind, value))
    return data, got, flags


def messages():
    """The control messages of a received datagram, under the old names and the new."""
    options = {"2292PKTINFO": 2, "2292HOPLIMIT": 8, "RECVPKTINFO": 49, "RECVHOPLIMIT": 51, "RECVTCLASS": 66}
    sender = udp(socket.AF_INET6)
    sender.setsockopt(IPV6, 16, 33)
    sender.setsockopt(IPV6, 67, 0x2c)
    names = list(options)
    for bits in range(1 << len(names)):
        receiver = udp(socket.AF_INET6)
        receiver.bind(("::1", 0))
        asked = [name for at, name in enumerate(names) if bits >> at & 1]
        for name in asked:
            receiver.setsockopt(IPV6, options[name], 1)
        sender.sendto(b"x", receiver.getsockname())
        row("messages", *asked, *received(receiver))
    # Sent under the old names.
    receiver = udp(socket.AF_INET6)
    receiver.bind(("::1", 0))
    for option in (49, 51):
        receiver.setsockopt(IPV6, option, 1)
    for kind, value in ((8, 44), (52, 45), (8, -1), (8, 256), (8, -2)):
        done = outcome(sender.sendmsg, [b"y"], [(IPV6, kind, struct.pack("@i", value))], 0, receiver.getsockname())
        row("sent", kind, value, done, *(received(receiver) if done == 1 else ()))
    for kind in (2, 50):
        for source, index in (("::1", 0), ("::", 1), (HERE6, 0), ("2001:db8::1", 0), ("::1", 99), ("::", 99)):
            value = socket.inet_pton(socket.AF_INET6, source) + struct.pack("@I", index)
            done = outcome(sender.sendmsg, [b"y"], [(IPV6, kind, value)], 0, receiver.getsockname())
            row("sent from", kind, source, index, done, *(received(receiver) if done == 1 else ()))
    # To this host, from IPv4 on a socket of both families.
    receiver = udp(socket.AF_INET6)
    receiver.bind(("::", 0))
    for option in (2, 8, 49, 51):
        receiver.setsockopt(IPV6, option, 1)
    receiver.setsockopt(IP, 12, 1)
    udp().sendto(b"four", ("127.0.0.1", receiver.getsockname()[1]))
    row("mapped", *received(receiver))


def hops():
    """The hops that leave: by option and by message."""
    receiver = udp()
    receiver.bind((HERE, 0))
    receiver.setsockopt(IP, 12, 1)
    receiver.setsockopt(IP, 13, 1)
    receiver.setsockopt(IP, 8, 1)
    for ttl, tos in ((1, 0), (255, 255), (-1, 0x13), (64, 4)):
        sender = udp()
        row("hops", ttl, tos, outcome(sender.setsockopt, IP, 2, ttl), outcome(sender.setsockopt, IP, 1, tos),
            sender.getsockopt(IP, 2), sender.getsockopt(IP, 1))
        sender.sendto(b"x", receiver.getsockname())
        row("seen", *received(receiver))
    sender = udp()
    for kind, value in ((2, 0), (2, 1), (2, 255), (2, 256), (2, -1), (1, 0), (1, 255), (1, 256), (1, 3)):
        done = outcome(sender.sendmsg, [b"x"], [(IP, kind, struct.pack("@i", value))], 0, receiver.getsockname())
        row("message", kind, value, done, *(received(receiver) if done == 1 else ()))
    row("byte", outcome(sender.sendmsg, [b"x"], [(IP, 1, b"\x28")], 0, receiver.getsockname()), *received(receiver))
    for ours, index in (("0.0.0.0", 0), (HERE, 0), ("127.0.0.1", 0), ("0.0.0.0", INDEX), ("0.0.0.0", 99),
                        ("198.51.100.1", 0)):
        value = struct.pack("@I", index) + socket.inet_aton(ours) + bytes(4)
        done = outcome(sender.sendmsg, [b"x"], [(IP, 8, value)], 0, receiver.getsockname())
        row("pktinfo", ours, "device" if index == INDEX else index, done, *(received(receiver) if done == 1 else ()))
    receiver = udp(socket.AF_INET6)
    receiver.bind((HERE6, 0))
    receiver.setsockopt(IPV6, 51, 1)
    for hops_ in (0, 1, 255, -1):
        sender = udp(socket.AF_INET6)
        row("hops6", hops_, outcome(sender.setsockopt, IPV6, 16, hops_), sender.getsockopt(IPV6, 16))
        done = outcome(sender.sendto, b"x", receiver.getsockname())
        row("seen", done, *(received(receiver) if done == 1 else ()))


def destinations():
    """Destinations that are special: port 0, no address, other families, disconnected sockets."""
    libc = ctypes.CDLL(None, use_errno=True)

    def raw(call, one, value):
        return 0 if call(one.fileno(), value, len(value)) == 0 else errno.errorcode[ctypes.get_errno()]

    for family, lo, any_, here in ((socket.AF_INET, "127.0.0.1", "0.0.0.0", HERE), (socket.AF_INET6, "::1", "::", HERE6)):
        one = udp(family)
        row("to port 0", outcome(one.sendto, b"x", (lo, 0)), outcome(one.connect, (lo, 0)), outcome(one.send, b"x"),
            outcome(one.getpeername))
        one = udp(family)
        row("to any", outcome(one.sendto, b"x", (any_, 9)), outcome(one.connect, (any_, 9)),
            outcome(lambda: one.getpeername()[0]), outcome(lambda: one.getsockname()[0]))
        one = udp(family)
        row("to any and 0", outcome(one.connect, (any_, 0)), outcome(lambda: one.getpeername()[0]),
            outcome(lambda: one.getsockname()[0]))
        one = udp(family)
        row("no one", outcome(one.send, b"x"), outcome(one.getpeername), outcome(one.sendmsg, [b"x"]))
        one = udp(family)
        one.bind((any_, 0))
        port = one.getsockname()[1]
        one.connect((lo, 9))
        row("bound to any, connected", one.getsockname()[0], one.getsockname()[1] == port)
        unspec = struct.pack("=H", 0).ljust(16, b"\0")
        row("disconnected", raw(libc.connect, one, unspec), one.getsockname()[0], one.getsockname()[1] == port,
            outcome(one.getpeername), outcome(one.send, b"x"))
        row("unspec short", raw(libc.connect, one, unspec[:2]), raw(libc.connect, one, unspec[:1]),
            raw(libc.bind, one, unspec[:2]))
        fresh = udp(family)
        row("bind unspec", raw(libc.bind, fresh, unspec))
        one = udp(family)
        one.bind((here, 0))
        row("bound, connect lo", outcome(one.connect, (lo, 9)), outcome(lambda: one.getsockname()[0]))
    four = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    six_name = struct.pack("=HHI", socket.AF_INET6, socket.htons(9), 0) + bytes(15) + b"\1" + bytes(4)
    four_name = struct.pack("=HH", socket.AF_INET, socket.htons(9)) + socket.inet_aton("127.0.0.1") + bytes(8)
    row("six on four", raw(libc.connect, four, six_name), raw(libc.bind, four, six_name))
    six = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    row("four on six", raw(libc.connect, six, four_name), raw(libc.bind, six, four_name))
    # A mapped destination on a connected socket, and the other way round.
    mapped = udp()
    mapped.bind(("127.0.0.1", 0))
    port = mapped.getsockname()[1]
    one = udp(socket.AF_INET6)
    one.connect(("::1", 9))
    row("mapped on connected 6", outcome(one.sendto, b"x", ("::ffff:127.0.0.1", port)), outcome(lambda: mapped.recvfrom(9)[0]))
    one = udp(socket.AF_INET6)
    one.connect(("::ffff:127.0.0.1", port))
    row("6 on connected mapped", outcome(one.sendto, b"x", ("::1", 9)), one.getsockname()[0], one.getpeername()[0])
    one = udp(socket.AF_INET6)
    one.bind(("::1", 0))
    row("mapped from ::1", outcome(one.sendto, b"x", ("::ffff:127.0.0.1", port)), outcome(one.connect, ("::ffff:127.0.0.1", port)))
    one = udp(socket.AF_INET6)
    one.bind(("::ffff:127.0.0.1", 0))
    row("6 from mapped", outcome(one.sendto, b"x", ("::1", 9)), outcome(one.connect, ("::1", 9)))
    one = udp(socket.AF_INET6)
    one.setsockopt(IPV6, 26, 1)
    row("mapped v6only", outcome(one.sendto, b"x", ("::ffff:127.0.0.1", port)), outcome(one.connect, ("::ffff:127.0.0.1", port)))
    one = udp(socket.AF_INET6)
    one.bind(("::", 0))
    row("v6only later", outcome(one.setsockopt, IPV6, 26, 1), one.getsockopt(IPV6, 26))


def lengths():
    """Empty datagrams, what is cut off, what is looked at, and how much there is."""
    receiver, sender = udp(), udp()
    receiver.bind(("127.0.0.1", 0))
    sender.connect(receiver.getsockname())

    def waiting(request):
        value = array.array("i", [-7])
        return outcome(fcntl.ioctl, receiver, request, value), value[0]

    row("nothing", waiting(0x541B), waiting(0x5411))
    sender.send(b"")
    sender.send(b"0123456789")
    sender.send(b"last")
    select.select([receiver], [], [])
    row("empty", waiting(0x541B), receiver.recvfrom(9)[0])
    select.select([receiver], [], [])
    row("ten", waiting(0x541B), receiver.recv(4, socket.MSG_PEEK), outcome(receiver.recv_into, bytearray(4), 4, socket.MSG_PEEK | socket.MSG_TRUNC))
    buffer = bytearray(4)
    row("peeked", receiver.recvmsg(4, 0, socket.MSG_PEEK)[::2], outcome(receiver.recv_into, buffer, 4, socket.MSG_PEEK | socket.MSG_TRUNC))
    row("cut", receiver.recvmsg(4, 0)[::2])
    select.select([receiver], [], [])
    row("whole", waiting(0x541B), outcome(receiver.recv_into, bytearray(2), 2, socket.MSG_TRUNC), waiting(0x541B))
    sender.send(b"zero")
    select.select([receiver], [], [])
    row("no room", receiver.recv(0), outcome(receiver.recv, 9, socket.MSG_DONTWAIT))
    row("too long", outcome(sender.send, bytes(65508)), outcome(sender.send, bytes(65536)), outcome(sender.send, bytes(65507)))
    row("too long 6", outcome(udp(socket.AF_INET6).sendto, bytes(65528), ("::1", 9)))
    # As tracepath does: far too long, for the MTU in the error queue.
    for level, family, lo in ((IP, socket.AF_INET, "127.0.0.1"), (IPV6, socket.AF_INET6, "::1")):
        one = udp(family)
        one.setsockopt(level, 11 if level == IP else 25, 1)
        row("far too long", outcome(one.sendto, bytes(127952), (lo, 9)), errors(one))
    for level, family, lo in ((IP, socket.AF_INET, "127.0.0.1"), (IPV6, socket.AF_INET6, "::1")):
        one = udp(family)
        one.setsockopt(level, 11 if level == IP else 25, 1)
        row("too long", outcome(one.sendto, bytes(65530), (lo, 9)), errors(one))
        one.connect((lo, 9))
        row("too long", outcome(one.send, bytes(65530)), errors(one))


def errors(one):
    """What the error queue has."""
    got = []
    while True:
        try:
            data, messages_, flags, name = one.recvmsg(64, 512, socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT)
        except OSError as error:
            return got, errno.errorcode.get(error.errno, "none")
        for level, kind, value in messages_:
            number, origin, what, code, _, info, extra = struct.unpack_from("=IBBBBII", value)
            got.append((level, kind, errno.errorcode[number], origin, what, code, min(info, 65535), len(data), f"{flags:x}",
                        name[0] if name else name, value[16:20].hex()))


def refused():
    """ICMP errors in the queue and without it."""
    for level, family, lo in ((IP, socket.AF_INET, "127.0.0.1"), (IPV6, socket.AF_INET6, "::1")):
        for queued in (0, 1):
            for connected in (0, 1):
                one = udp(family)
                one.setblocking(False)
                one.setsockopt(level, 11 if level == IP else 25, queued)
                free = udp(family)
                free.bind((lo, 0))
                gone = free.getsockname()
                free.close()
                if connected:
                    one.connect(gone)
                one.sendto(b"lost", gone)
                if queued or connected:
                    select.select([one], [], [], 10)
                poll = select.poll()
                poll.register(one, 0xFFF)
                bits = poll.poll(0)[0][1] if queued or connected else 4
                row("refused", level, queued, connected, f"{bits:x}", outcome(one.recv, 9, socket.MSG_DONTWAIT), errors(one),
                    one.getsockopt(SOL, socket.SO_ERROR))


def requests():
    """ioctl requests about interfaces and times."""
    names = {"IFNAME": 0x8910, "IFFLAGS": 0x8913, "IFADDR": 0x8915, "IFDSTADDR": 0x8917, "IFBRDADDR": 0x8919,
             "IFNETMASK": 0x891b, "IFMETRIC": 0x891d, "IFMTU": 0x8921, "IFINDEX": 0x8933, "IFHWADDR": 0x8927,
             "IFTXQLEN": 0x8942}
    for family in (socket.AF_INET, socket.AF_INET6):
        one = udp(family)
        for name, request in names.items():
            # Linux answers those of IPv4 on its own sockets only.
            if family == socket.AF_INET6 and name in ("IFADDR", "IFDSTADDR", "IFBRDADDR", "IFNETMASK"):
                continue
            for device in (DEVICE, "lo", "none0"):
                # An address of the host may have no broadcast address.
                if name == "IFBRDADDR" and device == DEVICE:
                    continue
                value = bytearray(device.encode().ljust(16, b"\0") + bytes(24))
                if name == "IFNAME":
                    value[16:20] = struct.pack("@i", INDEX if device == DEVICE else 1 if device == "lo" else 77)
                done = outcome(fcntl.ioctl, one, request, value)
                data = bytes(value[16:32])
                if name in ("IFADDR", "IFDSTADDR", "IFBRDADDR", "IFNETMASK"):
                    data = (data[0], socket.inet_ntoa(data[4:8]))
                elif name == "IFINDEX":
                    data = struct.unpack_from("@i", data)[0] in (INDEX, 1)
                elif name in ("IFHWADDR", "IFTXQLEN", "IFMAP", "IFFLAGS", "IFMTU"):
                    data = ""
                else:
                    data = data.hex() if name != "IFNAME" else value[:16].rstrip(b"\0").decode()
                row("request", family.name, name, "device" if device == DEVICE else device, done, data if done == 0 else "")


for part in sys.argv[4:] or ("values", "messages", "hops", "destinations", "lengths", "refused", "requests"):
    globals()[part]()
