"""Extenders over real HTTP: what is sent, what each answer means, and who may fail."""

import json
import ssl
from dataclasses import dataclass, field

import msgspec
import pytest
from aiohttp import web

from hack.certificates import Authority
from scheduler.cache.cluster_cache import ClusterCache
from scheduler.config.configuration import read
from scheduler.config.document import Extender, ManagedResource, TlsConfig
from scheduler.cycle.scheduling import Attempt, schedule
from scheduler.errors import ConfigurationError
from scheduler.framework.decision import KEEP, Bind, Park, Preempt, Retry
from scheduler.framework.extender_protocol import (
    ExtenderRequests,
    bind_request,
    in_order,
    is_interested,
    read_bind,
)
from scheduler.framework.registry import Registry
from scheduler.kube.decode import ObjectDecoder
from scheduler.kube.extender_client import ExtenderClient
from scheduler.kube.watched import NODES, PODS
from scheduler.observe.certificate import self_signed
from scheduler.observe.health import serve
from scheduler.plugins import IN_TREE
from scheduler.testing.builders import make_node, make_pod


@dataclass
class Service:
    """An extender with configured answers, which keeps the requests."""

    answers: dict = field(default_factory=dict)
    requests: list = field(default_factory=list)
    status: int = 200

    async def handle(self, request):
        verb = request.match_info["verb"]
        body = await request.json()
        self.requests.append((verb, body))
        answer = self.answers[verb]
        answer = answer(body) if callable(answer) else answer
        return web.json_response(answer, status=self.status)


