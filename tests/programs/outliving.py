"""An event loop with a listener and a datagram socket, which outlives its instance.

    outliving.py PORT

It prints "ready", then after the first error for one second how often each error came and whether
the loop was quiet between its timeouts.
"""

import collections
import errno
import select
import socket
import sys
import time

listener = socket.create_server(("0.0.0.0", int(sys.argv[1])))
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind(("0.0.0.0", int(sys.argv[1])))
calls = {listener.fileno(): listener.accept, datagrams.fileno(): lambda: datagrams.recv(10)}
listener.setblocking(False)
datagrams.setblocking(False)
epoll = select.epoll()
for number in calls:
    epoll.register(number, select.EPOLLIN)
print("ready", flush=True)

errors, rounds, end = collections.Counter(), 0, None
while end is None or time.monotonic() < end:
    for number, _ in epoll.poll(0.2):
        try:
            calls[number]()
        except OSError as error:
            errors[errno.errorcode[error.errno]] += 1
            end = end or time.monotonic() + 1
    rounds += end is not None
for call in calls.values():
    try:
        call()
    except OSError as error:
        errors[errno.errorcode[error.errno]] += 1
print(dict(sorted(errors.items())), "quiet" if rounds < 20 else f"{rounds} rounds in a second")
listener.setblocking(True)
try:
    listener.accept()
except OSError as error:
    print(errno.errorcode[error.errno])
