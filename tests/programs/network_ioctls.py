"""Prints what a program sees of interfaces by ioctl(2), getifaddrs(3) and /proc/net/if_inet6.

    network_ioctls.py DEVICE    a device of the host, which is not to be seen or touched
"""

import array
import ctypes
import errno
import fcntl
import socket
import struct
import sys

SIOCGIFCONF, SIOCGIFFLAGS, SIOCSIFFLAGS = 0x8912, 0x8913, 0x8914
SIOCGIFDSTADDR, SIOCGIFMETRIC, SIOCGIFTXQLEN, SIOCSIFMTU = 0x8917, 0x891D, 0x8942, 0x8922
SIOCETHTOOL, SIOCGIWNAME = 0x8946, 0x8B01
libc = ctypes.CDLL(None, use_errno=True)
libc.fopen.restype = ctypes.c_void_p
libc.fgets.restype = ctypes.c_char_p


def refused(call, *words):
    try:
        return call(*words)
    except OSError as error:
        return errno.errorcode[error.errno]


def conf(sock, size):
    """Bytes that came, and names with addresses."""
    place = array.array("B", bytes(max(size, 1)))
    given = struct.pack("iL", size, place.buffer_info()[0] if size else 0)
    length = struct.unpack("iL", fcntl.ioctl(sock, SIOCGIFCONF, given))[0]
    rows = [bytes(place[at : at + 40]) for at in range(0, length, 40)] if size else []
    assert all(row[16:20] == bytes([2, 0, 0, 0]) for row in rows), rows
    names = [row[:16].rstrip(b"\0").decode() for row in rows]
    return length, sorted(zip(names, (socket.inet_ntoa(row[20:24]) for row in rows)))


def of(sock, request, name):
    return fcntl.ioctl(sock, request, name.encode().ljust(40, b"\0"))[16:24].hex()


def ask_device(sock, name, question):
    """SIOCETHTOOL: the first words of the answer, and the rest of it."""
    place = array.array("I", [question] + [7] * 10)
    request = name.encode().ljust(16, b"\0") + struct.pack("P", place.buffer_info()[0])
    fcntl.ioctl(sock, SIOCETHTOOL, request.ljust(40, b"\0"))
    words = place.tobytes()
    return " ".join([words[:4].hex(), words[4:8].hex(), words[8:12].hex(), words[12:].hex()])


class Interface(ctypes.Structure):
    """`struct ifaddrs`."""


Interface._fields_ = [
    ("next", ctypes.POINTER(Interface)),
    ("name", ctypes.c_char_p),
    ("flags", ctypes.c_uint),
    ("address", ctypes.POINTER(ctypes.c_ubyte)),
    ("netmask", ctypes.c_void_p),
    ("other", ctypes.POINTER(ctypes.c_ubyte)),
    ("data", ctypes.c_void_p),
]


def hardware():
    """Names of all interfaces with the hardware addresses that getifaddrs tells."""
    head = ctypes.POINTER(Interface)()
    assert libc.getifaddrs(ctypes.byref(head)) == 0
    rows, at = [], head
    while at:
        each = at.contents
        # `struct sockaddr_ll`.
        if each.address and bytes(each.address[:2]) == b"\x11\0":
            index, kind, _, length = struct.unpack("=iHBB", bytes(each.address[4:12]))
            assert index == socket.if_nametoindex(each.name.decode()) and each.data
            rows.append((each.name.decode(), kind, bytes(each.address[12 : 12 + length]).hex()))
        at = each.next
    libc.freeifaddrs(head)
    return rows


device = sys.argv[1]
for family in (socket.AF_INET, socket.AF_INET6):
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        print(family.name, "needed", *conf(sock, 0))
        for size in (39, 79, 400):
            print(family.name, size, *conf(sock, size))
        print("negative", refused(conf, sock, -1))
        print("null", refused(fcntl.ioctl, sock, SIOCGIFCONF, 0))
        for name in ("eth0", "lo"):
            for request in (SIOCGIFDSTADDR, SIOCGIFMETRIC, SIOCGIFTXQLEN):
                print(name, hex(request), refused(of, sock, request, name))
        for request in (SIOCGIFFLAGS, SIOCGIFTXQLEN, SIOCSIFFLAGS, SIOCSIFMTU, SIOCETHTOOL):
            print("host", hex(request), refused(of, sock, request, device))
        print("eth0 times", refused(ask_device, sock, "eth0", 0x41))
        print("eth0 other question", refused(ask_device, sock, "eth0", 0x3))
        print("host times", refused(ask_device, sock, device, 0x41))
        print("wireless", refused(of, sock, SIOCGIWNAME, "eth0"))
        # SIOCGIFHWADDR: its kind, then 6 bytes.
        ether = of(sock, 0x8927, "eth0")[4:]
        right = [("eth0", 1, ether), ("lo", 772, "000000000000")]
        print("hardware", sorted(hardware()) == right or (hardware(), right))
for path in (b"/proc/net/if_inet6", b"/proc/self/net/if_inet6"):
    for mode in (b"r", b"re"):
        file = ctypes.c_void_p(libc.fopen(path, mode))
        line = ctypes.create_string_buffer(200)
        while libc.fgets(line, 200, file):
            print(path.decode(), *line.value.decode().split())
        libc.fclose(file)
