"""Reading a document: kinds, unknown and duplicate fields, defaults, rules."""

import json
import string

import msgspec
import pytest

from scheduler.config import document as parts
from scheduler.config import plugin_args
from scheduler.config.configuration import SchedulerConfiguration, read
from scheduler.config.default_plugins import UPSTREAM_POINTS
from scheduler.errors import ConfigurationError

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def resolve(text: str = "", **settings: bool) -> SchedulerConfiguration:
    return read(HEAD + text).resolve(UPSTREAM_POINTS, **settings)


def problems_of(text: str, head: str = HEAD) -> tuple[str, ...]:
    with pytest.raises(ConfigurationError) as caught:
        read(head + text).resolve(UPSTREAM_POINTS)
    return caught.value.problems


def test_defaults_are_upstreams_except_for_the_two_names():
    found = resolve()

    assert read().resolve(UPSTREAM_POINTS) == found
    assert [profile.scheduler_name for profile in found.profiles] == ["py-scheduler"]
    assert found.profiles[0].percentage_of_nodes_to_score == 0
    assert found.leader_election == parts.LeaderElection(
        leader_elect=True,
        lease_duration_seconds=15,
        renew_deadline_seconds=10,
        retry_period_seconds=2,
        resource_lock="leases",
        resource_namespace="",
        resource_name="py-scheduler",
    )
    assert (found.client_connection.qps, found.client_connection.burst) == (50, 100)
    assert (found.backoff_seconds_initial, found.backoff_seconds_maximum) == (1, 10)
    assert found.document.parallelism == 16
    assert not found.delay_cache_until_active
    assert found.extenders == found.ignored_fields == found.missing_defaults == ()


def test_values_are_taken_from_the_document():
    found = resolve("""
podInitialBackoffSeconds: 3
podMaxBackoffSeconds: 30
delayCacheUntilActive: true
percentageOfNodesToScore: 40
clientConnection: {kubeconfig: /etc/k, qps: 500, burst: 1000}
leaderElection: {leaseDuration: 1m30s, renewDeadline: 1m, retryPeriod: 500ms, resourceNamespace: a}
profiles: [{schedulerName: a}, {schedulerName: b, percentageOfNodesToScore: 0}]
""")

    assert (found.backoff_seconds_initial, found.backoff_seconds_maximum) == (3, 30)
    assert found.delay_cache_until_active
    assert [p.percentage_of_nodes_to_score for p in found.profiles] == [40, 0]
    assert found.client_connection.kubeconfig == "/etc/k"
    assert (found.client_connection.qps, found.client_connection.burst) == (500, 1000)
    assert found.leader_election.lease_duration_seconds == 90
    assert found.leader_election.retry_period_seconds == 0.5
    assert found.leader_election.resource_namespace == "a"


def test_json_is_read_as_well():
    text = json.dumps(
        {
            "apiVersion": parts.API_VERSION,
            "kind": parts.KIND,
            "profiles": [{"schedulerName": "a"}],
        }
    )

    assert read(text).resolve(UPSTREAM_POINTS).profiles[0].scheduler_name == "a"


def test_json_may_be_indented_by_tabs():
    text = f'{{\n\t"apiVersion": "{parts.API_VERSION}",\n\t"kind": "{parts.KIND}"\n}}'

    assert read(text).resolve(UPSTREAM_POINTS) == resolve()


@pytest.mark.parametrize("rest", ["---\n", "---\n# nothing\n", "...\n", "---\n---\n"])
def test_empty_documents_may_follow(rest):
    assert resolve(f"parallelism: 16\n{rest}").document == resolve().document


def test_aliases_cannot_blow_a_document_up():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 8)}]" for n in range(1, 9)]

    assert problems_of("\n".join(lines))[0].startswith("document: is no YAML: more than a million")


def test_a_document_that_is_nested_too_deeply_is_refused():
    assert problems_of("[" * 5000, head="")[0] == "document: is nested too deeply"


def test_zero_durations_mean_the_default():
    text = "leaderElection: {leaseDuration: 0s, renewDeadline: 0s, retryPeriod: 0s}"
    found = resolve(f"{text}\nextenders: [{{httpTimeout: 0s}}]")

    assert found.leader_election == resolve().leader_election
    assert found.extenders[0].http_timeout_seconds == 5


def test_null_stands_for_nothing_said():
    assert resolve("profiles:\nparallelism: null\nleaderElection:\n") == resolve()


def test_zero_rate_limits_mean_the_default():
    found = resolve("clientConnection: {qps: 0, burst: 0}")

    assert (found.client_connection.qps, found.client_connection.burst) == (50, 100)


