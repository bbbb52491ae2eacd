import ssl

import pytest

from scheduler.pem import load_pair


def test_what_is_no_certificate_is_an_os_error():
    context = ssl.create_default_context()

    with pytest.raises(OSError, match="PEM"):
        load_pair(context, b"not a certificate", b"not a key")
