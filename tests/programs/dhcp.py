"""A DHCP server (RFC 2131): dhcp.py DEVICE ADDRESS ROUTER [SERVER DOMAIN].

On DEVICE it gives every client ADDRESS/24, router ROUTER, name server SERVER (or ROUTER), and DOMAIN.

The lease is for an hour. Prints each message that it got. Ends after its first DHCPACK.
"""

import socket
import struct
import sys

device, address, router = sys.argv[1:4]
name_server, domain = sys.argv[4:6] if len(sys.argv) > 4 else (router, "")
DISCOVER, OFFER, REQUEST, ACK = 1, 2, 3, 5
COOKIE = bytes.fromhex("63825363")

server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
server.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
server.bind(("", 67))


def options(data):
    """The options of a message, by number."""
    found, at = {}, 240
    while at < len(data) and data[at] != 255:
        if data[at] == 0:
            at += 1
            continue
        length = data[at + 1]
        found[data[at]] = data[at + 2:at + 2 + length]
        at += 2 + length
    return found


def reply(asked, kind):
    """The answer to a message: the same transaction and hardware address, our offer."""
    host = socket.inet_aton(router)
    message = struct.pack("!BBBB4sHH4s4s4s4s", 2, 1, 6, 0, asked[4:8], 0, 0x8000, bytes(4),
                          socket.inet_aton(address), host, bytes(4))
    message += asked[28:44] + bytes(192) + COOKIE
    for number, value in [(53, bytes([kind])), (54, host), (51, struct.pack("!I", 3600)),
                          (1, bytes([255, 255, 255, 0])), (3, host), (6, socket.inet_aton(name_server)),
                          (15, domain.encode())][:None if domain else -1]:
        message += bytes([number, len(value)]) + value
    return message + b"\xff"


print("ready", flush=True)
while True:
    data, sender = server.recvfrom(2048)
    if len(data) < 240 or data[0] != 1 or data[236:240] != COOKIE:
        print("ignored", len(data), "bytes of", sender, flush=True)
        continue
    kind = options(data).get(53, b"\0")[0]
    print("message", kind, "of", sender[0], flush=True)
    if kind == DISCOVER:
        server.sendto(reply(data, OFFER), ("255.255.255.255", 68))
    elif kind == REQUEST:
        server.sendto(reply(data, ACK), ("255.255.255.255", 68))
        break
