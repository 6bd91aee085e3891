"""What the servers of the end-to-end suite share: JSON over HTTP on a free port of the loopback interface, one request after the other."""

import http.server
import json
import sys


def serve(answer):
    """Serves `answer(method, path, headers, body) -> (status, value)`, and prints the port. The value is sent as JSON; None is no body."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def respond(self):
            length = int(self.headers.get("Content-Length") or 0)
            content = self.rfile.read(length)
            try:
                body = json.loads(content) if content else None
            except ValueError:
                self.send(400, {"error": "the body is not JSON"})
                return
            self.send(*answer(self.command, self.path, self.headers, body))

        def send(self, status, value):
            content = b"" if value is None else json.dumps(value).encode()
            self.send_response(status)
            if value is not None:
                self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = respond

        def log_message(self, text, *arguments):
            # Paths and statuses: never bodies or headers, which have secrets.
            print(text % arguments)

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    print(f"port {server.server_address[1]}")
    sys.stdout.flush()
    server.serve_forever()
