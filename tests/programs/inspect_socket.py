"""Prints a program's view of its network: an interface, options, TCP_INFO.

Connects to ADDRESS:PORT, an echo server, and prints one line for each thing.
"""

import errno
import socket
import struct
import sys

address, port = sys.argv[1], int(sys.argv[2])
print("interface", socket.if_nametoindex("eth0"), socket.if_indextoname(1))
print("interfaces", sorted(name for _, name in socket.if_nameindex()))
print("numbers", all(socket.if_nametoindex(name) == index for index, name in socket.if_nameindex()))


def refused(call):
    """The name of the error that a call gives."""
    try:
        return call()
    except OSError as error:
        return errno.errorcode[error.errno]


with socket.create_connection((address, port)) as connection:
    family = connection.family.name
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(b"x" * 3000)
    got = connection.recv(3000, socket.MSG_WAITALL)
    print("echoed", len(got), family)
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 512)
    state, ca_state, _, _, _, options = info[:6]
    print("info", len(info), "state", state, "options", options & 7)
    acked, received = struct.unpack_from("=QQ", info, 120)
    print("acked", acked, "received", received)
    print("short", len(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 9)))
    print("unknown", refused(lambda: connection.getsockopt(socket.IPPROTO_TCP, 999)))
    print("wrong level", refused(lambda: connection.setsockopt(17, 1, 1)))
    print("user timeout", refused(lambda: connection.setsockopt(socket.IPPROTO_TCP, 18, -1)))

with socket.socket(socket.AF_INET6) as six:
    print("v6only", six.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY))
    six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    print("only", refused(lambda: six.connect(("::ffff:10.219.7.1", 9))))
    print("domain", six.getsockopt(socket.SOL_SOCKET, 39))