def test_fields_without_meaning_are_named_if_written():
    found = resolve("parallelism: 4\nclientConnection: {contentType: x}\nenableProfiling: false")

    assert found.ignored_fields == (
        "parallelism",
        "enableProfiling",
        "clientConnection.contentType",
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("parallelism: a", "parallelism: must be a whole number, got 'a'"),
        ("parallelism: true", "parallelism: must be a whole number, got True"),
        ("parallelism: 1.5", "parallelism: must be a whole number, got 1.5"),
        ("delayCacheUntilActive: 1", "delayCacheUntilActive: must be true or false, got 1"),
        ("clientConnection: {qps: x}", "clientConnection.qps: must be a number, got 'x'"),
        (
            "clientConnection: {qps: .nan}",
            "clientConnection.qps: must be a number of a size that exists, got nan",
        ),
        (
            "clientConnection: {qps: .inf}",
            "clientConnection.qps: must be a number of a size that exists, got inf",
        ),
        ("? [a]\n: 1", "document: has a field whose name is no text"),
        ("clientConnection: 3", "clientConnection: must hold fields, got 3"),
        (
            "clientConnection: {kubeconfig: 3}",
            "clientConnection.kubeconfig: must be text (put it in quotes), got 3",
        ),
        (
            "leaderElection: {leaseDuration: 15}",
            "leaderElection.leaseDuration: must be a duration such as 15s or 1m30s, got 15",
        ),
        ("profiles: {}", "profiles: must be a list, got {}"),
        ("profiles: [3]", "profiles[0]: must hold fields, got 3"),
        (
            "profiles: [{pluginConfig: [{name: A, args: 3}]}]",
            "profiles[0].pluginConfig[0].args: must hold fields, got 3",
        ),
        (
            "profiles: [{schedulrName: a}]",
            "profiles[0].schedulrName: unknown field; did you mean schedulerName?",
        ),
        (
            "profiles: [{plugins: {score: {enabled: [{x: 1}, {name: NodeName}]}}}]",
            "profiles[0].plugins.score.enabled[0].x: unknown field; there are name, weight",
        ),
        (
            "extenders: [{tlsConfig: {caData: '%'}}]",
            "extenders[0].tlsConfig.caData: must be base64, got '%'",
        ),
        ("parallelism: 1\nparallelism: 2", "parallelism: is given twice; keep one of them"),
        (
            "profiles: [{schedulerName: a, schedulerName: a}]",
            "profiles[0].schedulerName: is given twice; keep one of them",
        ),
        ("profiles: &p [*p]", "profiles[0]: refers to itself; write the value out"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_path(text, expected):
    assert expected in problems_of(text)


@pytest.mark.parametrize(
    ("text", "begin"),
    [
        ("", "document: is empty; begin with apiVersion:"),
        ("[]", "document: must hold fields, got []"),
        ("a: [", "document: is no YAML: line 1, column 5:"),
        ("a: 1\n---\nb: 2", "document: is followed by another one in line 3; keep one of them"),
        ("kind: KubeSchedulerConfiguration", "apiVersion: must be given"),
        ("apiVersion: kubescheduler.config.k8s.io/v1", "kind: must be given"),
        ("kind: Pod\napiVersion: v1", "kind: couldn't decode as KubeSchedulerConfiguration"),
        (HEAD.replace("/v1", "/v1beta3"), "apiVersion: no such version"),
    ],
)
def test_what_is_no_document_is_refused_in_one_line(text, begin):
    first = problems_of(text, head="")[0]

    assert first.startswith(begin)
    assert "\n" not in first


def test_all_problems_are_reported_at_once():
    found = problems_of("parallelism: 0\npercentageOfNodesToScore: 101\nextenders: [{weight: x}]")

    assert [line.split(":")[0] for line in found] == [
        "extenders[0].weight",
        "parallelism",
        "percentageOfNodesToScore",
    ]


def test_a_mistake_is_not_blamed_again_for_what_follows_from_it():
    found = problems_of("profiles: [{schedulerName: 3}, {schedulerName: b}]")

    assert found == ("profiles[0].schedulerName: must be text (put it in quotes), got 3",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("clientConnection: {burst: -1}", "clientConnection.burst: must be non-negative"),
        (
            "leaderElection: {leaseDuration: -1s}",
            "leaderElection.leaseDuration: must be greater than zero",
        ),
        (
            "leaderElection: {renewDeadline: -1s}",
            "leaderElection.renewDeadline: must be greater than zero",
        ),
        (
            "leaderElection: {retryPeriod: -1s}",
            "leaderElection.retryPeriod: must be greater than zero",
        ),
        (
            "leaderElection: {leaseDuration: 10s}",
            "leaderElection.leaseDuration: must be greater than `RenewDeadline`",
        ),
        (
            "leaderElection: {retryPeriod: 9s}",
            "leaderElection.renewDeadline: must be greater than retryPeriod * 1.2",
        ),
        (
            "leaderElection: {resourceLock: configmaps}",
            'leaderElection.resourceLock: resourceLock value must be "leases"',
        ),
        ("parallelism: 0", "parallelism: should be an integer value greater than zero"),
        ("percentageOfNodesToScore: -1", "percentageOfNodesToScore: not in valid range [0-100]"),
        (
            "profiles: [{percentageOfNodesToScore: 101}]",
            "profiles[0].percentageOfNodesToScore: not in valid range [0-100]",
        ),
        (
            "podInitialBackoffSeconds: 0",
            "podInitialBackoffSeconds: must be greater than 0",
        ),
        (
            "podInitialBackoffSeconds: 5\npodMaxBackoffSeconds: 4",
            "podMaxBackoffSeconds: must be greater than or equal to PodInitialBackoffSeconds",
        ),
        ("profiles: [{schedulerName: a}, {}]", "profiles[1].schedulerName: must be given"),
        (
            "profiles: [{schedulerName: a}, {schedulerName: a}]",
            "profiles[1].schedulerName: duplicate profile with scheduler name 'a'",
        ),
        (
            "profiles: [{pluginConfig: [{name: A}, {name: A}]}]",
            "profiles[0].pluginConfig[1].name: repeated config for plugin A",
        ),
        ("profiles: [{pluginConfig: [{}]}]", "profiles[0].pluginConfig[0].name: must be given"),
        (
            "extenders: [{prioritizeVerb: p}]",
            "extenders[0].weight: must have a positive weight applied to it",
        ),
        (
            "extenders: [{bindVerb: a}, {bindVerb: b}]",
            "extenders[1].bindVerb: only one extender can implement bind",
        ),
        (
            "extenders: [{managedResources: [{name: kubernetes.io/x}]}]",
            "extenders[0].managedResources[0].name: 'kubernetes.io/x' is an invalid extended",
        ),
        (
            "extenders: [{managedResources: [{name: a.b/c}]}, {managedResources: [{name: a.b/c}]}]",
            "extenders[1].managedResources[0].name: duplicate extender managed resource name a.b/c",
        ),
        (
            "profiles: [{schedulerName: default-scheduler}]",
            "profiles[0].schedulerName: default-scheduler belongs to the cluster's own scheduler",
        ),
        (
            "leaderElection: {resourceName: kube-scheduler}",
            "leaderElection.resourceName: kube-scheduler is the lease of the cluster's own",
        ),
    ],
)
def test_rules_of_the_whole_document(text, expected):
    found = problems_of(text)

    assert len(found) == 1
    assert found[0].startswith(expected)


def test_leader_election_is_not_judged_where_it_is_off():
    found = resolve("leaderElection: {leaderElect: false, leaseDuration: 0s, resourceLock: x}")

    assert not found.leader_election.leader_elect


def test_the_default_schedulers_names_need_consent():
    text = """
profiles: [{schedulerName: default-scheduler}]
leaderElection: {resourceName: kube-scheduler}
"""

    found = resolve(text, replace_default_scheduler=True)

    assert found.profiles[0].scheduler_name == "default-scheduler"
    assert found.leader_election.resource_name == "kube-scheduler"


def test_extenders_are_read_with_their_defaults():
    (found,) = resolve("""
extenders:
- urlPrefix: https://a
  filterVerb: filter
  enableHTTPS: true
  tlsConfig: {keyData: c2VjcmV0}
  managedResources: [{name: example.com/gpu, ignoredByScheduler: true}]
""").extenders

    assert found == parts.Extender(
        url_prefix="https://a",
        filter_verb="filter",
        enable_https=True,
        tls_config=parts.TlsConfig(key_data=b"secret"),
        http_timeout_seconds=5,
        managed_resources=(parts.ManagedResource("example.com/gpu", ignored_by_scheduler=True),),
    )


def test_the_effective_document_can_be_read_again_and_holds_no_secret():
    text = """
extenders: [{urlPrefix: a, tlsConfig: {keyData: c2VjcmV0}}]
leaderElection: {leaseDuration: 1m30s, retryPeriod: 1500ms}
profiles: [{pluginConfig: [{name: Mine, args: {a: [1]}}]}]
"""
    written = resolve(text).written()

    assert "secret" not in (text_written := json.dumps(written))
    assert "c2VjcmV0" not in text_written
    assert written["leaderElection"]["leaseDuration"] == "1m30s"
    assert written["profiles"][0]["plugins"]["queueSort"]["enabled"] == [{"name": "PrioritySort"}]
    del written["extenders"]
    again = read(json.dumps(written)).resolve(UPSTREAM_POINTS)
    assert again.profiles == resolve(text).profiles
    assert again.leader_election == resolve(text).leader_election


@pytest.mark.parametrize("module", [parts, plugin_args])
def test_every_field_documents_itself(module):
    import ast
    import inspect

    tree = ast.parse(inspect.getsource(module))
    for structure in [node for node in tree.body if isinstance(node, ast.ClassDef)]:
        after = zip(structure.body, [*structure.body[1:], None], strict=True)
        for statement, following in after:
            if isinstance(statement, ast.AnnAssign):
                assert isinstance(following, ast.Expr), f"{structure.name}.{statement.target.id}"


def test_field_names_are_upstreams():
    fields = [field.encode_name for field in msgspec.structs.fields(parts.Extender)]

    assert "enableHTTPS" in fields
    assert all(name[0] in string.ascii_lowercase for name in fields)