@pytest.fixture
async def service():
    service = Service()
    application = web.Application()
    application.router.add_post("/base/{verb}", service.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    service.url = f"http://127.0.0.1:{runner.addresses[0][1]}/base/"
    yield service
    await runner.cleanup()


def profile():
    registry = Registry(IN_TREE)
    return registry.build(read().resolve(registry.available).profiles[0])


def three_nodes() -> ClusterCache:
    cache = ClusterCache()
    for name in ("a", "b", "c"):
        cache.add_node(make_node(name, allocatable="4 cpu, 8Gi, 110 pods"))
    return cache


async def decide(extenders, pod=None, cache=None):
    """Run one cycle, calling extenders over HTTP."""
    cache = cache or three_nodes()
    attempt = Attempt(profile(), pod or make_pod("p"), cache.view(), {}, 0, in_order(extenders))
    cycle, answers = schedule(attempt), None
    async with ExtenderClient(extenders) as client:
        while True:
            try:
                step = cycle.send(answers)
            except StopIteration as end:
                return end.value
            answers = None
            if isinstance(step, ExtenderRequests):
                answers = tuple([await client.call(ask) for ask in step.requests])


def filtering(service, **more) -> Extender:
    fields = {"filter_verb": "filter", "node_cache_capable": True, **more}
    return Extender(url_prefix=service.url, **fields)


async def test_an_extender_narrows_the_nodes(service):
    service.answers["filter"] = {"NodeNames": ["b"], "FailedNodes": {"a": "too hot"}}

    decision = await decide([filtering(service)])

    assert isinstance(decision, Bind)
    assert decision.node == "b"
    verb, body = service.requests[0]
    assert (verb, sorted(body["NodeNames"]), body["Nodes"]) == ("filter", ["a", "b", "c"], None)


async def test_reasons_are_counted_and_unresolvable_goes_before(service):
    """Upstream's FailedAndUnresolvableNodes takes precedence over FailedNodes."""
    service.answers["filter"] = {
        "nodeNames": [],
        "failedNodes": {"a": "too hot", "b": "too hot", "c": "broken"},
        "failedAndUnresolvableNodes": {"c": "beyond help"},
    }

    decision = await decide([filtering(service)])

    assert isinstance(decision, Park)
    assert decision.message.startswith("0/3 nodes are available: 1 beyond help, 2 too hot.")
    assert decision.diagnosis.rejected_by == {"Extender"}
    assert decision.diagnosis.preemption_may_help.tolist() == [True, True, False]


async def test_nodes_that_vanish_without_a_word_have_no_reason_and_no_hope(service):
    service.answers["filter"] = {"NodeNames": []}

    decision = await decide([filtering(service)])

    assert decision.message.startswith(
        "0/3 nodes are available: no new claims to deallocate, preemption: "
    )
    assert not decision.diagnosis.preemption_may_help.any()


@pytest.mark.parametrize(
    ("answer", "status", "why"),
    [
        ({"Error": "out of order"}, 200, "out of order"),
        ({}, 500, "code 500"),
        ({"NodeNames": ["z"]}, 200, 'claims a filtered node "z"'),
    ],
)
async def test_a_failing_extender_ends_the_attempt_unless_ignorable(service, answer, status, why):
    service.answers["filter"], service.status = answer, status

    assert why in (await decide([filtering(service)])).message
    assert isinstance(await decide([filtering(service)]), Retry)
    assert isinstance(await decide([filtering(service, ignorable=True)]), Bind)


async def test_scores_are_scaled_weighted_and_added(service):
    """An extender's 10 counts as 100, times its weight; that outweighs any tie."""
    service.answers["prioritize"] = [{"Host": "c", "Score": 10}, {"Host": "zz", "Score": 9}]
    extender = Extender(
        url_prefix=service.url, prioritize_verb="prioritize", weight=2, node_cache_capable=True
    )

    assert (await decide([extender])).node == "c"


async def test_failing_to_score_counts_for_nothing(service):
    service.answers["prioritize"], service.status = [], 500
    extender = Extender(
        url_prefix=service.url, prioritize_verb="prioritize", weight=2, node_cache_capable=True
    )

    assert isinstance(await decide([extender]), Bind)


@pytest.fixture
async def secured(tmp_path):
    """An extender behind TLS that lets in who has a certificate of its own authority."""
    authority = Authority()
    service = Service({"filter": lambda body: {"NodeNames": body["NodeNames"]}})
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=authority.pem.decode())
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(*authority.serving("extender").write(tmp_path, "extender"))
    application = web.Application()
    application.router.add_post("/base/{verb}", service.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    service.url = f"https://127.0.0.1:{runner.addresses[0][1]}/base/"
    service.authority = authority
    yield service
    await runner.cleanup()


def shown(authority: Authority) -> dict:
    pair = authority.client("py-scheduler")
    return {"cert_data": pair.certificate, "key_data": pair.key}


@pytest.mark.parametrize("trusts", [True, False], ids=["trusted", "not checked"])
async def test_an_extender_may_require_a_certificate(secured, trusts):
    """Without an authority the extender's own certificate is not checked, as upstream."""
    trusted = {"ca_data": secured.authority.pem} if trusts else {}
    tls = TlsConfig(**trusted, **shown(secured.authority))

    decision = await decide([filtering(secured, enable_https=True, tls_config=tls)])

    assert isinstance(decision, Bind)
    assert [verb for verb, _ in secured.requests] == ["filter"]


@pytest.mark.parametrize(
    "tls",
    [
        pytest.param(lambda own: {"ca_data": own.pem}, id="shows no certificate"),
        pytest.param(lambda own: {"ca_data": own.pem, **shown(Authority())}, id="a stranger's"),
        pytest.param(lambda own: {"ca_data": Authority().pem, **shown(own)}, id="does not trust"),
    ],
)
async def test_without_trust_no_request_is_sent(secured, tls):
    config = TlsConfig(**tls(secured.authority))

    decision = await decide([filtering(secured, enable_https=True, tls_config=config)])

    assert isinstance(decision, Retry)
    assert "gave no answer" in decision.message
    assert not secured.requests


def test_a_certificate_that_cannot_be_used_is_named():
    broken = Extender(url_prefix="https://a", tls_config=TlsConfig(ca_data=b"no certificate"))

    with pytest.raises(ConfigurationError, match=r"extenders\[0\].tlsConfig: cannot be used"):
        ExtenderClient([broken])


@pytest.mark.parametrize(
    ("tls", "expected"),
    [
        ({"insecure": True, "ca_file": "/ca"}, "insecure: contradicts caFile and caData"),
        ({"cert_file": "/cert"}, "keyFile: must be given, or keyData"),
        ({"key_file": "/key"}, "certFile: must be given, or certData"),
        ({"ca_file": "/no/such/file"}, "cannot be used: .*No such file"),
    ],
)
def test_trust_that_cannot_be_meant_is_refused_at_the_start(tls, expected):
    extender = Extender(url_prefix="https://a", tls_config=TlsConfig(**tls))

    with pytest.raises(ConfigurationError, match=rf"extenders\[0\]\.tlsConfig[.:] ?{expected}"):
        ExtenderClient([extender])


@pytest.mark.parametrize(
    ("insecure", "enable_https", "called"),
    [(False, False, False), (True, False, True), (False, True, True)],
    ids=["the system's authorities", "insecure", "enableHTTPS alone checks nothing, as upstream"],
)
async def test_trust_without_an_authority(secured, insecure, enable_https, called):
    tls = TlsConfig(insecure=insecure, **shown(secured.authority))

    await decide([filtering(secured, enable_https=enable_https, tls_config=tls)])

    assert bool(secured.requests) == called


async def test_whole_objects_are_sent_as_they_came(service):
    """Fields that the scheduler never reads reach an extender that keeps no cache of its own."""
    pod_json = {
        "metadata": {"name": "p", "namespace": "d", "uid": "1", "annotations": {"k": "v"}},
        "spec": {"containers": [{"name": "c", "command": ["sleep"]}]},
    }
    node_json = {
        "metadata": {"name": "a", "uid": "2"},
        "status": {"allocatable": {"cpu": "4", "pods": "10"}, "nodeInfo": {"osImage": "x"}},
    }
    pods, nodes = ObjectDecoder(PODS.with_raw()), ObjectDecoder(NODES.with_raw())
    pod = pods.event(msgspec.json.encode({"type": "ADDED", "object": pod_json})).object
    cache = ClusterCache()
    cache.add_node(nodes.item(msgspec.Raw(msgspec.json.encode(node_json))))
    service.answers["filter"] = lambda body: {"Nodes": body["Nodes"]}

    decision = await decide([filtering(service, node_cache_capable=False)], pod, cache)

    assert decision.node == "a"
    _, body = service.requests[0]
    assert body["Pod"] == pod_json
    assert body["Nodes"]["items"] == [node_json]


def test_ignorable_extenders_go_last():
    first, last = Extender(url_prefix="http://1"), Extender(url_prefix="http://2", ignorable=True)

    assert in_order([last, first]) == (first, last)


def test_an_extender_with_managed_resources_is_called_for_pods_that_request_one():
    extender = Extender(managed_resources=(ManagedResource(name="example.com/gpu"),))

    assert is_interested(extender, make_pod(requests="1 example.com/gpu"))
    assert not is_interested(extender, make_pod(requests="1 cpu"))
    assert is_interested(Extender(), make_pod())


async def test_an_extender_may_bind(service):
    service.answers["bind"] = {"Error": ""}
    extender = Extender(url_prefix=service.url, bind_verb="bind")
    ask = bind_request(extender, make_pod("p", uid="7"), "a")

    async with ExtenderClient([extender]) as client:
        assert read_bind(ask, await client.call(ask)) == ""
        service.answers["bind"] = {"Error": "no"}
        assert read_bind(ask, await client.call(ask)) == "no"

    assert service.requests[0][1] == {
        "PodName": "p",
        "PodNamespace": "default",
        "PodUID": "7",
        "Node": "a",
    }


def test_resources_an_extender_wants_ignored_replace_those_of_the_document():
    text = json.dumps(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "extenders": [
                {
                    "urlPrefix": "http://127.0.0.1:1",
                    "filterVerb": "filter",
                    "managedResources": [
                        {"name": "example.com/gpu", "ignoredByScheduler": True},
                        {"name": "example.com/nic"},
                    ],
                }
            ],
        }
    )

    spec = read(text).resolve(Registry(IN_TREE).available).profiles[0]

    assert spec.args["NodeResourcesFit"].ignored_resources == ("example.com/gpu",)


