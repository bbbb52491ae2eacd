import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.kube.http_response import HEAD_BYTES_MAXIMUM, MalformedResponse, ResponseReader

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
WITH_LENGTH = OK + b"Content-Length: 7\r\n\r\n" + b'{"a":1}'
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n" + b'3\r\n{"a\r\n4;x=y\r\n":1}\r\n0\r\n\r\n'
WITH_TRAILER = OK + b"transfer-encoding: Chunked\r\n\r\n" + b'7\r\n{"a":1}\r\n0\r\nAudit: x\r\n\r\n'
AFTER_INTERIM = (
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + CHUNKED
)


def read(*pieces):
    reader = ResponseReader()
    responses = [reader.read(piece) for piece in pieces]
    assert responses[:-1] == [None] * (len(pieces) - 1), "complete before its end"
    return reader, responses[-1]


@pytest.mark.parametrize("whole", [WITH_LENGTH, CHUNKED, WITH_TRAILER, AFTER_INTERIM])
@given(data=st.data())
def test_a_response_is_the_same_in_whatever_pieces_it_comes(whole, data):
    cuts = sorted(data.draw(st.sets(st.integers(1, len(whole) - 1), max_size=12)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]

    reader, response = read(*pieces)

    assert (response.status, response.body) == (200, b'{"a":1}')
    assert response.header("content-type") == "application/json"
    assert reader.keeps_alive


def test_headers_are_found_whatever_their_case():
    _, response = read(b"HTTP/1.1 429 X\r\nreTRY-After:  7 \r\ncontent-LENGTH: 0\r\n\r\n")

    assert response.header("Retry-After") == "7"
    assert response.header("Retry") == ""
    assert (response.status, response.body) == (429, b"")


@pytest.mark.parametrize("status", [204, 304])
def test_some_statuses_have_no_body_whatever_the_headers_say(status):
    _, response = read(b"HTTP/1.1 %d X\r\nContent-Length: 9\r\n\r\n" % status)

    assert response.body == b""


def test_a_body_without_a_length_ends_with_the_connection():
    reader = ResponseReader()

    assert reader.read(OK + b"\r\nab") is None
    assert reader.read(b"cd") is None
    assert reader.end().body == b"abcd"


@pytest.mark.parametrize("whole", [WITH_LENGTH, CHUNKED, OK])
def test_a_response_that_is_cut_is_none(whole):
    reader = ResponseReader()
    assert reader.read(whole[:-1]) is None

    assert reader.end() is None


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0",
        b"HTTP/1.1 200 OK\r\nConnection: Keep-Alive, Close\r\nContent-Length: 0",
        b"HTTP/1.0 200 OK\r\nContent-Length: 0",
    ],
)
def test_a_server_may_end_the_connection_after_a_response(head):
    reader, response = read(head + b"\r\n\r\n")

    assert response.status == 200
    assert not reader.keeps_alive


@pytest.mark.parametrize(
    "sent",
    [
        b"HTTP/2 200\r\n\r\n",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc",
        b"x" * (HEAD_BYTES_MAXIMUM + 1),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * (HEAD_BYTES_MAXIMUM + 1),
    ],
)
def test_what_is_no_response_is_malformed(sent):
    with pytest.raises(MalformedResponse):
        ResponseReader().read(sent)
