import asyncio
import base64
import datetime as dt
import json
import ssl
import sys

import pytest
import yaml
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from scheduler.errors import ConfigurationError, Unreachable
from scheduler.kube.access import Access
from scheduler.kube.client import ApiClient
from scheduler.kube.credentials import (
    Credentials,
    ServiceAccountSource,
    load_credentials,
)
from scheduler.kube.kubeconfig import KubeconfigSource
from scheduler.kube.proxies import bypasses_proxy
from scheduler.kube.rate_limit import RateLimiter


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch, tmp_path):
    """No credentials and no proxy but those of the test."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


class Authority:
    """A certificate authority that lives for one test run."""

    def __init__(self):
        self.key, self.certificate = self._issue("authority", [], None)
        self.pem = self._pem(self.certificate)

    def issue(self, name, *names):
        """Return certificate and key as PEM text."""
        key, certificate = self._issue(name, names, self)
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return self._pem(certificate), private.decode()

    @staticmethod
    def _pem(certificate):
        return certificate.public_bytes(serialization.Encoding.PEM).decode()

    @staticmethod
    def _issue(name, names, issuer):
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = dt.datetime.now(dt.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer.certificate.subject if issuer else subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), True)
        )
        if names:
            alternatives = x509.SubjectAlternativeName([x509.DNSName(each) for each in names])
            builder = builder.add_extension(alternatives, critical=False)
        return key, builder.sign(issuer.key if issuer else key, hashes.SHA256())


@pytest.fixture(scope="module")
def authority():
    return Authority()


def encoded(text):
    return base64.b64encode(text.encode()).decode()


def kubeconfig(path, *, cluster=None, user=None, **more):
    """Write a kubeconfig with one context and return its path as text."""
    content = {
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [
            {"name": "c", "cluster": {"server": "http://10.0.0.1:8080", **(cluster or {})}}
        ],
        "users": [{"name": "u", "user": user or {}}],
        **more,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(content))
    return str(path)


def access(path, context=None):
    return KubeconfigSource(path, context)(False)


USERS = {
    "a token": ({"token": "secret"}, "Bearer secret"),
    "a token file": ({"tokenFile": "token"}, "Bearer from-file"),
    "a token file, before a token": ({"tokenFile": "token", "token": "x"}, "Bearer from-file"),
    "a name and a password": (
        {"username": "me", "password": "pass"},
        "Basic " + encoded("me:pass"),
    ),
    "nothing": ({}, ""),
}


@pytest.mark.parametrize("name", USERS)
def test_a_user_shows(name, tmp_path):
    user, authorization = USERS[name]
    (tmp_path / "token").write_text("from-file\n")

    assert access(kubeconfig(tmp_path / "config", user=user)).authorization == authorization


def test_a_cluster_is_reached_as_its_entry_says(tmp_path):
    cluster = {
        "server": "https://[fd00::1]:6443/prefix/",
        "tls-server-name": "kube.example.com",
        "proxy-url": "http://me:pass@gateway.example.com:3128",
        "insecure-skip-tls-verify": True,
    }

    found = access(kubeconfig(tmp_path / "config", cluster=cluster))

    assert found.server == "https://[fd00::1]:6443/prefix"
    assert found.server_hostname == "kube.example.com"
    assert str(found.proxy) == "http://gateway.example.com:3128"
    assert found.proxy_headers == {"Proxy-Authorization": "Basic " + encoded("me:pass")}
    assert found.tls.verify_mode is ssl.CERT_NONE


def test_several_files_are_merged_and_paths_belong_to_their_file(tmp_path, authority):
    """The first file to say something is heard; a relative path starts where it was written."""
    first = kubeconfig(
        tmp_path / "one" / "config", users=[], clusters=[], **{"current-context": "here"}
    )
    second = kubeconfig(
        tmp_path / "two" / "config",
        cluster={"server": "https://10.0.0.2", "certificate-authority": "ca.pem"},
        user={"tokenFile": "token"},
        **{"current-context": "elsewhere"},
    )
    third = kubeconfig(tmp_path / "three", user={"token": "unheard"})
    (tmp_path / "two" / "ca.pem").write_text(authority.pem)
    (tmp_path / "two" / "token").write_text("two")

    found = access(f"{first}:{second}:{third}:{tmp_path / 'missing'}")

    assert (found.server, found.authorization) == ("https://10.0.0.2", "Bearer two")
    assert len(found.tls.get_ca_certs()) == 1


def test_another_context_can_be_chosen(tmp_path):
    path = kubeconfig(
        tmp_path / "config",
        contexts=[
            {"name": "here", "context": {"cluster": "c", "user": "u"}},
            {"name": "there", "context": {"cluster": "d"}},
        ],
        clusters=[
            {"name": "c", "cluster": {"server": "http://c"}},
            {"name": "d", "cluster": {"server": "http://d"}},
        ],
    )

    assert access(path).server == "http://c"
    assert access(path, "there").server == "http://d"


CERTIFICATE = encoded("-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n")
BROKEN = {
    "clusters[c].cluster.server": {"cluster": {"server": "nowhere:port"}},
    "clusters[c].cluster.proxy-url": {"cluster": {"proxy-url": "socks5://10.0.0.9:1080"}},
    "clusters[c].cluster.insecure-skip-tls-verify": {
        "cluster": {"server": "https://a", "insecure-skip-tls-verify": "yes"}
    },
    "clusters[c].cluster.certificate-authority": {
        "cluster": {"server": "https://a", "certificate-authority": "missing.pem"}
    },
    "clusters[c].cluster.certificate-authority-data": {
        "cluster": {"server": "https://a", "certificate-authority-data": "%%%="}
    },
    "certificate-authority": {
        "cluster": {"server": "https://a", "certificate-authority-data": CERTIFICATE}
    },
    "client-certificate": {
        "cluster": {"server": "https://a"},
        "user": {"client-certificate-data": CERTIFICATE, "client-key-data": CERTIFICATE},
    },
    "users[u].user.tokenFile": {"user": {"tokenFile": "missing"}},
    "users[u].user.token": {"user": {"token": 7}},
    "users[u].user.token: this is no token": {"user": {"token": "two\nlines"}},
    "users[u].user.exec": {
        "user": {"exec": {"command": "no-such-plugin", "apiVersion": "v1", "installHint": "get it"}}
    },
    "users": {"users": []},
    "current-context": {"current-context": None},
    "contexts": {"contexts": []},
    "clusters": {"clusters": ["c"]},
}


@pytest.mark.parametrize("field", BROKEN)
def test_a_broken_kubeconfig_is_reported_with_file_and_field(field, tmp_path):
    path = kubeconfig(tmp_path / "config", **BROKEN[field])

    with pytest.raises(ConfigurationError) as caught:
        access(path)

    assert field in str(caught.value)
    assert path in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ["", "][", "- a list", "text"])
def test_a_file_that_is_no_kubeconfig_is_reported(content, tmp_path):
    path = tmp_path / "config"
    path.write_text(content)

    with pytest.raises(ConfigurationError, match=str(path)):
        access(str(path))


PLUGIN = """
import json, os, pathlib, sys
calls = pathlib.Path("calls")
count = len(calls.read_text()) if calls.exists() else 0
calls.write_text("x" * (count + 1))
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
status = {"token": f"token-{count + 1}-{os.environ['FLAVOUR']}-{info['kind']}"}
if len(sys.argv) > 1:
    status["expirationTimestamp"] = sys.argv[1]