# Making room (TestCallExtenders, the extender cases of TestPreempt).


def full_nodes():
    cache = three_nodes()
    for name, priority in (("a", 1), ("b", 2), ("c", 3)):
        cache.add_pod(make_pod(f"low-{name}", node=name, requests="4 cpu", priority=priority))
    return cache


HIGH = make_pod("high", requests="4 cpu", priority=100)


def preempting(service, **more) -> Extender:
    fields = {"preempt_verb": "preempt", "node_cache_capable": True, **more}
    return Extender(url_prefix=service.url, **fields)


def only(*nodes):
    """Leave these of the candidates, as they are."""

    def answer(body):
        given = body["NodeNameToMetaVictims"]
        return {"NodeNameToMetaVictims": {name: given[name] for name in nodes}}

    return answer


async def test_an_extender_strikes_out_candidates(service):
    service.answers["preempt"] = only("b", "c")

    decision = await decide([preempting(service)], HIGH, full_nodes())

    assert isinstance(decision, Preempt)
    assert (decision.node, [each.name for each in decision.victims]) == ("b", ["low-b"])
    ((verb, body),) = service.requests
    assert (verb, body["NodeNameToVictims"]) == ("preempt", None)
    assert body["NodeNameToMetaVictims"]["a"] == {
        "Pods": [{"UID": "uid-default-low-a"}],
        "NumPDBViolations": 0,
    }


