"""Reads one HTTP/1.1 response from the bytes of a connection, in whatever pieces they come.

Most responses come in one piece and with a length: those cost one search for the end of the headers
and one for the length.
"""

import re
from typing import Final, NamedTuple

HEAD_BYTES_MAXIMUM: Final = 64 * 1024
_END_OF_HEAD: Final = b"\r\n\r\n"
_END_OF_LINE: Final = b"\r\n"
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9]{2})(?![^ \r])")
_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*([^\r\n]*)")
_CODING: Final = re.compile(rb"\r\ntransfer-encoding:([^\r\n]*)")
_CLOSES: Final = re.compile(rb"\r\nconnection:[^\r\n]*\bclose\b")
_DIGITS: Final = re.compile(rb"[0-9]{1,15}")
_CHUNK_SIZE: Final = re.compile(rb"([0-9a-fA-F]{1,12})[ \t]*(?:;|$)")
_WITHOUT_BODY: Final = frozenset({204, 304})


class Response(NamedTuple):
    """The response to one request.

    Args:
        status: The HTTP status.
        head: Status line and headers, as they came, without the empty line that ends them.
        body: The body, without the framing of chunks.
    """

    status: int
    head: bytes
    body: bytes

    def header(self, name: str) -> str:
        """Return the value of the first header *name*; empty where there is none."""
        pattern = rb"\r\n" + re.escape(name.encode()) + rb":([^\r\n]*)"
        found = re.search(pattern, self.head, re.IGNORECASE)
        return found[1].decode("latin-1").strip() if found else ""


class MalformedResponse(ValueError):  # noqa: N818 - named for what came
    """What came is no HTTP/1.1 response."""


class ResponseReader:
    """Reads one response; another one needs a reader of its own.

    Attributes:
        began: Whether any byte has come.
        keeps_alive: Whether the connection may carry another request; known once the head is read.
    """

    __slots__ = (
        "_chunked",
        "_content",
        "_head",
        "_in_trailer",
        "_left",
        "_status",
        "_unread",
        "began",
        "keeps_alive",
    )

    def __init__(self) -> None:
        self.began = False
        self.keeps_alive = False
        self._unread = b""
        self._head: bytes | None = None
        self._status = 0
        self._chunked = False
        self._in_trailer = False
        # How many bytes of the body, or of a chunk, are to come; None where nobody said.
        self._left: int | None = None
        self._content = bytearray()

    def read(self, data: bytes) -> Response | None:
        """Read the next *data*; return the response once it is complete.

        Raises:
            MalformedResponse: If no HTTP/1.1 response looks like this.
        """
        self.began = True
        if self._head is None:
            data = self._read_heads(self._unread + data if self._unread else data)
        return self._read_body(data)

    def end(self) -> Response | None:
        """Return the response that ends with the connection; None where it is cut instead."""
        ends_so = self._head is not None and self._left is None and not self._chunked
        return self._response() if ends_so else None

    def _read_heads(self, received: bytes) -> bytes:
        """Read the head, behind interim responses (1xx) if any; return what follows it."""
        while True:
            end = received.find(_END_OF_HEAD)
            if end < 0:
                if len(received) > HEAD_BYTES_MAXIMUM:
                    raise MalformedResponse(f"headers of more than {HEAD_BYTES_MAXIMUM} bytes")
                self._unread = received
                return b""
            head, received = received[:end], received[end + 4 :]
            self._read_head(head)
            if self._status >= 200:
                self._head = head
                self._unread = b""
                return received

    def _read_head(self, head: bytes) -> None:
        found = _STATUS_LINE.match(head)
        if found is None or found[2] == b"101":
            raise MalformedResponse(f"not an HTTP/1.1 response: {head[:40]!r}")
        self._status = int(found[2])
        lowered = head.lower()
        self.keeps_alive = found[1] == b"1" and _CLOSES.search(lowered) is None
        lengths = _LENGTH.findall(lowered)
        if self._status in _WITHOUT_BODY:
            self._left = 0
        elif coding := _CODING.search(lowered):
            if coding[1].strip() != b"chunked":
                raise MalformedResponse(f"an unknown transfer encoding: {coding[1]!r}")
            self._chunked = True
        elif lengths:
            if len(set(lengths)) > 1 or not _DIGITS.fullmatch(lengths[0].strip()):
                raise MalformedResponse(f"not the length of a body: {lengths}")
            self._left = int(lengths[0])

    def _read_body(self, data: bytes) -> Response | None:
        if self._head is None:
            return None
        if self._chunked:
            return self._read_chunks(self._unread + data)
        if self._left == len(data) and not self._content:
            return Response(self._status, self._head, data)
        self._content += data
        if self._left is None:
            return None
        self._left -= len(data)
        if self._left < 0:
            raise MalformedResponse("a body that is longer than the server said")
        return None if self._left else self._response()

    def _read_chunks(self, data: bytes) -> Response | None:
        """Move the content of chunks, as far as they are here, to that of the response."""
        at = 0
        while at < len(data):
            if self._left:
                # The line end behind a chunk is taken with it, and dropped when it is complete.
                piece = data[at : at + self._left]
                self._content += piece
                at += len(piece)
                self._left -= len(piece)
                if not self._left:
                    if not self._content.endswith(_END_OF_LINE):
                        raise MalformedResponse("a chunk that is longer than its size")
                    del self._content[-2:]
                continue
            end = data.find(_END_OF_LINE, at)
            if end < 0:
                if len(data) - at > HEAD_BYTES_MAXIMUM:
                    raise MalformedResponse("the size of a chunk has no end")
                self._unread = data[at:]
                return None
            line, at = data[at:end], end + 2
            if self._in_trailer:
                if not line:
                    return self._response()
            elif (size := _CHUNK_SIZE.match(line)) is None:
                raise MalformedResponse(f"not the size of a chunk: {line[:40]!r}")
            elif int(size[1], 16):
                self._left = int(size[1], 16) + len(_END_OF_LINE)
            else:
                self._in_trailer = True
        self._unread = b""
        return None

    def _response(self) -> Response:
        assert self._head is not None, "a response without a head"
        return Response(self._status, self._head, bytes(self._content))