print(json.dumps({"apiVersion": info["apiVersion"], "kind": "ExecCredential", "status": status}))
"""


def plugin(path, *arguments):
    """Write a kubeconfig whose user runs a plugin that counts its calls."""
    script = path / "plugin.py"
    script.write_text(PLUGIN)
    call = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(script), *arguments],
        "env": [{"name": "FLAVOUR", "value": "mild"}],
    }
    return kubeconfig(path / "config", user={"exec": call})


def test_an_exec_plugin_runs_again_only_after_a_401(tmp_path):
    source = KubeconfigSource(plugin(tmp_path))

    said = [source(refused).authorization for refused in (False, False, True, False)]

    assert [text.split("-")[1] for text in said] == ["1", "1", "2", "2"]
    assert said[0] == "Bearer token-1-mild-ExecCredential"


def test_an_exec_plugin_runs_again_when_its_answer_expires(tmp_path):
    source = KubeconfigSource(plugin(tmp_path, "2020-01-01T00:00:00Z"))

    assert [source(False).authorization.split("-")[1] for _ in range(2)] == ["1", "2"]
    assert source(False).fresh_seconds == 1


def test_a_plugin_may_give_a_certificate(tmp_path, authority):
    certificate, key = authority.issue("me")
    answer = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"clientCertificateData": certificate, "clientKeyData": key},
    }
    (tmp_path / "answer").write_text(json.dumps(answer))
    call = {"apiVersion": answer["apiVersion"], "command": "cat", "args": ["answer"]}
    path = kubeconfig(tmp_path / "config", cluster={"server": "https://a"}, user={"exec": call})

    assert access(path).authorization == ""


@pytest.fixture
def service_account(tmp_path, monkeypatch, authority):
    """A folder as the kubelet mounts it."""
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    (folder / "token").write_text("first\n")
    (folder / "ca.crt").write_text(authority.pem)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::10")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    return folder


async def test_a_service_account_is_read_anew_every_minute(service_account):
    now = [0.0]
    credentials = Credentials(ServiceAccountSource(service_account), clock=lambda: now[0])
    first = await credentials.fresh()
    (service_account / "token").write_text("second\n")

    assert (first.server, first.authorization) == ("https://[fd00::10]:443", "Bearer first")
    assert await credentials.fresh() is first
    now[0] = 61.0
    second = await credentials.fresh()
    assert second.authorization == "Bearer second"
    assert second.tls is first.tls, "the same authorities, the same pooled connections"


async def test_rotated_authorities_make_a_new_context(service_account):
    credentials = Credentials(ServiceAccountSource(service_account))
    first = credentials.access
    (service_account / "ca.crt").write_text(Authority().pem)

    assert (await credentials.reload()).tls is not first.tls


async def test_a_file_missing_for_a_moment_is_no_loss(service_account):
    now = [0.0]
    credentials = Credentials(ServiceAccountSource(service_account), clock=lambda: now[0])
    (service_account / "token").unlink()
    now[0] = 61.0

    assert (await credentials.fresh()).authorization == "Bearer first"
    with pytest.raises(ConfigurationError, match="service account"):
        await credentials.reload()


async def test_credentials_are_searched_in_order(tmp_path, monkeypatch, service_account):
    """--kubeconfig, KUBECONFIG, the service account, ~/.kube/config; --master replaces the
    server."""
    named = kubeconfig(tmp_path / "named", cluster={"server": "http://named"})
    variable = kubeconfig(tmp_path / "variable", cluster={"server": "http://variable"})
    kubeconfig(tmp_path / "home" / ".kube" / "config", cluster={"server": "http://home"})

    async def server(path=None, **options):
        found = await load_credentials(path, service_account=service_account, **options)
        return found.access.server

    monkeypatch.setenv("KUBECONFIG", variable)
    assert await server(named) == "http://named"
    assert await server(named, master="https://other:1") == "https://other:1"
    assert await server() == "http://variable"
    monkeypatch.delenv("KUBECONFIG")
    assert await server() == "https://[fd00::10]:443"
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    assert await server() == "http://home"


async def test_no_credentials_at_all_come_with_a_remedy(tmp_path):
    with pytest.raises(ConfigurationError, match="name a file with --kubeconfig"):
        await load_credentials(service_account=tmp_path)
    with pytest.raises(ConfigurationError, match="--kubeconfig: /nowhere: no such file"):
        await load_credentials("/nowhere")
    assert (await load_credentials(master="http://a:1")).access.server == "http://a:1"


@pytest.mark.parametrize(
    ("no_proxy", "direct"),
    [
        ("", False),
        ("*", True),
        ("10.96.0.0/12", True),
        ("10.0.0.0/16", False),
        ("10.96.0.1", True),
        ("10.96.0.1:443", False),
        ("example.com, 10.96.0.1:6443", True),
        ("not/a/network", False),
    ],
)
async def test_the_environment_may_name_a_proxy(no_proxy, direct, monkeypatch, tmp_path):
    monkeypatch.setenv("HTTPS_PROXY", "gateway.example.com:3128")
    monkeypatch.setenv("NO_PROXY", no_proxy)
    path = kubeconfig(tmp_path / "config", cluster={"server": "https://10.96.0.1:6443"})

    found = (await load_credentials(path)).access

    assert str(found.proxy) == ("None" if direct else "http://gateway.example.com:3128")


@pytest.mark.parametrize(
    ("host", "no_proxy", "direct"),
    [
        ("localhost", "", True),
        ("127.0.0.1", "", True),
        ("::1", "", True),
        ("kube.example.com", "example.com", True),
        ("example.com", "example.com", True),
        ("example.com", ".example.com", False),
        ("kube.example.com", "*.example.com", True),
        ("badexample.com", "example.com", False),
        ("fd00::1", "fd00::/8", True),
        ("fd00::1", "[fd00::1]:443", True),
        ("fd00::1", "fd00::1", True),
    ],
)
def test_no_proxy_is_read_as_go_reads_it(host, no_proxy, direct):
    assert bypasses_proxy(host, 443, no_proxy) is direct


@pytest.fixture
async def tls_server(authority, tmp_path):
    """A server named kube.example.com that tells who shows which certificate."""
    certificate, key = authority.issue("server", "kube.example.com")
    (tmp_path / "server.pem").write_text(certificate + key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=authority.pem)
    context.load_cert_chain(tmp_path / "server.pem")
    context.verify_mode = ssl.CERT_OPTIONAL

    async def who(request):
        shown = request.transport.get_extra_info("peercert")
        return web.Response(text=shown["subject"][0][0][1] if shown else "nobody")

    app = web.Application()
    app.router.add_get("/who", who)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    yield f"https://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


async def ask(path):
    credentials = await load_credentials(path)
    async with ApiClient(credentials, limiter=RateLimiter(-1), user_agent="t") as client:
        answer = await client.get("/who")
        await asyncio.sleep(0)
        return answer


async def test_certificates_are_checked_and_shown(tls_server, tmp_path, authority):
    certificate, key = authority.issue("me")
    (tmp_path / "me.pem").write_text(certificate)
    (tmp_path / "me.key").write_text(key)
    cluster = {
        "server": tls_server,
        "certificate-authority-data": encoded(authority.pem),
        "tls-server-name": "kube.example.com",
    }
    inline = {"client-certificate-data": encoded(certificate), "client-key-data": encoded(key)}
    files = {"client-certificate": "me.pem", "client-key": "me.key"}
    path = tmp_path / "config"

    assert await ask(kubeconfig(path, cluster=cluster, user=inline)) == b"me"
    assert await ask(kubeconfig(path, cluster=cluster, user=files)) == b"me"
    assert await ask(kubeconfig(path, cluster=cluster)) == b"nobody"
    cluster.pop("tls-server-name")
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:\d+ gave no answer .*IP address mismatch"):
        await ask(kubeconfig(path, cluster=cluster))
    cluster.pop("certificate-authority-data")
    with pytest.raises(Unreachable, match="CERTIFICATE_VERIFY_FAILED"):
        await ask(kubeconfig(path, cluster=cluster))
    cluster["insecure-skip-tls-verify"] = True
    assert await ask(kubeconfig(path, cluster=cluster)) == b"nobody"


async def test_a_proxy_opens_a_tunnel(tls_server, tmp_path, authority):
    asked = []

    async def tunnel(reader, writer):
        asked.append((await reader.readuntil(b"\r\n\r\n")).decode())
        there = await asyncio.open_connection("127.0.0.1", int(tls_server.rpartition(":")[2]))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(pipe(reader, there[1]), pipe(there[0], writer))

    async def pipe(reader, writer):
        while data := await reader.read(2**16):
            writer.write(data)
        writer.close()

    proxy = await asyncio.start_server(tunnel, "127.0.0.1", 0)
    port = proxy.sockets[0].getsockname()[1]
    cluster = {
        "server": "https://kube.example.com:6443",
        "certificate-authority-data": encoded(authority.pem),
        "proxy-url": f"http://me:pass@127.0.0.1:{port}",
    }

    assert await ask(kubeconfig(tmp_path / "config", cluster=cluster)) == b"nobody"

    assert asked[0].startswith("CONNECT kube.example.com:6443 HTTP/1.1\r\n")
    assert "Proxy-Authorization: Basic " + encoded("me:pass") in asked[0]
    proxy.close()
    await proxy.wait_closed()


async def test_secrets_do_not_show_in_text():
    assert "secret" not in repr(Access("https://a", authorization="Bearer secret"))
