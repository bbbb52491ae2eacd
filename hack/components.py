"""Command lines: what each component needs to run on the loopback, for tests.

Functions from places and options to arguments; nothing is started here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from hack.binaries.pins import KUBERNETES
from hack.ports import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Arguments = list[str]

KUBE_SCHEDULER_USER: Final = "system:kube-scheduler"

_STAGES: Final = Path(__file__).with_name("kwok")

# Controllers that need what a loopback cluster lacks (clouds, certificates, metrics, volumes that
# somebody attaches), or that nothing here looks at. Everything else runs.
_CONTROLLERS_OFF: Final = (
    "certificatesigningrequest-approving-controller",
    "certificatesigningrequest-cleaner-controller",
    "certificatesigningrequest-signing-controller",
    "cloud-node-lifecycle-controller",
    "horizontal-pod-autoscaler-controller",
    "kube-apiserver-serving-clustertrustbundle-publisher-controller",
    "legacy-serviceaccount-token-cleaner-controller",
    "node-ipam-controller",
    "node-route-controller",
    "persistentvolume-attach-detach-controller",
    "persistentvolume-expander-controller",
    "podcertificaterequest-cleaner-controller",
    "service-cidr-controller",
    "service-lb-controller",
    "storage-version-migrator-controller",
    "storageversion-garbage-collector-controller",
)
# The minor version since which there is one of them: others are refused by name.
_SINCE: Final = {"podcertificaterequest-cleaner-controller": 34}
_MINOR: Final = int(KUBERNETES.split(".")[1])
# They judge nodes by their heartbeats, and nodes without a kubelet or kwok have none.
_NODE_LIFECYCLE: Final = ("node-lifecycle-controller", "taint-eviction-controller")


@dataclass(frozen=True)
class Files:
    """The files of one control plane."""

    directory: Path

    @property
    def authority(self) -> Path:
        """The certificate of the authority that all parts trust."""
        return self.directory / "ca.crt"

    @property
    def admin(self) -> Path:
        """The kubeconfig of a cluster administrator."""
        return self.directory / "admin.kubeconfig"

    def pair(self, name: str) -> tuple[Path, Path]:
        """Certificate and key of a server."""
        return self.directory / f"{name}.crt", self.directory / f"{name}.key"

    @property
    def token_signing_key(self) -> Path:
        """Signs service-account tokens."""
        return self.directory / "service-accounts.key"

    @property
    def token_checking_key(self) -> Path:
        """Checks service-account tokens."""
        return self.directory / "service-accounts.pub"


def etcd(files: Files, port: int, peer_port: int, *, fsync: bool) -> Arguments:
    """Etcd, for one member; without ``fsync`` it is fast and loses data only with the machine."""
    certificate, key = files.pair("etcd")
    client, peer = f"https://{LOOPBACK}:{port}", f"https://{LOOPBACK}:{peer_port}"
    return [
        "--name=local",
        f"--data-dir={files.directory / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=local={peer}",
        "--client-cert-auth",
        f"--trusted-ca-file={files.authority}",
        f"--cert-file={certificate}",
        f"--key-file={key}",
        "--peer-client-cert-auth",
        f"--peer-trusted-ca-file={files.authority}",
        f"--peer-cert-file={certificate}",
        f"--peer-key-file={key}",
        "--quota-backend-bytes=8589934592",
        "--log-level=warn",
        *([] if fsync else ["--unsafe-no-fsync"]),
    ]


def kube_apiserver(
    files: Files,
    port: int,
    etcd_port: int,
    *,
    admission_off: Sequence[str] = (),
    unthrottled: bool = False,
) -> Arguments:
    """The API server with RBAC; ``unthrottled`` switches its flow control off."""
    certificate, key = files.pair("kube-apiserver")
    etcd_certificate, etcd_key = files.pair("etcd-client")
    return [
        f"--etcd-servers=https://{LOOPBACK}:{etcd_port}",
        f"--etcd-cafile={files.authority}",
        f"--etcd-certfile={etcd_certificate}",
        f"--etcd-keyfile={etcd_key}",
        f"--bind-address={LOOPBACK}",
        f"--advertise-address={LOOPBACK}",
        f"--secure-port={port}",
        f"--tls-cert-file={certificate}",
        f"--tls-private-key-file={key}",
        f"--client-ca-file={files.authority}",
        # Nobody authenticates as a front proxy, but components wait for its authority and complain.
        f"--requestheader-client-ca-file={files.authority}",
        "--requestheader-allowed-names=front-proxy",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={files.token_checking_key}",
        f"--service-account-signing-key-file={files.token_signing_key}",
        "--service-cluster-ip-range=10.0.0.0/24",
        # A loopback address is refused as an endpoint of the `kubernetes` service.
        "--endpoint-reconciler-type=none",
        "--allow-privileged=true",
        "--shutdown-delay-duration=0s",
        *([f"--disable-admission-plugins={','.join(admission_off)}"] if admission_off else []),
        *(_NO_FLOW_CONTROL if unthrottled else []),
    ]


_NO_FLOW_CONTROL: Final = (
    "--enable-priority-and-fairness=false",
    "--max-requests-inflight=0",
    "--max-mutating-requests-inflight=0",
)


def kube_controller_manager(files: Files, port: int, *, node_lifecycle: bool) -> Arguments:
    """The controllers, all under the administrator's name, which saves a token for each."""
    unwanted = (*_CONTROLLERS_OFF, *(() if node_lifecycle else _NODE_LIFECYCLE))
    off = [name for name in unwanted if _SINCE.get(name, 0) <= _MINOR]
    return [
        *_secured(files, port, "kube-controller-manager"),
        f"--kubeconfig={files.admin}",
        f"--controllers={','.join(['*', *(f'-{name}' for name in off)])}",
        f"--service-account-private-key-file={files.token_signing_key}",
        f"--root-ca-file={files.authority}",
        "--use-service-account-credentials=false",
        "--leader-elect=false",
        "--kube-api-qps=1000",
        "--kube-api-burst=2000",
    ]


