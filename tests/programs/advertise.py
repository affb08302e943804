"""A router on DEVICE that advertises PREFIX/64 once, for the lifetimes of RFC 4861's example.

PREFIX is an address such as 2001:db8:7::. The router is the device's link-local address.
"""

import fcntl
import socket
import struct
import sys
import time

device, prefix = sys.argv[1], sys.argv[2]


def link_local():
    """The device's own link-local address."""
    with open("/proc/net/if_inet6", encoding="ascii") as lines:
        for line in lines:
            words = line.split()
            if words[5] == device and words[0].startswith("fe80"):
                return bytes.fromhex(words[0])
    return None


while (source := link_local()) is None:
    time.sleep(0.05)

packet = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
packet.bind((device, 0))
ours = fcntl.ioctl(packet, 0x8927, struct.pack("16s16x", device.encode()))[18:24]
everybody = socket.inet_pton(socket.AF_INET6, "ff02::1")

# RFC 4861 4.2, 4.6.1, 4.6.2: hop limit 64, router for 1800 s; our hardware address; the prefix,
# on the link and for addresses.
message = struct.pack("!BBHBBHII", 134, 0, 0, 64, 0, 1800, 0, 0)
message += struct.pack("!BB6s", 1, 1, ours)
message += struct.pack("!BBBBIII16s", 3, 4, 64, 0xC0, 86400, 14400, 0,
                       socket.inet_pton(socket.AF_INET6, prefix))


def checksum(data):
    """RFC 1071."""
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


pseudo = source + everybody + struct.pack("!II", len(message), 58)
message = message[:2] + struct.pack("!H", checksum(pseudo + message)) + message[4:]
header = struct.pack("!IHBB", 6 << 28, len(message), 58, 255) + source + everybody
packet.send(bytes.fromhex("333300000001") + ours + b"\x86\xdd" + header + message)
print("advertised", flush=True)
