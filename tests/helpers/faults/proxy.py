"""A reverse proxy before an S3 server that spoils chosen answers: a network on its bad days.

What it passes on are the true answers of the server behind it, each asked for once and kept, so
that hundreds of downloads cost little more than what is wrong with them.
"""

import math
import socket
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import urllib3

HTML = b"<!DOCTYPE html><html><body>Please log in to the guest network</body></html>"
ALWAYS = math.inf


@dataclass(frozen=True)
class Answer:
    """A whole answer of the server."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def without(self, *prefixes: str) -> "Answer":
        """The same without the headers that begin so (in lower case)."""
        kept = {k: v for k, v in self.headers.items() if not k.lower().startswith(prefixes)}
        return replace(self, headers=kept)


@dataclass(frozen=True)
class Fault:
    """What goes wrong with the requests of one method for one object."""

    kind: str
    """One of `KINDS` or `HARMLESS`."""
    method: str = "GET"
    times: float = 1
    """How many requests meet it; `ALWAYS` for all."""


class FaultProxy(ThreadingHTTPServer):
    """Passes on what `upstream` answers, but for the objects that `plan` names.

    Attributes:
        plan: the faults by what is asked for: an object's path without the bucket, or `page 1`,
            `page 2`, … of a listing (pages have `page_size` keys).
        met: which faults came to pass, in the order in which they did.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, upstream: str, page_size: int = 1000):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream, self.page_size = upstream, page_size
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.plan: Mapping[str, Fault] = {}
        self.met: list[tuple[str, Fault]] = []
        self.over = Event()
        self._pool = urllib3.PoolManager(maxsize=16)
        self._answers: dict[tuple[str, str], Answer] = {}
        self._asked: Counter[tuple[str, str]] = Counter()
        self._pages: dict[str, int] = {}
        self._lock = Lock()

    def play(self, plan: Mapping[str, Fault]) -> None:
        """Begin anew with other faults; connections that still hang on the old ones are ended."""
        with self._lock:
            self.over.set()
            self.over, self.plan, self.met, self._asked = Event(), plan, [], Counter()

    def fault(self, method: str, name: str) -> Fault | None:
        """What goes wrong with the request at hand, if anything does."""
        with self._lock:
            fault = self.plan.get(name)
            if fault is None or fault.method != method:
                return None
            self._asked[method, name] += 1
            if self._asked[method, name] > fault.times:
                return None
            self.met.append((name, fault))
            return fault

    def name(self, target: str) -> str:
        """What a request asks for, in the words of `plan`."""
        path, query = urlsplit(target).path, parse_qs(urlsplit(target).query)
        if "list-type" not in query:
            return unquote(path).split("/", 2)[2]
        token = query.get("continuation-token", [""])[0]
        return f"page {self._pages.get(token, 1)}"

    def answer(self, method: str, target: str, headers: Mapping[str, str]) -> Answer:
        """The server's true answer."""
        if "list-type" in target:
            target += f"&max-keys={self.page_size}"
        extent = headers.get("Range", "")
        known = self._answers.get((method, target + extent))
        if known is None:
            sent = {k: v for k, v in headers.items() if k.lower() not in ("host", "connection")}
            got = self._pool.request(
                method, self.upstream + target, headers=sent, redirect=False, decode_content=False
            )
            known = Answer(got.status, dict(got.headers), got.data).without(
                "connection", "transfer-encoding", "server", "date"
            )
            self._answers[method, target + extent] = known
            self._note_page(target, known.body)
        return known

    def _note_page(self, target: str, body: bytes) -> None:
        """Remember to which page the token at the end of this one leads."""
        start, end = b"<NextContinuationToken>", b"</NextContinuationToken>"
        if "list-type" in target and start in body:
            token = body.split(start)[1].split(end)[0].decode()
            self._pages[token] = int(self.name(target).split()[1]) + 1

    def shutdown_request(self, request: Any) -> None:
        """Close without the farewell that would turn a reset into an end."""
        self.close_request(request)

    def handle_error(self, *_: Any) -> None:
        """Silent: clients that give up are what this is about."""


