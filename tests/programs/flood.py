"""Sends COUNT packets of KIND (ping, syn, fragment) from SOURCE to TARGET, as any host can."""

import socket
import struct
import sys

kind, source, target, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
addresses = socket.inet_aton(source) + socket.inet_aton(target)


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def payload(number):
    if kind == "ping":
        head = struct.pack("!BBHHH", 8, 0, 0, 1, number & 0xFFFF)
        return head[:2] + struct.pack("!H", checksum(head)) + head[4:]
    if kind == "syn":
        port = 1024 + number % 60000
        head = struct.pack("!HHIIBBHHH", port, 9, number, 0, 0x50, 2, 65535, 0, 0)
        total = checksum(addresses + struct.pack("!HH", 6, len(head)) + head)
        return head[:16] + struct.pack("!H", total) + head[18:]
    return bytes(64)


protocol = {"ping": 1, "syn": 6, "fragment": 17}[kind]
# The first fragments of datagrams that never become whole.
fragment = 0x2000 if kind == "fragment" else 0
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
for number in range(count):
    body = payload(number)
    # The kernel fills in the header's checksum.
    head = struct.pack(
        "!BBHHHBBH", 0x45, 0, 20 + len(body), number & 0xFFFF, fragment, 64, protocol, 0
    )
    raw.sendto(head + addresses + body, (target, 0))
print("sent", flush=True)
