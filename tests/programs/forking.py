"""A server with a process for each connection: socketserver.ForkingMixIn.

    forking.py ADDRESS PORT

Each connection's process reads to the end, and answers with the SHA-256 of what it read, then with
all of it.
"""

import hashlib
import socketserver
import sys


class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        got = b""
        while more := self.request.recv(65536):
            got += more
        self.request.sendall(hashlib.sha256(got).digest() + got)


class Server(socketserver.ForkingMixIn, socketserver.TCPServer):
    allow_reuse_address = True
    request_queue_size = 64


server = Server((sys.argv[1], int(sys.argv[2])), Handler)
print("ready", flush=True)
server.serve_forever()
