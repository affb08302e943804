"""Random frames from the host's end of the device, until the end of standard input's other side.

Arguments: the device, the stack's address, a seed. The frames go to addresses and ports of open connections, with random
flags, numbers, lengths and checksums. The honest client's connections get no sound payload: nobody could tell it from the
peer's.
"""
import random
import socket
import struct
import sys
import time

device, stack, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
random.seed(seed)
host = "10.219.7.1"
HONEST = 7003
raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
raw.bind((device, 0))
ours = raw.getsockname()[4]


def checksum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def neighbour():
    with open("/proc/net/arp") as table:
        for line in table.readlines()[1:]:
            words = line.split()
            if words[0] == stack and words[3] != "00:00:00:00:00:00":
                return bytes.fromhex(words[3].replace(":", ""))
    return None


def connections():
    """Pairs (port here, port of the stack) of the kernel's connections with the stack."""
    pairs = []
    with open("/proc/net/tcp") as table:
        for line in table.readlines()[1:200]:
            words = line.split()
            pairs.append((int(words[1].split(":")[1], 16), int(words[2].split(":")[1], 16)))
    return [pair for pair in pairs if pair[1]] or [(7000, 40000)]


def ip(protocol, payload, source=None):
    source = source or (host if random.random() < 0.8 else f"10.219.7.{random.randrange(3, 250)}")
    fragment = 0
    if random.random() < 0.15:
        fragment = random.choice([0x2000, 0x2000 | random.randrange(100), random.randrange(8192)])
    options = bytes(random.randrange(256) for _ in range(4 * random.randrange(11))) if random.random() < 0.05 else b""
    words = 5 + len(options) // 4
    length = 4 * words + len(payload)
    if random.random() < 0.05:
        length = random.randrange(65536)
    head = struct.pack("!BBHHHBBH4s4s", 0x40 | words, random.choice([0, 1, 2, 3]), length, random.randrange(64), fragment,
                       random.choice([64, 64, 1, 255]), protocol, 0, socket.inet_aton(source), socket.inet_aton(stack))
    total = checksum(head + options) if random.random() < 0.97 else random.randrange(65536)
    return head[:10] + struct.pack("!H", total) + head[12:] + options + payload


def transport(protocol, body, at, sound):
    pseudo = socket.inet_aton(host) + socket.inet_aton(stack) + struct.pack("!BBH", 0, protocol, len(body))
    total = checksum(pseudo + body) if sound else random.randrange(65536)
    return body[:at] + struct.pack("!H", total) + body[at + 2:]


def noise(most):
    return random.randbytes(random.choice([0, 0, 1, random.randrange(most)]))


def tcp(pairs):
    here, there = random.choice(pairs + [(random.randrange(65536), 7100), (7000, random.randrange(65536))])
    honest = here == HONEST
    payload = noise(1400)
    options = random.randbytes(4 * random.randrange(11)) if random.random() < 0.3 else b""
    body = struct.pack("!HHIIBBHHH", here, there, random.getrandbits(32), random.getrandbits(32),
                       (5 + len(options) // 4) << 4, random.choice([2, 2, 16, 17, 4, 18, 24, 32, random.randrange(256)]),
                       random.choice([0, 1, 65535, random.randrange(65536)]), 0, random.randrange(65536))
    body += options + payload
    return transport(6, body, 16, not (honest and payload))


def udp(pairs):
    here = random.choice([7000, 53, 67, random.randrange(7004, 65536)])
    payload = noise(1400)
    length = random.choice([8 + len(payload)] * 5 + [random.randrange(65536)])
    body = struct.pack("!HHHH", here, random.randrange(65536), length, 0) + payload
    return transport(17, body, 6, random.random() < 0.8)


def icmp(pairs):
    kind, code = random.choice([(8, 0), (3, random.randrange(16)), (3, 4), (5, 1), (11, 0), (12, 0),
                                (random.randrange(256), random.randrange(256))])
    here, there = random.choice(pairs)
    inner = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 60, 1, 0, 64, random.choice([6, 17]), 0, socket.inet_aton(stack),
                        socket.inet_aton(host)) + struct.pack("!HHI", there, here, random.getrandbits(32))
    body = struct.pack("!BBHI", kind, code, 0, random.choice([68, 1500, random.getrandbits(32)]))
    body += inner if random.random() < 0.7 else noise(1400)
    total = checksum(body) if random.random() < 0.9 else 1
    return body[:2] + struct.pack("!H", total) + body[4:]


target, pairs, count = None, [], 0
print("begun", flush=True)
while True:
    if count % 2000 == 0 or target is None:
        target, pairs = neighbour(), connections()
        if target is None:
            time.sleep(0.1)
            continue
    count += 1
    kind = random.random()
    if kind < 0.5:
        packet = ip(6, tcp(pairs))
    elif kind < 0.75:
        packet = ip(17, udp(pairs))
    elif kind < 0.92:
        packet = ip(1, icmp(pairs))
    else:
        packet = ip(random.randrange(256), noise(1400))
    ether = random.choice([0x0800] * 30 + [0x86DD, random.randrange(65536)])
    frame = target + ours + struct.pack("!H", ether) + packet
    if random.random() < 0.03:
        frame = frame[:random.randrange(14, len(frame))]
    try:
        raw.send(frame[:1514])
    except OSError:
        pass
    if count % 100 == 0:
        time.sleep(random.choice([0, 0.01, 0.1]))
