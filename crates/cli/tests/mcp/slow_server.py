"""An HTTP server that is not ready for its first requests, with answers too long for one packet.

    slow_server.py COUNT

Prints its port, each request, and each connection that was reset before its answer was read.
"""

import sys
from http.server import BaseHTTPRequestHandler, HTTPServer


class Handler(BaseHTTPRequestHandler):
    unready = int(sys.argv[1])

    def do_GET(self):
        print("GET", self.path)
        status = 503 if Handler.unready > 0 else 200
        Handler.unready -= 1
        body = b"x" * 300_000
        try:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError as error:
            print("reset", error)

    def log_message(self, *args):
        pass


server = HTTPServer(("127.0.0.1", 0), Handler)
print("port", server.server_address[1])
server.serve_forever()
