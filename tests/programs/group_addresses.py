"""Datagram sockets and groups: addresses to bind to, who receives what, memberships, sources.

`group_addresses.py ADDRESS ADDRESS6 INTERFACE`: addresses of this host on INTERFACE. Both are
printed as words, so that the rows are the same on every host.
"""

import errno
import ipaddress
import select
import socket
import struct
import sys

HERE, HERE6, DEVICE = sys.argv[1:4]
INDEX = socket.if_nametoindex(DEVICE)
BROADCAST = str(ipaddress.ip_network(HERE + "/24", strict=False).broadcast_address)
G1, G2, G3 = "239.7.7.1", "239.7.7.2", "232.7.7.3"
S1, S2, S3 = "ff15::71", "ff15::72", "ff12::73"
UDPLITE = 136
IP, IPV6 = socket.IPPROTO_IP, socket.IPPROTO_IPV6
(IP_MSFILTER, IP_UNBLOCK, IP_BLOCK, IP_ADD_SOURCE, IP_DROP_SOURCE) = 41, 37, 38, 39, 40
(MCAST_JOIN, MCAST_BLOCK, MCAST_UNBLOCK, MCAST_LEAVE, MCAST_JOIN_SOURCE,
 MCAST_LEAVE_SOURCE, MCAST_MSFILTER) = range(42, 49)
MULTICAST_ALL, MULTICAST_ALL6 = 49, 29
# Longer ones first.
WORDS = {HERE6: "here6", BROADCAST: "broadcast", HERE: "here", DEVICE: "device"}


def said(value):
    """A value with this host's addresses as words."""
    text = str(value)
    for address, word in WORDS.items():
        text = text.replace(address, word)
    return text


def row(*words):
    print(*(said(word) for word in words), flush=True)


def outcome(call, *words):
    """What a call returns, or the name of its error."""
    try:
        return call(*words)
    except OSError as error:
        return errno.errorcode[error.errno] if error.errno else "timed out"


def made(family=socket.AF_INET, protocol=0, kind=socket.SOCK_DGRAM):
    one = socket.socket(family, kind, protocol)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.setblocking(False)
    return one


def binding():
    """Which addresses a socket can have."""
    four = [G1, "224.0.0.1", "255.255.255.255", BROADCAST, "127.0.0.1", "127.1.2.3",
            "127.255.255.254", "0.0.0.0", HERE, "240.0.0.1", "198.51.100.1"]
    kinds = [(socket.SOCK_DGRAM, 0), (socket.SOCK_DGRAM, UDPLITE), (socket.SOCK_STREAM, 0)]
    for kind, protocol in kinds:
        for address in four:
            one = made(socket.AF_INET, protocol, kind)
            row("bind", kind.name, protocol, address, outcome(one.bind, (address, 0)),
                one.getsockname()[0])
        for address in ["::ffff:" + address for address in four]:
            one = made(socket.AF_INET6, protocol, kind)
            row("bind", kind.name, protocol, address, outcome(one.bind, (address, 0)),
                one.getsockname()[0])
        for address, scope in ((S1, 0), ("ff02::99", 0), ("ff02::99", INDEX), ("ff02::99", 99),
                               ("ff01::99", 1), ("ff02::99", 1), (S1, 99), (HERE6, 0), (HERE6, 77),
                               ("::1", 0), ("::2", 0), ("fe80::7", INDEX), ("fe80::7", 0)):
            one = made(socket.AF_INET6, protocol, kind)
            name = outcome(one.bind, (address, 0, 0, scope))
            scope = "device" if scope == INDEX else scope
            row("bind", kind.name, protocol, address, scope, name, one.getsockname()[0].split("%")[0],
                one.getsockname()[3] in (0, INDEX, 1))
        only = made(socket.AF_INET6, protocol, kind)
        only.setsockopt(IPV6, socket.IPV6_V6ONLY, 1)
        row("bind v6only", kind.name, outcome(only.bind, ("::ffff:" + G1, 0)))