async def test_an_extender_gets_what_the_one_before_it_left(service):
    service.answers["preempt"] = only("c")
    service.answers["again"] = only("c")

    decision = await decide(
        [preempting(service), preempting(service, preempt_verb="again")], HIGH, full_nodes()
    )

    assert decision.node == "c"
    assert list(service.requests[1][1]["NodeNameToMetaVictims"]) == ["c"]


async def test_an_extender_without_a_node_cache_is_sent_whole_pods(service):
    cache = three_nodes()
    victim = make_pod("low-a", node="a", requests="4 cpu")
    victim.keep_raw(b'{"metadata":{"name":"low-a"}}')
    cache.add_pod(victim)
    cache.add_pod(make_pod("x", node="b", requests="4 cpu", priority=100))
    cache.add_pod(make_pod("y", node="c", requests="4 cpu", priority=100))
    service.answers["preempt"] = {
        "NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "uid-default-low-a"}]}}
    }

    decision = await decide([preempting(service, node_cache_capable=False)], HIGH, cache)

    assert decision.node == "a"
    sent = service.requests[0][1]["NodeNameToVictims"]
    assert sent == {"a": {"Pods": [{"metadata": {"name": "low-a"}}], "NumPDBViolations": 0}}


async def test_no_candidate_may_be_left(service):
    service.answers["preempt"] = {"NodeNameToMetaVictims": {}}

    decision = await decide([preempting(service)], HIGH, full_nodes())

    assert (type(decision), decision.nomination) == (Park, KEEP)
    assert decision.message.endswith(" preemption: no candidate node for preemption")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"a": {"Pods": []}}, 'expected at least one victim pod on node "a"'),
        ({"z": {"Pods": [{"UID": "x"}]}}, "unknown node z"),
        (
            {"a": {"Pods": [{"UID": "x"}]}},
            "claims to preempt pod (UID: x) on node: a, but the pod is not found on that node",
        ),
    ],
)
async def test_an_invalid_answer_of_an_extender_stops_the_preemption_unless_ignorable(
    service, answer, why
):
    service.answers["preempt"] = {"NodeNameToMetaVictims": answer}

    strict = await decide([preempting(service)], HIGH, full_nodes())
    lenient = await decide([preempting(service, ignorable=True)], HIGH, full_nodes())

    assert isinstance(strict, Park)
    assert strict.message.endswith(why)
    assert isinstance(lenient, Park if answer == {"a": {"Pods": []}} else Preempt)


async def test_an_extender_without_the_resource_or_the_verb_is_not_called(service):
    other = ManagedResource("example.com/gpu")

    decision = await decide(
        [preempting(service, managed_resources=(other,)), preempting(service, preempt_verb="")],
        HIGH,
        full_nodes(),
    )

    assert decision.node == "a"
    assert not service.requests


async def test_after_the_lease_is_lost_no_extender_is_called(service):
    """An extender may bind for us. The lease is lost while the connection is opened."""
    leads = True
    service.answers["bind"] = {}
    serving = self_signed()

    def lose(*_):
        nonlocal leads
        leads = False

    serving.sni_callback = lose
    application = web.Application()
    application.router.add_post("/base/{verb}", service.handle)
    runner = await serve(application, "127.0.0.1", 0, serving)
    url = f"https://127.0.0.1:{runner.addresses[0][1]}/base"
    extender = Extender(url_prefix=url, bind_verb="bind", enable_https=True)
    async with ExtenderClient([extender]) as client:
        call = client.called_only_while(lambda: leads)
        question = bind_request(extender, make_pod("a"), "n")
        assert "leads no more" in read_bind(question, await call(question))
        assert not leads
        leads, serving.sni_callback = True, None
        assert read_bind(question, await call(question)) == ""
    await runner.cleanup()

    assert [verb for verb, _ in service.requests] == ["bind"]
