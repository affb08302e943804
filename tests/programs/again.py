"""Connections to the echo server on ADDRESS:PORT one after the other, by forks and threads as well.

A descriptor is as on Linux, whatever is behind it. Its number is free again after close. Each socket
is one open file. A child's descriptors are its own.
"""

import fcntl
import os
import socket
import subprocess
import sys
import threading

server = (sys.argv[1], int(sys.argv[2]))


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def ask(stream, what):
    stream.sendall(what)
    back = b""
    while len(back) < len(what):
        piece = stream.recv(100)
        assert piece, "the server has closed"
        back += piece
    assert back == what, back


def once(number):
    with socket.create_connection(server) as stream:
        ask(stream, b"number %d" % number)
        return stream.fileno()


def file(stream):
    return os.fstat(stream.fileno()).st_ino


# The first ones make the descriptors that are kept.
once(0), once(1)
before, number = descriptors(), once(2)
assert all(once(turn) == number for turn in range(50)), "the least free number"
assert descriptors() == before, "nothing is left behind"

# Two that are open at once, and a duplicate that outlives its socket, are files of their own.
one, another = socket.create_connection(server), socket.create_connection(server)
assert file(one) != file(another)
double = one.dup()
one.close()
third = socket.create_connection(server)
assert len({file(double), file(another), file(third)}) == 3
for stream in (double, another, third):
    ask(stream, b"still here")
    stream.close()

# One that was non-blocking at its end has no heirs of that.
stream = socket.create_connection(server)
stream.setblocking(False)
stream.close()
stream = socket.create_connection(server)
assert not fcntl.fcntl(stream, fcntl.F_GETFL) & os.O_NONBLOCK
assert fcntl.fcntl(stream, fcntl.F_GETFD) & fcntl.FD_CLOEXEC

# A forked child connects for itself, closes its parent's socket, and does it no harm.
child = os.fork()
if child == 0:
    stream.close()
    for turn in range(10):
        once(turn)
    os._exit(0)
ask(stream, b"the parent's")
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
ask(stream, b"as before")

# A child that closes everything before it executes closes none of its parent's sockets.
subprocess.run([sys.executable, "-c", "pass"], check=True, close_fds=True)
ask(stream, b"as ever")
stream.close()

failures = []


def many(first):
    try:
        for turn in range(25):
            once(first + turn)
    except Exception as error:
        failures.append(error)


threads = [threading.Thread(target=many, args=(100 * number,)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failures, failures
once(0)
print("again and again", flush=True)
