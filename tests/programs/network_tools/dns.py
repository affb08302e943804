"""A DNS server over UDP and TCP: dns.py PORT

Each name has one address. A name with `big` has 200, which fit into an answer by TCP only.
"""

import socket
import struct
import sys
import threading

port = int(sys.argv[1])
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(("0.0.0.0", port))
listener = socket.create_server(("0.0.0.0", port))


def answer(query, tcp):
    name = query[12 : query.index(b"\0", 12) + 5]
    big = b"big" in name
    if big and not tcp:
        return query[:2] + b"\x83\x80\0\1\0\0\0\0\0\0" + name
    count = 200 if big else 1
    head = query[:2] + b"\x81\x80\0\1" + struct.pack(">H", count) + bytes(4)
    record = b"\xc0\x0c\0\1\0\1\0\0\0\x05\0\4\x0a\x01\x02"
    return head + name + b"".join(record + bytes([n]) for n in range(count))


def datagrams():
    while True:
        query, peer = udp.recvfrom(2000)
        udp.sendto(answer(query, False), peer)


threading.Thread(target=datagrams, daemon=True).start()
print("ready", flush=True)
while True:
    conn, _ = listener.accept()
    with conn, conn.makefile("rb") as file:
        query = file.read(struct.unpack(">H", file.read(2))[0])
        said = answer(query, True)
        conn.sendall(struct.pack(">H", len(said)) + said)
