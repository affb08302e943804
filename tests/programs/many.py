"""COUNT connections to ADDRESS:PORT at once, each sending BYTES of its own and expecting them back.

Nothing is sent before all are connected, so they are truly parallel.
"""

import random
import selectors
import socket
import sys

address, port = sys.argv[1], int(sys.argv[2])
count, size = int(sys.argv[3]), int(sys.argv[4])
selector = selectors.DefaultSelector()


class Connection:
    def __init__(self, number):
        self.data = random.Random(number).randbytes(size)
        self.sent = 0
        self.back = bytearray()
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.socket.connect_ex((address, port))
        selector.register(self.socket, selectors.EVENT_WRITE, self)

    def connected(self):
        error = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            raise OSError(error, "connect")
        selector.unregister(self.socket)

    def start(self):
        selector.register(self.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, self)

    def step(self, events):
        """Moves bytes; true when the connection is over."""
        if events & selectors.EVENT_WRITE and self.sent < size:
            self.sent += self.socket.send(self.data[self.sent : self.sent + (1 << 16)])
            if self.sent == size:
                self.socket.shutdown(socket.SHUT_WR)
                selector.modify(self.socket, selectors.EVENT_READ, self)
        if events & selectors.EVENT_READ:
            piece = self.socket.recv(1 << 16)
            self.back += piece
            if not piece:
                selector.unregister(self.socket)
                self.socket.close()
                return True
        return False


connections = [Connection(number) for number in range(count)]
left = count
while left:
    for key, _ in selector.select():
        key.data.connected()
        left -= 1
print("connected", count, flush=True)
for connection in connections:
    connection.start()
left = count
while left:
    for key, events in selector.select():
        left -= key.data.step(events)


def difference(connection):
    """Where what came back first differs from what was sent, in words; None if nowhere."""
    sent, back = connection.data, bytes(connection.back)
    if sent == back:
        return None
    if sent.startswith(back):
        return f"{len(back)} of {size} bytes came back"
    at = next((n for n, (a, b) in enumerate(zip(sent, back)) if a != b), size)
    found = sent.find(back[at : at + 16])
    others = back[at : at + 16].hex()
    return f"{len(back)} bytes came back, from {at} on others: {others}, sent at {found}"


wrong = {n: text for n, c in enumerate(connections) if (text := difference(c))}
if wrong:
    sys.exit(f"wrong data on connections {wrong}")
print("echoed", count * size, flush=True)
