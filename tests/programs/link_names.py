"""The number of an interface, by every way that has one: `link_names.py INTERFACE`."""

import fcntl
import socket
import struct
import subprocess
import sys

DEVICE = sys.argv[1]
index = socket.if_nametoindex(DEVICE)
print("index", index, "name", socket.if_indextoname(index), "list", sorted(socket.if_nameindex()))
request = bytearray(DEVICE.encode().ljust(40, b"\0"))
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
    fcntl.ioctl(udp, 0x8933, request)
shown = subprocess.run(["ip", "-o", "link", "show", DEVICE], capture_output=True, text=True, check=True)
print("ioctl", struct.unpack_from("@i", request, 16)[0], "netlink", shown.stdout.split(":")[0])


def looked_up(host):
    """The address and the link of a name."""
    name = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0][4]
    return f"{name[0].split('%')[0]} {name[3]}"


print("getaddrinfo", looked_up(f"fe80::1%{DEVICE}"), looked_up(f"ff02::1%{DEVICE}"), "number",
      looked_up("fe80::1%7").split()[1])
try:
    print("unknown", looked_up("fe80::1%none0"))
except socket.gaierror as error:
    print("unknown", type(error).__name__)
print("getnameinfo", *(socket.getnameinfo(("fe80::1", 9, 0, link), socket.NI_NUMERICHOST)[0]
                       for link in (index, 77)))
print("lo", socket.if_nametoindex("lo"))
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
    udp.setsockopt(socket.IPPROTO_IP, 8, 1)
    udp.bind(("127.0.0.1", 0))
    udp.sendto(b"x", udp.getsockname())
    _, messages, _, _ = udp.recvmsg(9, 99)
    print("pktinfo", struct.unpack_from("@i", messages[0][2])[0])