def ports():
    """Two sockets on one port: which addresses exclude each other."""
    names = [G1, G2, "0.0.0.0", HERE, BROADCAST, "255.255.255.255", "127.0.0.1"]
    for first in names:
        one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        one.bind((first, 0))
        port = one.getsockname()[1]
        for second in names:
            other = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            row("both", first, second, outcome(other.bind, (second, port)))
            other.close()
        one.close()


def settled(sender, six):
    """All that was sent before has been delivered."""
    address = "::1" if six else "127.0.0.1"
    sync = made(sender.family)
    sync.bind((address, 0))
    other = made(sender.family)
    for _ in range(3):
        for each in (sender, other):
            while True:
                each.sendto(b"sync", sync.getsockname())
                if select.select([sync], [], [], 10)[0]:
                    break
            sync.recv(9)


def drained(sockets):
    """The names of the sockets that have received, each with how often."""
    got = []
    for name, one in sockets.items():
        count = 0
        while outcome(one.recv, 99) not in ("EAGAIN",):
            count += 1
        if count:
            got.append(f"{name}*{count}")
    return got


def mreq(group, address=None, index=None):
    if index is not None:
        return socket.inet_aton(group) + bytes(4) + struct.pack("@I", index)
    return socket.inet_aton(group) + socket.inet_aton(address or HERE)


def mreq6(group, index):
    return socket.inet_pton(socket.AF_INET6, group) + struct.pack("@I", index)


def name_bytes(address, port=0):
    """A struct sockaddr_storage."""
    if ":" in address:
        bytes_ = struct.pack("=HHI", socket.AF_INET6, socket.htons(port), 0)
        bytes_ += socket.inet_pton(socket.AF_INET6, address) + bytes(4)
    else:
        bytes_ = struct.pack("=HH", socket.AF_INET, socket.htons(port)) + socket.inet_aton(address)
    return bytes_.ljust(128, b"\0")


def group_req(group, index):
    return struct.pack("@I4x", index) + name_bytes(group)


def source_req(group, source, index):
    return group_req(group, index) + name_bytes(source)


def sender_for(family=socket.AF_INET, index=INDEX):
    one = made(family)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    if family == socket.AF_INET:
        one.bind(("127.0.0.1" if index == 1 else HERE, 0))
        one.setsockopt(IP, socket.IP_MULTICAST_IF, bytes(8) + struct.pack("@I", index))
    else:
        one.bind(("::1" if index == 1 else HERE6, 0))
        one.setsockopt(IPV6, socket.IPV6_MULTICAST_IF, index)
    one.setblocking(True)
    return one


