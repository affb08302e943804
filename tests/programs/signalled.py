"""SIGIO and SIGURG for the owner of a socket, while the program makes no socket calls.

usage: signalled.py peer ADDRESS PORT | signalled.py owner ADDRESS PORT
"""

import fcntl
import os
import signal
import socket
import sys
import time

role, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
F_SETSIG = 10

if role == "peer":
    listener = socket.create_server((address, port))
    print("ready", flush=True)
    peer, _ = listener.accept()
    # What the owner asks for by a letter.
    while command := peer.recv(1):
        if command == b"d":
            peer.send(b"data")
        elif command == b"u":
            peer.send(b"!", socket.MSG_OOB)
        elif command == b"e":
            break
    peer.close()
    sys.exit()


def threads():
    names = []
    for one in os.listdir("/proc/self/task"):
        try:
            names.append(open(f"/proc/self/task/{one}/comm").read().strip())
        except OSError:
            # It has ended meanwhile.
            pass
    return names


def wait_for(what, holds):
    end = time.monotonic() + 60
    while not holds():
        if time.monotonic() > end:
            sys.exit(f"no {what}")
        # Computes: nothing of the library runs in this thread.
        for _ in range(1000):
            pass


seen = []
for number in (signal.SIGIO, signal.SIGURG, signal.SIGRTMIN):
    signal.signal(number, lambda number, frame: seen.append(number))

stream = socket.create_connection((address, port))
ours = "TASUKI_SOCKET" in os.environ
assert "tasuki-signals" not in threads()
fcntl.fcntl(stream, fcntl.F_SETOWN, os.getpid())
assert fcntl.fcntl(stream, fcntl.F_GETOWN) == os.getpid()
stream.send(b"d")
assert stream.recv(4, socket.MSG_WAITALL) == b"data" and signal.SIGIO not in seen
stream.send(b"u")
wait_for("SIGURG", lambda: signal.SIGURG in seen)
assert stream.recv(1, socket.MSG_OOB) == b"!"
print("urgent")

flags = fcntl.fcntl(stream, fcntl.F_GETFL)
fcntl.fcntl(stream, fcntl.F_SETFL, flags | os.O_ASYNC)
for _ in range(3):
    seen.clear()
    stream.send(b"d")
    wait_for("SIGIO", lambda: signal.SIGIO in seen)
    assert stream.recv(4, socket.MSG_WAITALL) == b"data"
print("input")

fcntl.fcntl(stream, F_SETSIG, signal.SIGRTMIN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
while signal.sigtimedwait([signal.SIGRTMIN], 0):
    pass
stream.send(b"d")
info = signal.sigtimedwait([signal.SIGRTMIN], 60)
assert info.si_code == 1 and info.si_band & 1, info
print("details")

# Another process.
fcntl.fcntl(stream, F_SETSIG, 0)
read_end, write_end = os.pipe()
child = os.fork()
if child == 0:
    seen.clear()
    os.write(write_end, b"x")
    wait_for("SIGIO of another process", lambda: signal.SIGIO in seen)
    os._exit(0)
os.read(read_end, 1)
fcntl.fcntl(stream, fcntl.F_SETOWN, child)
stream.send(b"d")
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print("process")

# Datagrams, of an own thread's signal for both.
one, other = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
one.bind(("127.0.0.1", 0))
fcntl.fcntl(one, fcntl.F_SETOWN, os.getpid())
fcntl.fcntl(one, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
seen.clear()
other.sendto(b"x", one.getsockname())
wait_for("SIGIO of a datagram", lambda: signal.SIGIO in seen)
assert one.recv(10) == b"x"
assert ("tasuki-signals" in threads()) == ours
print("datagram")

fcntl.fcntl(stream, fcntl.F_SETOWN, 0)
stream.send(b"e")
one.close()
wait_for("end of the thread", lambda: "tasuki-signals" not in threads())
print("over")