class _Handler(BaseHTTPRequestHandler):
    server: FaultProxy
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_HEAD(self) -> None:
        self.handle_any()

    def do_GET(self) -> None:
        self.handle_any()

    def handle_any(self) -> None:
        over = self.server.over
        fault = self.server.fault(self.command, self.server.name(self.path))
        answer = self.server.answer(self.command, self.path, dict(self.headers))
        if fault is None:
            self.send(answer)
        else:
            (KINDS | HARMLESS)[fault.kind](self, answer, over)

    def send(self, answer: Answer, extent: int | None = None) -> None:
        """Send an answer, or only `extent` bytes of its body."""
        self.start(answer)
        if self.command != "HEAD":
            self.wfile.write(answer.body[:extent])

    def start(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()

    def reset(self) -> None:
        """Let the connection end with a reset."""
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """Silent."""


Spoil = Callable[[_Handler, Answer, Event], None]


def _breaking(half: bool, hangs: bool = False, resets: bool = True) -> Spoil:
    """The connection ends: before the answer, or after half of its body."""

    def spoil(handler: _Handler, answer: Answer, over: Event) -> None:
        if half:
            handler.send(answer, len(answer.body) // 2)
        if hangs:
            over.wait(60)
        if resets:
            handler.reset()
        handler.close_connection = True

    return spoil


def _answering(change: Callable[[Answer], Answer]) -> Spoil:
    """Another answer, whole."""
    return lambda handler, answer, over: handler.send(change(answer))


def _page(status: int, content_type: str, body: bytes) -> Spoil:
    headers = {"Content-Type": content_type, "Content-Length": str(len(body))}
    return _answering(lambda _: Answer(status, headers, body))


def _error(status: int, code: str) -> Spoil:
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>no</Message></Error>"
    return _page(status, "application/xml", body.encode())


def _shortened(answer: Answer) -> Answer:
    """The length is right for what comes, and all else as it was."""
    length = {k.lower(): v for k, v in answer.headers.items()}.get("content-length", "0")
    headers = {**answer.headers, "Content-Length": str(int(length) // 2)}
    body = answer.body[: len(answer.body) // 2]
    return replace(answer, headers=headers, body=body).without("x-amz-checksum")


def _flipped(answer: Answer) -> Answer:
    middle = len(answer.body) // 2
    flipped = bytes(byte ^ 1 for byte in answer.body[middle : middle + 1])
    return replace(answer, body=answer.body[:middle] + flipped + answer.body[middle + 1 :])


def _of_a_mirror(answer: Answer) -> Answer:
    """No fault: the ETag of a mirror, or of a file in pieces, is no digest of its content."""
    headers = answer.without("etag", "x-amz-checksum").headers | {"ETag": '"0123456789abcdef-3"'}
    return replace(answer, headers=headers)


def _no_length(handler: _Handler, answer: Answer, over: Event) -> None:
    """A web page that ends when the connection does, as devices in between serve it."""
    handler.send(Answer(200, {"Content-Type": "text/html", "Connection": "close"}, HTML))
    handler.close_connection = True


def _garbage(handler: _Handler, answer: Answer, over: Event) -> None:
    """Not even HTTP."""
    handler.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n")
    handler.close_connection = True


KINDS: dict[str, Spoil] = {
    "reset": _breaking(half=False),
    "hang": _breaking(half=False, hangs=True),
    "reset midway": _breaking(half=True),
    "hang midway": _breaking(half=True, hangs=True),
    "cut": _breaking(half=True, resets=False),
    "cut unnoticed": _answering(_shortened),
    # As with most old objects, there is no checksum to tell.
    "flip": _answering(lambda answer: _flipped(answer).without("x-amz-checksum")),
    "flip despite checksum": _answering(_flipped),
    "403": _error(403, "AccessDenied"),
    "404": _error(404, "NoSuchKey"),
    "429": _error(429, "TooManyRequests"),
    "500": _error(500, "InternalError"),
    "503": _error(503, "SlowDown"),
    "502 in HTML": _page(502, "text/html", HTML),
    "HTML": _page(200, "text/html", HTML),
    "HTML without length": _no_length,
    "empty": _page(200, "application/octet-stream", b""),
    "garbage": _garbage,
}
"""What can go wrong with an answer."""
HARMLESS: dict[str, Spoil] = {"other ETag": _answering(_of_a_mirror)}
"""What is odd, but right."""


@contextmanager
def fault_proxy(upstream: str, page_size: int = 1000) -> Iterator[FaultProxy]:
    """A proxy before the server at `upstream`, until the block ends."""
    with FaultProxy(upstream, page_size) as proxy:
        Thread(target=proxy.serve_forever, args=(0.01,), daemon=True).start()
        yield proxy
        proxy.over.set()
        proxy.shutdown()