def delivery():
    """Who receives what is sent to a group, to a broadcast address and to this host."""
    sender = sender_for()
    first = made()
    first.bind((G1, 0))
    port = first.getsockname()[1]
    sockets = {"group1": first}
    for name, address in (("group2", G2), ("any", "0.0.0.0"), ("any-all", "0.0.0.0"),
                          ("any-none", "0.0.0.0"), ("here", HERE), ("broadcast", BROADCAST),
                          ("limited", "255.255.255.255"), ("loopback", "127.0.0.1")):
        sockets[name] = made()
        sockets[name].bind((address, port))
    sockets["group1"].setsockopt(IP, socket.IP_ADD_MEMBERSHIP, mreq(G1))
    sockets["group2"].setsockopt(IP, socket.IP_ADD_MEMBERSHIP, mreq(G2))
    sockets["any"].setsockopt(IP, socket.IP_ADD_MEMBERSHIP, mreq(G1))
    sockets["any-none"].setsockopt(IP, MULTICAST_ALL, 0)
    six = made(socket.AF_INET6)
    six.bind(("::", port))
    sockets["dual"] = six
    mapped = made(socket.AF_INET6)
    mapped.bind(("::ffff:" + G1, port))
    sockets["mapped"] = mapped
    for to in (G1, G2, G3, BROADCAST, "255.255.255.255"):
        said_ = outcome(sender.sendto, b"hello", (to, port))
        settled(sender, False)
        row("delivered", to, said_, drained(sockets))
    sender.setsockopt(IP, socket.IP_MULTICAST_LOOP, 0)
    for to in (G1, BROADCAST):
        said_ = outcome(sender.sendto, b"hello", (to, port))
        settled(sender, False)
        row("without loop", to, said_, drained(sockets))
    sender.setsockopt(IP, socket.IP_MULTICAST_LOOP, 1)
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 0)
    for to in (BROADCAST, "255.255.255.255"):
        row("without right", to, outcome(sender.sendto, b"hello", (to, port)),
            outcome(made().connect, (to, port)) if to == BROADCAST else "")
    # From a socket that has a group's address: its own address stands in the datagram.
    first.setsockopt(IP, socket.IP_MULTICAST_IF, bytes(8) + struct.pack("@I", INDEX))
    back = made()
    back.bind((HERE, 0))
    first.sendto(b"from a group", back.getsockname())
    select.select([back], [], [], 30)
    data, source = back.recvfrom(99)
    row("sent by a group's socket", data, source[0], source[1] == port)
    first.connect((HERE, back.getsockname()[1]))
    row("connected", first.getsockname()[0], first.getpeername()[0])
    back.sendto(b"answer", (HERE, port))
    back.sendto(b"to the group", (G1, port))
    settled(sender, False)
    row("to the connected one", outcome(first.recv, 99), outcome(first.recv, 99))


def delivery6():
    sender = sender_for(socket.AF_INET6)
    first = made(socket.AF_INET6)
    first.bind((S1, 0))
    port = first.getsockname()[1]
    sockets = {"group1": first}
    for name, address in (("group2", (S2, port)), ("any", ("::", port)), ("any-none", ("::", port)),
                          ("here", (HERE6, port)), ("link", (S3, port, 0, INDEX))):
        sockets[name] = made(socket.AF_INET6)
        sockets[name].bind(address)
    for name, group in (("group1", S1), ("group2", S2), ("any", S1), ("link", S3)):
        sockets[name].setsockopt(IPV6, socket.IPV6_JOIN_GROUP, mreq6(group, INDEX))
    sockets["any-none"].setsockopt(IPV6, MULTICAST_ALL6, 0)
    for to in (S1, S2, "ff15::79"):
        said_ = outcome(sender.sendto, b"hello", (to, port))
        settled(sender, True)
        row("delivered", to, said_, drained(sockets))
    said_ = outcome(sender.sendto, b"hello", (S3, port, 0, INDEX))
    settled(sender, True)
    row("delivered", S3, said_, drained(sockets))
    said_ = outcome(sender.sendto, b"hello", (S3, port))
    settled(sender, True)
    row("delivered without scope", S3, said_, drained(sockets))
    sender.setsockopt(IPV6, socket.IPV6_MULTICAST_LOOP, 0)
    sender.sendto(b"hello", (S1, port))
    settled(sender, True)
    row("without loop", drained(sockets))


