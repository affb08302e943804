"""Clients of a redis server, while it saves in the background.

    redis_load.py ADDRESS PORT CLIENTS SECONDS
"""

import concurrent.futures
import socket
import sys
import time

address, port = sys.argv[1], int(sys.argv[2])


class Redis:
    def __init__(self):
        self.sock = socket.create_connection((address, port), timeout=60)
        self.file = self.sock.makefile("rb")

    def ask(self, *words):
        parts = [b"$%d\r\n%s\r\n" % (len(word), word) for word in words]
        self.sock.sendall(b"*%d\r\n" % len(words) + b"".join(parts))
        line = self.file.readline()
        if line[:1] != b"$":
            return line
        return self.file.read(int(line[1:]) + 2)[:-2]


def client(number):
    redis, end, count = Redis(), time.monotonic() + float(sys.argv[4]), 0
    while time.monotonic() < end:
        value = b"%d %d " % (number, count) * 50
        assert redis.ask(b"SET", b"key %d" % number, value) == b"+OK\r\n"
        assert redis.ask(b"GET", b"key %d" % number) == value
        count += 1
    return count


clients = int(sys.argv[3])
with concurrent.futures.ThreadPoolExecutor(clients) as pool:
    counts = list(pool.map(client, range(clients)))
assert min(counts) > 0
print("all as written", sum(counts))
