"""An extender: a web service that answers as a test wants, and remembers what it was asked."""

from __future__ import annotations

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Service:
    """A web service; each of *answers* makes an answer of what was asked."""

    def __init__(self, **answers):
        self.answers = answers
        self.asked = []

    def answer(self, verb, body):
        self.asked.append((verb, body))
        return self.answers[verb](body)

    @contextlib.contextmanager
    def serving(self):
        """Yield the address."""
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                answer = json.dumps(service.answer(self.path.rpartition("/")[2], body)).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *args):
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=server.serve_forever, args=(0.05,))
            thread.start()
            try:
                yield f"http://127.0.0.1:{server.server_port}"
            finally:
                server.shutdown()
                thread.join()