def loopback():
    """Groups on lo."""
    for how in ("address", "index", "none"):
        one = made()
        one.bind(("0.0.0.0", 0))
        port = one.getsockname()[1]
        member = {"address": mreq(G1, "127.0.0.1"), "index": mreq(G1, index=1),
                  "none": mreq(G2, "127.0.0.1")}[how]
        row("lo join", how, outcome(one.setsockopt, IP, socket.IP_ADD_MEMBERSHIP, member),
            outcome(one.setsockopt, IP, socket.IP_ADD_MEMBERSHIP, member))
        for out in (1, INDEX):
            sender = sender_for(index=out)
            for loop in (1, 0):
                sender.setsockopt(IP, socket.IP_MULTICAST_LOOP, loop)
                said_ = outcome(sender.sendto, b"hello", (G1, port))
                settled(sender, False)
                row("lo", how, "lo" if out == 1 else "device", loop, said_, drained({"one": one}))
        row("lo leave", outcome(one.setsockopt, IP, socket.IP_DROP_MEMBERSHIP, member))
    one = made()
    one.bind(("127.0.0.1", 0))
    one.setsockopt(IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
    other = made()
    other.bind((G1, 0))
    other.setsockopt(IP, socket.IP_ADD_MEMBERSHIP, mreq(G1, "127.0.0.1"))
    other.setsockopt(IP, 8, 1)
    one.sendto(b"info", (G1, other.getsockname()[1]))
    select.select([other], [], [], 30)
    data, messages, _, source = other.recvmsg(99, 999)
    for level, kind, value in messages:
        index, ours, to = struct.unpack("@I4s4s", value)
        row("lo info", data, source[0], level, kind, index, socket.inet_ntoa(ours),
            socket.inet_ntoa(to))
    one = made(socket.AF_INET6)
    one.bind(("::", 0))
    port = one.getsockname()[1]
    for group in ("ff11::7", "ff12::7", "ff15::7"):
        row("lo join6", group,
            outcome(one.setsockopt, IPV6, socket.IPV6_JOIN_GROUP, mreq6(group, 1)),
            outcome(one.setsockopt, IPV6, socket.IPV6_JOIN_GROUP, mreq6(group, 1)))
        for loop in (1, 0):
            sender = sender_for(socket.AF_INET6, 1)
            sender.setsockopt(IPV6, socket.IPV6_MULTICAST_LOOP, loop)
            said_ = outcome(sender.sendto, b"hello", (group, port, 0, 1))
            settled(sender, True)
            row("lo6", group, loop, said_, drained({"one": one}))
        row("lo leave6", outcome(one.setsockopt, IPV6, socket.IPV6_LEAVE_GROUP, mreq6(group, 1)))


def memberships():
    """Ways to join and leave, and their errors."""
    add, drop = socket.IP_ADD_MEMBERSHIP, socket.IP_DROP_MEMBERSHIP
    for name, value in (("mreq", mreq(G1)), ("mreqn", mreq(G1, index=INDEX)),
                        ("both", socket.inet_aton(G1) + socket.inet_aton("127.0.0.1") +
                         struct.pack("@I", INDEX)),
                        ("foreign", mreq(G1, "198.51.100.1")),
                        ("index 99", mreq(G1, index=99)), ("no group", mreq("10.1.1.1")),
                        ("short", mreq(G1)[:7]), ("empty", b""), ("long", mreq(G1) + bytes(30)),
                        ("all hosts", mreq("224.0.0.1"))):
        one = made()
        row("member", name, *(outcome(one.setsockopt, IP, option, value)
                              for option in (drop, add, add, drop, drop)))
        row("get", outcome(one.getsockopt, IP, add, 8), outcome(one.getsockopt, IP, drop, 8))
    for name, value in (("index", mreq6(S1, INDEX)), ("0", mreq6(S1, 0)), ("99", mreq6(S1, 99)),
                        ("no group", mreq6("2001:db8::1", INDEX)), ("short", mreq6(S1, INDEX)[:19]),
                        ("all nodes", mreq6("ff02::1", INDEX)), ("mapped", mreq6("::ffff:" + G1, 0))):
        one = made(socket.AF_INET6)
        row("member6", name, *(outcome(one.setsockopt, IPV6, option, value) for option in (
            socket.IPV6_LEAVE_GROUP, socket.IPV6_JOIN_GROUP, socket.IPV6_JOIN_GROUP,
            socket.IPV6_LEAVE_GROUP, socket.IPV6_LEAVE_GROUP)))
    # The options of IPv4 on a socket of both families.
    one = made(socket.AF_INET6)
    row("member on 6", *(outcome(one.setsockopt, IP, option, mreq(G1)) for option in (add, drop)))
    for level, group, wrong, family in ((IP, G1, S1, socket.AF_INET), (IPV6, S1, G1, socket.AF_INET6)):
        values = (("index", group_req(group, INDEX)),
                  ("99", group_req(group, 99)), ("family", group_req(wrong, INDEX)),
                  ("no group", group_req("10.1.1.1" if level == IP else "2001:db8::1", INDEX)),
                  ("short", group_req(group, INDEX)[:135]), ("long", group_req(group, INDEX) + bytes(9)))
        for name, value in values:
            one = made(family)
            row("group", level, name, *(outcome(one.setsockopt, level, option, value) for option in (
                MCAST_LEAVE, MCAST_JOIN, MCAST_JOIN, MCAST_LEAVE, MCAST_LEAVE)))
        # The two ways name the same membership.
        one = made(family)
        joined = mreq(G1, index=INDEX) if level == IP else mreq6(S1, INDEX)
        join = socket.IP_ADD_MEMBERSHIP if level == IP else socket.IPV6_JOIN_GROUP
        row("group", level, "same", outcome(one.setsockopt, level, MCAST_JOIN, group_req(group, INDEX)),
            outcome(one.setsockopt, level, join, joined),
            outcome(one.setsockopt, level, MCAST_LEAVE, group_req(group, INDEX)))


def mreq_source(group, source, interface=None):
    parts = group, interface or HERE, source
    return b"".join(socket.inet_aton(part) for part in parts)


def ip_msfilter(group, mode, sources, interface=None):
    head = socket.inet_aton(group) + socket.inet_aton(interface or HERE)
    head += struct.pack("@II", mode, len(sources))
    return head + b"".join(socket.inet_aton(source) for source in sources)


def group_filter(group, mode, sources, index=None):
    head = group_req(group, INDEX if index is None else index) + struct.pack("@II", mode, len(sources))
    return head + b"".join(name_bytes(source) for source in sources)


def read_filter(one, level, group):
    """The mode and the sources of a membership, by both ways; Python cannot pass a value to
    getsockopt, so the C library's functions are asked."""
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    said_ = []
    if level == IP:
        value = ctypes.create_string_buffer(ip_msfilter(group, 9, []) + struct.pack("@4x") * 8)
        ctypes.memmove(ctypes.addressof(value) + 12, struct.pack("@I", 8), 4)
        length = ctypes.c_uint(16 + 32)
        done = libc.getsockopt(one.fileno(), IP, IP_MSFILTER, value, ctypes.byref(length))
        mode, count = struct.unpack_from("@II", value.raw, 8)
        sources = [socket.inet_ntoa(value.raw[at:at + 4]) for at in range(16, 16 + 4 * min(count, 8), 4)]
        said_.append((mode, count, sorted(sources), length.value) if done == 0
                     else errno.errorcode[ctypes.get_errno()])
    room = 136 + 8 + 128 * 8
    value = ctypes.create_string_buffer(group_filter(group, 9, []).ljust(room, b"\0"), room)
    ctypes.memmove(ctypes.addressof(value) + 140, struct.pack("@I", 8), 4)
    length = ctypes.c_uint(room)
    done = libc.getsockopt(one.fileno(), level, MCAST_MSFILTER, value, ctypes.byref(length))
    mode, count = struct.unpack_from("@II", value.raw, 136)
    at, size = (4, 4) if level == IP else (8, 16)
    family = one.family
    sources = [socket.inet_ntop(family, value.raw[144 + 128 * n + at:][:size]) for n in range(min(count, 8))]
    said_.append((mode, count, sorted(sources), length.value) if done == 0
                 else errno.errorcode[ctypes.get_errno()])
    return said_


def sources():
    """Source-specific memberships: their errors, what they take, and what is read back."""
    steps = [("block without", IP_BLOCK, HERE), ("unblock without", IP_UNBLOCK, HERE),
             ("drop without", IP_DROP_SOURCE, HERE), ("add", IP_ADD_SOURCE, HERE),
             ("add again", IP_ADD_SOURCE, HERE), ("add other", IP_ADD_SOURCE, "10.9.9.9"),
             ("block in include", IP_BLOCK, HERE), ("drop", IP_DROP_SOURCE, HERE),
             ("drop again", IP_DROP_SOURCE, HERE), ("drop other", IP_DROP_SOURCE, "10.9.9.9"),
             ("drop gone", IP_DROP_SOURCE, "10.9.9.9")]
    one = made()
    one.bind(("0.0.0.0", 0))
    port = one.getsockname()[1]
    one.setsockopt(IP, MULTICAST_ALL, 0)
    sender = sender_for()

    def heard(group):
        sender.sendto(b"hello", (group, port))
        settled(sender, False)
        return drained({"one": one})

    for name, option, source in steps:
        row("source", name, outcome(one.setsockopt, IP, option, mreq_source(G3, source)), heard(G3),
            *read_filter(one, IP, G3))
    row("join after", outcome(one.setsockopt, IP, socket.IP_ADD_MEMBERSHIP, mreq(G1)), heard(G1))
    for name, option, source in (("block", IP_BLOCK, HERE), ("block again", IP_BLOCK, HERE),
                                 ("block other", IP_BLOCK, "10.9.9.9"), ("add in exclude", IP_ADD_SOURCE, HERE),
                                 ("drop in exclude", IP_DROP_SOURCE, HERE),
                                 ("unblock", IP_UNBLOCK, HERE), ("unblock again", IP_UNBLOCK, HERE)):
        row("excluding", name, outcome(one.setsockopt, IP, option, mreq_source(G1, source)), heard(G1),
            *read_filter(one, IP, G1))
    row("leave", outcome(one.setsockopt, IP, socket.IP_DROP_MEMBERSHIP, mreq(G1)), heard(G1))
    row("wrong", outcome(one.setsockopt, IP, IP_ADD_SOURCE, mreq_source("10.1.1.1", HERE)),
        outcome(one.setsockopt, IP, IP_ADD_SOURCE, mreq_source(G1, HERE)[:11]),
        outcome(one.setsockopt, IP, IP_ADD_SOURCE, mreq_source(G1, HERE) + bytes(1)),
        outcome(one.setsockopt, IP, IP_ADD_SOURCE, mreq_source(G1, HERE, "198.51.100.1")))
    for name, value in (("without", ip_msfilter(G1, 1, [HERE])),):
        row("msfilter", name, outcome(one.setsockopt, IP, IP_MSFILTER, value))
    one.setsockopt(IP, socket.IP_ADD_MEMBERSHIP, mreq(G1))
    for name, value in (("include", ip_msfilter(G1, 1, [HERE])), ("exclude", ip_msfilter(G1, 0, [HERE])),
                        ("two", ip_msfilter(G1, 1, ["10.9.9.9", HERE])), ("all", ip_msfilter(G1, 0, [])),
                        ("mode", ip_msfilter(G1, 3, [])), ("short", ip_msfilter(G1, 1, [HERE])[:19]),
                        ("eleven", ip_msfilter(G1, 1, [f"10.9.9.{n}" for n in range(11)])),
                        ("none", ip_msfilter(G1, 1, []))):
        row("msfilter", name, outcome(one.setsockopt, IP, IP_MSFILTER, value), heard(G1),
            *read_filter(one, IP, G1))
    for level, group, here, other, family in ((IP, G3, HERE, "10.9.9.9", socket.AF_INET),
                                              (IPV6, S1, HERE6, "fd00:9::9", socket.AF_INET6)):
        six = level == IPV6
        one = made(family)
        one.bind(("::" if six else "0.0.0.0", 0))
        port = one.getsockname()[1]
        one.setsockopt(level, MULTICAST_ALL6 if six else MULTICAST_ALL, 0)
        sender = sender_for(family)

        def heard_by():
            sender.sendto(b"hello", (group, port))
            settled(sender, six)
            return drained({"one": one})

        for name, option, source in (("leave without", MCAST_LEAVE_SOURCE, here),
                                     ("block without", MCAST_BLOCK, here),
                                     ("join other", MCAST_JOIN_SOURCE, other),
                                     ("join", MCAST_JOIN_SOURCE, here), ("again", MCAST_JOIN_SOURCE, here),
                                     ("leave other", MCAST_LEAVE_SOURCE, other),
                                     ("leave", MCAST_LEAVE_SOURCE, here), ("gone", MCAST_LEAVE_SOURCE, here)):
            row("sources", level, name, outcome(one.setsockopt, level, option, source_req(group, source, INDEX)),
                heard_by(), *read_filter(one, level, group))
        row("sources", level, "all", outcome(one.setsockopt, level, MCAST_JOIN, group_req(group, INDEX)), heard_by())
        for name, option, source in (("block", MCAST_BLOCK, here), ("block again", MCAST_BLOCK, here),
                                     ("unblock", MCAST_UNBLOCK, here), ("unblock again", MCAST_UNBLOCK, here)):
            row("sources", level, name, outcome(one.setsockopt, level, option, source_req(group, source, INDEX)),
                heard_by(), *read_filter(one, level, group))
        for name, value in (("include", group_filter(group, 1, [here])), ("exclude", group_filter(group, 0, [here])),
                            ("two", group_filter(group, 1, [other, here])), ("short", group_filter(group, 1, [here])[:143]),
                            ("cut", group_filter(group, 1, [here])[:200]), ("mode", group_filter(group, 7, [])),
                            ("none", group_filter(group, 1, [])), ("after", group_filter(group, 1, [here]))):
            row("filter", level, name, outcome(one.setsockopt, level, MCAST_MSFILTER, value), heard_by(),
                *read_filter(one, level, group))
        row("sources wrong", level, outcome(one.setsockopt, level, MCAST_JOIN_SOURCE, source_req(group, here, 99)),
            outcome(one.setsockopt, level, MCAST_JOIN_SOURCE, source_req(group, here, INDEX)[:263]),
            outcome(one.setsockopt, level, MCAST_JOIN_SOURCE, source_req(here, here, INDEX)),
            outcome(one.setsockopt, level, MCAST_JOIN_SOURCE, source_req(group, S1 if level == IP else G1, INDEX)))


def interfaces():
    """IP_MULTICAST_IF and IPV6_MULTICAST_IF."""
    option, option6 = socket.IP_MULTICAST_IF, socket.IPV6_MULTICAST_IF
    one = made()
    row("if", outcome(one.getsockopt, IP, option))
    for name, value in (("address", socket.inet_aton(HERE)), ("lo", socket.inet_aton("127.0.0.1")),
                        ("foreign", socket.inet_aton("198.51.100.1")), ("none", bytes(4)),
                        ("mreq", mreq(G1)), ("mreqn", mreq(G1, index=INDEX)), ("index 99", mreq(G1, index=99)),
                        ("index 1", mreq(G1, index=1)), ("short", bytes(3)), ("empty", b"")):
        said_ = outcome(one.setsockopt, IP, option, value)
        read = outcome(one.getsockopt, IP, option, 4)
        row("if", name, said_, socket.inet_ntoa(read) if isinstance(read, bytes) else read)
    one = made(socket.AF_INET6)
    row("if6", outcome(one.getsockopt, IPV6, option6))
    for name, value in (("index", INDEX), ("0", 0), ("99", 99), ("-1", -1), ("1", 1)):
        said_ = outcome(one.setsockopt, IPV6, option6, value)
        read = outcome(one.getsockopt, IPV6, option6)
        row("if6", name, said_, "device" if read == INDEX else read)
    row("if6 short", outcome(one.setsockopt, IPV6, option6, bytes(3)))


for part in sys.argv[4:] or ("binding", "ports", "delivery", "delivery6", "loopback", "memberships",
                             "sources", "interfaces"):
    globals()[part]()
