"""A server that greets at ADDRESS:PORT, reads to the end, and takes its leave."""

import socketserver
import sys


class Guest(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write(b"greeting\n")
        # A client that is interrupted may reset the connection.
        try:
            self.rfile.read()
            self.wfile.write(b"farewell\n")
        except ConnectionError:
            pass


socketserver.ThreadingTCPServer.allow_reuse_address = True
with socketserver.ThreadingTCPServer((sys.argv[1], int(sys.argv[2])), Guest) as server:
    print("ready", flush=True)
    server.serve_forever()