def admission_off(*, accounts: bool, node_lifecycle: bool, benchmark: bool) -> Arguments:
    """The admission plugins that would require what no component does here.

    Args:
        accounts: whether somebody makes service accounts.
        node_lifecycle: whether nodes are judged by heartbeats.
        benchmark: whether only that is left which both schedulers under comparison meet upstream.
    """
    off = []
    if benchmark or not accounts:
        off.append("ServiceAccount")
    if benchmark or not node_lifecycle:
        off.append("TaintNodesByCondition")
    if benchmark:
        off.append("Priority")
    return off


def kwok(files: Files, port: int, *, pods: bool, nodes: str) -> Arguments:
    """kwok for nodes that carry the annotation ``nodes``, and for the pods on them or not."""
    stages = ["config.yaml", "nodes.yaml", *(["pods.yaml"] if pods else [])]
    return [
        f"--kubeconfig={files.admin}",
        *(f"--config={_STAGES / name}" for name in stages),
        f"--manage-nodes-with-annotation-selector={nodes}",
        f"--server-address={LOOPBACK}:{port}",
    ]


def kube_scheduler(files: Files, name: str, port: int, kubeconfig: Path) -> Arguments:
    """The reference scheduler, reading ``<name>.yaml``."""
    return [
        *_secured(files, port, name),
        f"--config={files.directory / f'{name}.yaml'}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
    ]


def py_scheduler(port: int, kubeconfig: Path, config: Path | None) -> Arguments:
    """This repository's scheduler, reading ``config`` if there is one; port 0 is any free one."""
    return [
        "run",
        "--log-format=json",
        f"--kubeconfig={kubeconfig}",
        f"--bind-address={LOOPBACK}",
        f"--port={port}",
        *([f"--config={config}"] if config else []),
    ]


def configuration(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A KubeSchedulerConfiguration with these fields."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        **fields,
    }


def kube_scheduler_configuration(
    changes: Mapping[str, Any] | None, kubeconfig: Path
) -> dict[str, Any]:
    """A configuration that runs alone and as fast as it can, with ``changes`` laid over it."""
    changes = changes or {}
    base: dict[str, Any] = {
        # The defaults, 50 and 100, bind fifty pods a second and measure nothing but themselves.
        "clientConnection": {"qps": 5000, "burst": 5000},
        "leaderElection": {"leaderElect": False},
    }
    merged = {**base, **changes}
    for section in ("clientConnection", "leaderElection"):
        merged[section] = {**base[section], **changes.get(section, {})}
    merged["clientConnection"]["kubeconfig"] = str(kubeconfig)
    return configuration(merged)


def _secured(files: Files, port: int, name: str) -> Arguments:
    certificate, key = files.pair("loopback")
    return [
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        f"--tls-cert-file={certificate}",
        f"--tls-private-key-file={key}",
        # Where it would put a certificate of its own making.
        f"--cert-dir={files.directory / name}",
    ]
