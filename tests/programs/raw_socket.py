"""A raw socket of ICMP: an echo request with a header of its own, from an own and from a foreign address.

usage: raw_socket.py TO OWN FOREIGN
"""

import socket
import struct
import sys

to, own, foreign = sys.argv[1:]
IDENT = 0x1234
ICMP_FILTER = 1


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total >> 16) + (total & 0xFFFF)
    return ~(total + (total >> 16)) & 0xFFFF


def request(seq):
    head = struct.pack("!BBHHH", 8, 0, 0, IDENT, seq) + b"payload!"
    return head[:2] + struct.pack("!H", checksum(head)) + head[4:]


def packet(source, seq):
    message = request(seq)
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(message), 0, 0, 32, 1, 0)
    return head + socket.inet_aton(source) + socket.inet_aton(to) + message


raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
raw.settimeout(20)
raw.sendto(request(1), (to, 0))
data, (peer, _) = raw.recvfrom(2000)
kind, code, _, ident, seq = struct.unpack("!BBHHH", data[20:28])
print(f"reply {peer} type {kind} code {code} ident {ident:#x} seq {seq} {data[28:].decode()}")

# With its own header: one from a foreign address is not sent, the next one is.
raw.setsockopt(socket.IPPROTO_IP, socket.IP_HDRINCL, 1)
raw.sendto(packet(foreign, 2), (to, 0))
raw.sendto(packet(own, 3), (to, 0))
data, (peer, _) = raw.recvfrom(2000)
print(f"reply {peer} seq {struct.unpack('!H', data[26:28])[0]}")

# Without echo replies there is nothing to receive.
raw.setsockopt(socket.SOL_RAW if hasattr(socket, "SOL_RAW") else 255, ICMP_FILTER, struct.pack("I", 1))
other = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
other.settimeout(20)
raw.sendto(packet(own, 4), (to, 0))
data, _ = other.recvfrom(2000)
print(f"other seq {struct.unpack('!H', data[26:28])[0]}")
raw.setblocking(False)
try:
    raw.recvfrom(2000)
except BlockingIOError:
    print("filtered")

# Over loopback raw sockets hear each other, and themselves: a datagram, then an echo request and its reply.
sender = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP)
sender.settimeout(20)
sender.sendto(struct.pack("!HHHH", 7, 7, 12, 0) + b"here", ("127.0.0.1", 0))
print("loopback", sender.recvfrom(2000)[0][28:].decode())
both = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
both.settimeout(20)
both.sendto(request(5), ("127.0.0.1", 0))
kinds = []
while len(kinds) < 2:
    kind, _, _, ident, seq = struct.unpack("!BBHHH", both.recvfrom(2000)[0][20:28])
    if (ident, seq) == (IDENT, 5):
        kinds.append(kind)
print("loopback types", *kinds)
