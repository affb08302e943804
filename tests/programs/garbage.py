"""Sends malformed frames out of network device DEVICE to the Ethernet address MAC, IP address STACK.

Each kind is named and sent many times with different seeds, so a kind that is not refused shows in the
receiver's counters. Prints "sent N" at the end.
"""

import random
import socket
import struct
import sys

device, mac, stack = sys.argv[1], bytes.fromhex(sys.argv[2].replace(":", "")), sys.argv[3]
seed = int(sys.argv[4]) if len(sys.argv) > 4 else 1
rng = random.Random(seed)
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
wire.bind((device, 0))
own = wire.getsockname()[4]
host = socket.inet_aton(".".join(stack.split(".")[:3] + ["1"]))
stack = socket.inet_aton(stack)


def checksum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ethernet(payload, kind=0x0800):
    return mac + own + struct.pack("!H", kind) + payload


def ipv4(payload, protocol, options=b"", length=None, ihl=None, version=4, spoil=0, fragment=0):
    ihl = 5 + len(options) // 4 if ihl is None else ihl
    length = 20 + len(options) + len(payload) if length is None else length
    fields = [version << 4 | ihl, 0, length, 7, fragment, 64, protocol, 0, host, stack]
    head = struct.pack("!BBHHHBBH4s4s", *fields)
    fields[7] = checksum(head + options) ^ spoil
    return struct.pack("!BBHHHBBH4s4s", *fields) + options + payload


def tcp(options=b"", payload=b"", offset=None, flags=2, spoil=0, port=8000):
    offset = 5 + len(options) // 4 if offset is None else offset
    fields = [rng.randrange(1024, 65536), port, rng.getrandbits(32), 0, offset << 4, flags, 65535, 0, 0]
    head = struct.pack("!HHIIBBHHH", *fields)
    pseudo = host + stack + struct.pack("!BBH", 0, 6, len(head) + len(options) + len(payload))
    fields[7] = checksum(pseudo + head + options + payload) ^ spoil
    return struct.pack("!HHIIBBHHH", *fields) + options + payload


def udp(payload, length=None, spoil=0):
    length = 8 + len(payload) if length is None else length
    head = struct.pack("!HHHH", 1234, 8000, length, 0)
    pseudo = host + stack + struct.pack("!BBH", 0, 17, 8 + len(payload))
    total = checksum(pseudo + head + payload) ^ spoil
    return struct.pack("!HHHH", 1234, 8000, length, total or 0xFFFF) + payload


def icmp(payload, spoil=0):
    return payload[:2] + struct.pack("!H", checksum(payload[:2] + b"\0\0" + payload[4:]) ^ spoil) + payload[4:]


def noise(least, most):
    return rng.randbytes(rng.randrange(least, most))


def words(least, most):
    return rng.randbytes(4 * rng.randrange(least, most))


KINDS = [
    # Cut off anywhere: Ethernet's header alone, within IP's, within TCP's.
    lambda: ethernet(ipv4(tcp(), 6))[: rng.randrange(14, 54)],
    lambda: ethernet(noise(0, 60)),
    lambda: ethernet(noise(0, 1500), rng.randrange(65536)),
    # IP: checksum, version, header length, total length, options, fragments.
    lambda: ethernet(ipv4(tcp(), 6, spoil=rng.randrange(1, 65535))),
    lambda: ethernet(ipv4(tcp(), 6, version=rng.choice([0, 5, 6, 15]))),
    lambda: ethernet(ipv4(tcp(), 6, ihl=rng.choice([0, 1, 4, 12, 15]))),
    lambda: ethernet(ipv4(tcp(), 6, length=rng.choice([0, 19, 20, 39, 41, 1501, 65535]))),
    lambda: ethernet(ipv4(tcp(), 6, options=words(1, 11))),
    lambda: ethernet(ipv4(noise(0, 64), 6, fragment=rng.randrange(1, 65536))),
    lambda: ethernet(ipv4(noise(0, 64), rng.randrange(256))),
    # TCP: checksum, data offset, flags, every option a garbage one, options that run past their end.
    lambda: ethernet(ipv4(tcp(spoil=rng.randrange(1, 65535)), 6)),
    lambda: ethernet(ipv4(tcp(offset=rng.choice([0, 1, 4, 6, 15])), 6)),
    lambda: ethernet(ipv4(tcp(flags=rng.randrange(256), payload=noise(0, 64)), 6)),
    lambda: ethernet(ipv4(tcp(options=words(1, 11)), 6)),
    lambda: ethernet(ipv4(tcp(options=bytes([rng.choice([2, 3, 5, 8, 254]), 0, 0, 0])), 6)),
    lambda: ethernet(ipv4(tcp(options=bytes([1, 1, 1, rng.choice([2, 3, 8])])), 6)),
    lambda: ethernet(ipv4(tcp(options=bytes([2, 4, 0, rng.randrange(3)])), 6)),
    lambda: ethernet(ipv4(tcp(options=bytes([3, 3, rng.randrange(15, 256), 0])), 6)),
    # UDP: checksum, length.
    lambda: ethernet(ipv4(udp(noise(0, 64), spoil=rng.randrange(1, 65535)), 17)),
    lambda: ethernet(ipv4(udp(noise(8, 64), length=rng.choice([0, 7, 200, 65535])), 17)),
    # ICMP: checksum, unknown types, errors about packets that never were.
    lambda: ethernet(ipv4(icmp(b"\x08\0\0\0" + noise(4, 64), spoil=rng.randrange(1, 65535)), 1)),
    lambda: ethernet(ipv4(icmp(noise(8, 64)), 1)),
    lambda: ethernet(ipv4(icmp(b"\x03\x03\0\0\0\0\0\0" + noise(0, 40)), 1)),
    # ARP: garbage, cut off.
    lambda: ethernet(noise(0, 40), 0x0806),
    lambda: ethernet(bytes.fromhex("0001080006040001") + noise(0, 19), 0x0806),
]

ROUNDS = 200
for _ in range(ROUNDS):
    for kind in KINDS:
        wire.send(kind())
print("sent", ROUNDS * len(KINDS), flush=True)
