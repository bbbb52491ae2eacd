"""Documents as operators have them for kube-scheduler load here, and mean the same.

The shapes are those that upstream's documentation of the scheduler configuration, scheduling
profiles, bin packing and topology spread shows.
"""

import pytest

from scheduler.config.configuration import SchedulerConfiguration, read
from scheduler.config.extension_point import Point
from scheduler.framework.registry import Registry
from scheduler.plugins import IN_TREE

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def load(body: str, **options) -> SchedulerConfiguration:
    return read(HEAD + body).resolve(Registry(IN_TREE).available, **options)


def names(configuration: SchedulerConfiguration, point: Point, profile: int = 0) -> list[str]:
    return [ref.name for ref in configuration.profiles[profile].plugins[point]]


def test_a_kubeconfig_alone():
    loaded = load(
        "clientConnection:\n  kubeconfig: /etc/srv/kubernetes/kube-scheduler/kubeconfig\n"
    )

    assert loaded.client_connection.kubeconfig.endswith("kubeconfig")
    assert loaded.profiles[0].scheduler_name == "py-scheduler"


def test_scores_switched_off_and_on():
    loaded = load(
        """
profiles:
  - plugins:
      score:
        disabled:
          - name: PodTopologySpread
        enabled:
          - name: ImageLocality
            weight: 5
"""
    )
    scores = {ref.name: ref.weight for ref in loaded.profiles[0].plugins[Point.SCORE]}

    assert "PodTopologySpread" not in scores
    assert scores["ImageLocality"] == 5
    assert "PodTopologySpread" in names(loaded, Point.FILTER)


def test_a_profile_that_does_not_score_beside_one_that_does():
    loaded = load(
        """
profiles:
  - schedulerName: default-scheduler
  - schedulerName: no-scoring-scheduler
    plugins:
      preScore:
        disabled:
          - name: '*'
      score:
        disabled:
          - name: '*'
""",
        replace_default_scheduler=True,
    )

    assert [spec.scheduler_name for spec in loaded.profiles] == [
        "default-scheduler",
        "no-scoring-scheduler",
    ]
    assert names(loaded, Point.SCORE, 0)
    assert names(loaded, Point.SCORE, 1) == []


@pytest.mark.parametrize("strategy", ["LeastAllocated", "MostAllocated"])
def test_bin_packing_by_allocation(strategy):
    loaded = load(
        f"""
profiles:
  - pluginConfig:
      - name: NodeResourcesFit
        args:
          scoringStrategy:
            type: {strategy}
            resources:
              - name: cpu
                weight: 1
              - name: memory
                weight: 1
              - name: example.com/foo
                weight: 3
"""
    )
    args = loaded.profiles[0].args["NodeResourcesFit"]

    assert args.scoring_strategy.type == strategy
    assert [each.weight for each in args.scoring_strategy.resources] == [1, 1, 3]


def test_bin_packing_by_requested_to_capacity_ratio():
    loaded = load(
        """
profiles:
  - pluginConfig:
      - name: NodeResourcesFit
        args:
          apiVersion: kubescheduler.config.k8s.io/v1
          kind: NodeResourcesFitArgs
          scoringStrategy:
            resources:
              - name: example.com/foo
                weight: 3
              - name: example.com/bar
                weight: 5
            requestedToCapacityRatio:
              shape:
                - utilization: 0
                  score: 0
                - utilization: 100
                  score: 10
            type: RequestedToCapacityRatio
"""
    )
    strategy = loaded.profiles[0].args["NodeResourcesFit"].scoring_strategy

    assert [(p.utilization, p.score) for p in strategy.requested_to_capacity_ratio.shape] == [
        (0, 0),
        (100, 10),
    ]


def test_default_spreading_of_ones_own():
    loaded = load(
        """
profiles:
  - schedulerName: spread
    pluginConfig:
      - name: PodTopologySpread
        args:
          defaultConstraints:
            - maxSkew: 1
              topologyKey: topology.kubernetes.io/zone
              whenUnsatisfiable: ScheduleAnyway
          defaultingType: List
"""
    )

    assert loaded.profiles[0].args["PodTopologySpread"].default_constraints[0].max_skew == 1


def test_affinity_added_to_a_profile():
    loaded = load(
        """
profiles:
  - schedulerName: foo-scheduler
    pluginConfig:
      - name: NodeAffinity
        args:
          addedAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
              nodeSelectorTerms:
                - matchExpressions:
                    - key: scheduler-profile
                      operator: In
                      values: [foo]
"""
    )
    registry = Registry(IN_TREE)

    assert registry.build(loaded.profiles[0]).scheduler_name == "foo-scheduler"


def test_plugins_enabled_everywhere_at_once():
    """multiPoint in the forms of upstream's documentation: replaced weights, disabled points."""
    loaded = load(
        """
profiles:
  - schedulerName: multipoint-scheduler
    plugins:
      multiPoint:
        enabled:
          - name: TaintToleration
            weight: 7
      filter:
        disabled:
          - name: NodePorts
"""
    )
    scores = {ref.name: ref.weight for ref in loaded.profiles[0].plugins[Point.SCORE]}

    assert scores["TaintToleration"] == 7
    assert "NodePorts" not in names(loaded, Point.FILTER)
    assert "NodePorts" in names(loaded, Point.PRE_FILTER)


def test_the_whole_upper_level():
    loaded = load(
        """
parallelism: 32
percentageOfNodesToScore: 50
podInitialBackoffSeconds: 2
podMaxBackoffSeconds: 20
enableProfiling: false
enableContentionProfiling: false
clientConnection:
  acceptContentTypes: application/json
  contentType: application/json
  qps: 200
  burst: 400
leaderElection:
  leaderElect: true
  leaseDuration: 15s
  renewDeadline: 10s
  retryPeriod: 2s
  resourceLock: leases
  resourceName: my-scheduler
  resourceNamespace: my-namespace
"""
    )

    assert loaded.profiles[0].percentage_of_nodes_to_score == 50
    assert (loaded.backoff_seconds_initial, loaded.backoff_seconds_maximum) == (2.0, 20.0)
    assert "parallelism" in loaded.ignored_fields
    assert loaded.leader_election.resource_namespace == "my-namespace"


def test_extenders():
    loaded = load(
        """
extenders:
  - urlPrefix: http://127.0.0.1:8888/
    filterVerb: filter
    prioritizeVerb: prioritize
    weight: 5
    enableHTTPS: false
    nodeCacheCapable: false
    ignorable: true
    httpTimeout: 30s
    managedResources:
      - name: example.com/opaque
        ignoredByScheduler: true
"""
    )

    assert loaded.extenders[0].http_timeout_seconds == 30.0
    assert loaded.profiles[0].args["NodeResourcesFit"].ignored_resources == ("example.com/opaque",)
