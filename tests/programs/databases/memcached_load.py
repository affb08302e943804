"""Threads that write to a memcached and read back, over TCP.

memcached_load.py ADDRESS PORT THREADS TIMES
"""

import hashlib
import socket
import sys
import threading

address, port, threads, times = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
right = []


def value(thread, n):
    """Between 32 bytes and 60 KB, of digests."""
    return hashlib.sha256(b"%d %d" % (thread, n)).digest() * (1 if n % 10 else 1900)


def load(thread):
    with socket.create_connection((address, port), timeout=60) as sock, sock.makefile("rwb") as file:
        for n in range(times):
            body = value(thread, n)
            file.write(b"set k%d.%d 0 0 %d\r\n" % (thread, n, len(body)) + body + b"\r\n")
            file.flush()
            assert file.readline() == b"STORED\r\n"
        for n in range(times):
            body = value(thread, n)
            file.write(b"get k%d.%d\r\n" % (thread, n))
            file.flush()
            assert file.readline() == b"VALUE k%d.%d 0 %d\r\n" % (thread, n, len(body))
            assert file.read(len(body)) == body and file.read(7) == b"\r\nEND\r\n"
            right.append(1)
        for _ in range(times):
            file.write(b"incr counter 1\r\n")
            file.flush()
            assert file.readline().strip().isdigit()


with socket.create_connection((address, port), timeout=60) as sock:
    sock.sendall(b"set counter 0 0 1\r\n0\r\n")
    assert sock.recv(100) == b"STORED\r\n"
    all_threads = [threading.Thread(target=load, args=(n,)) for n in range(threads)]
    for thread in all_threads:
        thread.start()
    for thread in all_threads:
        thread.join()
    sock.sendall(b"get counter\r\n")
    print("read", len(right), "counted", sock.recv(100).split(b"\r\n")[1].decode())
