"""HTTP server for the current directory on ADDRESS:PORT with a thread for each connection.

As `python3 -m http.server`, but with a queue for many connections at once: with the usual five, most of
two hundred clients would have to try again, on any stack.
"""

import http.server
import sys


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 512


class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


server = Server((sys.argv[1], int(sys.argv[2])), Handler)
print("ready", flush=True)
server.serve_forever()
