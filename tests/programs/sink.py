"""HTTP server that takes PUTs on ADDRESS:PORT and prints the SHA-256 of each body."""

import hashlib
import http.server
import socket
import sys


class Sink(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_PUT(self):
        left = int(self.headers["Content-Length"])
        digest = hashlib.sha256()
        while left:
            piece = self.rfile.read(min(left, 1 << 18))
            if not piece:
                print("the body ended early", flush=True)
                return
            digest.update(piece)
            left -= len(piece)
        print("sha256", digest.hexdigest(), flush=True)
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


address, port = sys.argv[1], int(sys.argv[2])
if ":" in address:
    http.server.ThreadingHTTPServer.address_family = socket.AF_INET6
server = http.server.ThreadingHTTPServer((address, port), Sink)
print("ready", flush=True)
server.serve_forever()
