"""A real Kubernetes control plane on the loopback, for testing schedulers.

etcd and kube-apiserver always run; kube-controller-manager, kwok (simulated nodes and pods) and
kube-scheduler (the reference to compare with, never to do our work) when asked for. Several control
planes live side by side: each has its own ports, certificates, keys and temporary directory.

    with ControlPlane(components=("kube-controller-manager", "kwok")) as plane:
        plane.kubectl("get", "nodes")

Everything is ended and removed on leaving the block, on an exception and on Ctrl-C; when the owner
itself is killed, with whatever signal, its guardian does the same (see `hack.guardian`).

**Nodes and their taints.** The admission plugin TaintNodesByCondition gives every new node a
``not-ready`` taint, and the node lifecycle controller takes it off when heartbeats arrive (and puts
another on when they stay away). One without the other makes no sense, so both run when there are
heartbeats, that is with kube-controller-manager and kwok together, and neither runs otherwise: a
node is then exactly what was posted. ``node_lifecycle`` says it outright.

**Pods of vanished nodes** are deleted by the controller manager after 40 seconds, as in a cluster.
**Speed.** etcd does not fsync by default: its data is thrown away at the end.

``python -m hack.control_plane`` starts one and keeps it until Ctrl-C.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import quote

import yaml

from hack import components
from hack.api import ApiError, request, request_text
from hack.binaries import ensure
from hack.components import KUBE_SCHEDULER_USER, Files
from hack.identities import Identities
from hack.kubeconfig import Access
from hack.ports import LOOPBACK, PortClaims
from hack.processes import Process, ProcessGroup
from hack.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from types import TracebackType

CONTROLLER_MANAGER: Final = "kube-controller-manager"
KWOK: Final = "kwok"
KUBE_SCHEDULER: Final = "kube-scheduler"
OPTIONAL_COMPONENTS: Final = (CONTROLLER_MANAGER, KWOK, KUBE_SCHEDULER)

KWOK_NODES: Final = "kwok.x-k8s.io/node=fake"

_ROOT: Final = Path(__file__).parents[1]
_SPAWNED_GRACE_SECONDS: Final = 10.0
_ACCOUNT_SECONDS: Final = 30.0


class ControlPlane:
    """One control plane; a context manager.

    Args:
        components: which of `OPTIONAL_COMPONENTS` to start at once; others can follow later.
        apiserver_flags: further flags for kube-apiserver, after ours.
        controller_manager_flags: further flags for kube-controller-manager, after ours.
        node_lifecycle: whether nodes are judged by heartbeats; None: when somebody sends them.
        kwok_pods: whether kwok runs the pods of its nodes; False leaves them to an admitting
            kubelet.
        benchmark: no flow control, and only the admission that both schedulers under comparison
            meet upstream: without ServiceAccount, TaintNodesByCondition and Priority.
        fsync: whether etcd waits for the disk.
        keep_logs_in: a directory that gets a copy of all logs at the end.
        start_timeout_seconds: how long each component may take to become ready.
    """

    def __init__(
        self,
        *,
        components: Collection[str] = (CONTROLLER_MANAGER,),
        apiserver_flags: Sequence[str] = (),
        controller_manager_flags: Sequence[str] = (),
        node_lifecycle: bool | None = None,
        kwok_pods: bool = True,
        benchmark: bool = False,
        fsync: bool = False,
        keep_logs_in: Path | None = None,
        start_timeout_seconds: float = 90.0,
    ) -> None:
        unknown = set(components) - set(OPTIONAL_COMPONENTS)
        assert not unknown, unknown
        self._components = frozenset(components)
        self._apiserver_flags = tuple(apiserver_flags)
        self._controller_manager_flags = tuple(controller_manager_flags)
        heartbeats = {CONTROLLER_MANAGER, KWOK} <= self._components
        self._node_lifecycle = heartbeats if node_lifecycle is None else node_lifecycle
        self._kwok_pods = kwok_pods
        self._benchmark = benchmark
        self._fsync = fsync
        self._keep_logs_in = keep_logs_in
        self._timeout_seconds = start_timeout_seconds
        self._started = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as starting:
            self._binaries = ensure(_binaries_for(self._components))
            self._prepare(starting)
            self._start_etcd()
            self.start_apiserver()
            self._start_components()
            # Reached only when all went well; otherwise leaving the block undoes what was done.
            self._started = starting.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._started.close()

    # -- What is where -----------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """The API server's address."""
        return f"https://{LOOPBACK}:{self._port}"

    @property
    def admin_kubeconfig(self) -> Path:
        """The kubeconfig of a cluster administrator."""
        return self.files.admin

    @property
    def _admin(self) -> Access:
        return self._identities.admin

    @property
    def processes(self) -> tuple[Process, ...]:
        """All processes started so far; the guardian that leads them is not among them."""
        return self._group.processes

    # -- Talking to it -----------------------------------------------------------------------------

    def kubectl(
        self, *arguments: str, stdin: str | None = None, kubeconfig: Path | None = None
    ) -> str:
        """Run kubectl, as administrator by default; return what it printed.

        Raises:
            RuntimeError: kubectl failed; the message is what it said.
        """
        command = [str(self._binary("kubectl")), "--kubeconfig"]
        command += [str(kubeconfig or self.admin_kubeconfig), *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def request(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        content_type: str = "application/json",
    ) -> dict[str, Any]:
        """One request as administrator: JSON in, JSON out; `hack.api.ApiError` unless 2xx."""
        return request(self._admin, method, path, body, content_type=content_type)

    def kubeconfig_for(self, user: str, groups: Sequence[str] = ()) -> Path:
        """Mint a client certificate for ``user`` in ``groups``; return a kubeconfig with it."""
        return self._identities.user(user, groups)

    def service_account_kubeconfig(
        self, namespace: str, name: str, *, expiration_seconds: int = 24 * 3600
    ) -> Path:
        """Ask for a token of an existing service account; return a kubeconfig with it."""
        path = f"/api/v1/namespaces/{quote(namespace)}/serviceaccounts/{quote(name)}/token"
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": expiration_seconds},
        }
        token = self.request("POST", path, body)["status"]["token"]
        return self._identities.bearer(f"{namespace}-{name}", token)

    def create_namespace(self, name: str) -> None:
        """Create a namespace; with a controller manager, wait for its default service account."""
        metadata = {"name": name}
        self.request("POST", "/api/v1/namespaces", {"metadata": metadata})
        if CONTROLLER_MANAGER in self._components:
            self._await_account(name)

    # -- Faults ------------------------------------------------------------------------------------

    def stop_apiserver(self, *, kill: bool = False) -> None:
        """End the API server, orderly or as a crash would; its port stays reserved."""
        self._apiserver.stop(grace_seconds=0 if kill else 30)

    def start_apiserver(self) -> None:
        """Start the API server on its port, over etcd's data, and wait until it is ready."""
        arguments = components.kube_apiserver(
            self.files,
            self._port,
            self._etcd_port,
            admission_off=components.admission_off(
                accounts=CONTROLLER_MANAGER in self._components,
                node_lifecycle=self._node_lifecycle,
                benchmark=self._benchmark,
            ),
            unthrottled=self._benchmark,
        )
        self._apiserver = self._run("kube-apiserver", [*arguments, *self._apiserver_flags])
        self._await(self._apiserver, lambda: self._healthy(self._admin, "/readyz"))

    def restart_apiserver(self, *, kill: bool = False) -> None:
        """Stop and start the API server: same port, same data, all connections broken."""
        self.stop_apiserver(kill=kill)
        self.start_apiserver()

    # -- Starting more -----------------------------------------------------------------------------

    def start_controller_manager(self) -> Process:
        """Start kube-controller-manager and wait until it is healthy."""
        port = self._ports.claim()
        arguments = components.kube_controller_manager(
            self.files, port, node_lifecycle=self._node_lifecycle
        )
        process = self._run(CONTROLLER_MANAGER, [*arguments, *self._controller_manager_flags])
        return self._await_server(process, port)

    def start_kwok(self, *, nodes: str = KWOK_NODES) -> Process:
        """Start kwok for nodes with the annotation ``nodes`` and wait until it is healthy."""
        port = self._ports.claim()
        arguments = components.kwok(self.files, port, pods=self._kwok_pods, nodes=nodes)
        process = self._run(KWOK, arguments)
        process.port = port
        healthy = Access(f"http://{LOOPBACK}:{port}", None, {})
        self._await(process, lambda: self._healthy(healthy, "/healthz"))
        return process

    def start_kube_scheduler(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        name: str = KUBE_SCHEDULER,
        flags: Sequence[str] = (),
    ) -> Process:
        """Start a reference scheduler and wait until it is healthy.

        Args:
            config: (parts of) a KubeSchedulerConfiguration; without one it is ``default-scheduler``
                with default plugins. Its rate limit is lifted and it runs without a lease, unless
                the document says otherwise.
            name: names its log and its files, for several at once.
            flags: further flags.

        Returns:
            The process; its metrics are at ``https://127.0.0.1:<port>/metrics`` for the
            administrator (see `scrape`).
        """
        port = self._ports.claim()
        kubeconfig = self.kubeconfig_for(KUBE_SCHEDULER_USER)
        document = components.kube_scheduler_configuration(config, kubeconfig)
        (self.directory / f"{name}.yaml").write_text(yaml.safe_dump(document))
        arguments = components.kube_scheduler(self.files, name, port, kubeconfig)
        process = self._run(KUBE_SCHEDULER, [*arguments, *flags], name=name)
        return self._await_server(process, port)

    def start_py_scheduler(
        self,
        *flags: str,
        name: str = "py-scheduler",
        config: Mapping[str, Any] | None = None,
        kubeconfig: Path | None = None,
        port: int = 0,
    ) -> Process:
        """Start this repository's scheduler; see `hack.running_scheduler`, which waits for it too.

        Args:
            flags: further flags.
            name: names its log and its files, for several at once.
            config: fields of a KubeSchedulerConfiguration.
            kubeconfig: its identity; the administrator by default.
            port: of its metrics; any free one by default.
        """
        path = None
        if config is not None:
            path = self.directory / f"{name}.yaml"
            path.write_text(yaml.safe_dump(components.configuration(config)))
        arguments = components.py_scheduler(port, kubeconfig or self.admin_kubeconfig, path)
        command = [sys.executable, "-m", "scheduler", *arguments, *flags]
        return self.spawn(name, command, cwd=_ROOT)

    def start_admitting_kubelet(self, *flags: str) -> Process:
        """Start `hack.admitting_kubelet` in a process of its own and wait until it is ready.

        It competes with kwok for the pods of kwok's nodes, unless ``kwok_pods=False``.
        """
        command = [sys.executable, "-m", "hack.admitting_kubelet", *flags]
        command += ["--kubeconfig", str(self.admin_kubeconfig)]
        process = self.spawn("admitting-kubelet", command, cwd=_ROOT)
        self._await(process, lambda: "ready" in process.tail())
        return process

    def spawn(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        environ: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Process:
        """Start any other program (a scheduler under test) that must not outlive this one.

        Its output goes to ``<name>.log``. At the end it is asked to stop before it is killed, while
        the API server still answers.
        """
        self._spawned[name] = _SPAWNED_GRACE_SECONDS
        return self._group.spawn(name, command, environ=environ, cwd=cwd)

    def scrape(self, process: Process, path: str = "/metrics") -> str:
        """Read a path of a component's own server as administrator."""
        access = Access(
            f"https://{LOOPBACK}:{process.port}", self._admin.context, self._admin.headers
        )
        status, text = request_text(access, "GET", path)
        if status != 200:
            raise ApiError(status, text)
        return text

    # -- Inside ------------------------------------------------------------------------------------

    def _prepare(self, starting: contextlib.ExitStack) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="py-scheduler-control-plane-"))
        starting.callback(shutil.rmtree, self.directory, ignore_errors=True)
        self.logs = self.directory / "logs"
        self.logs.mkdir()
        starting.callback(self._keep_logs)
        self._ports = PortClaims()
        starting.callback(self._ports.release)
        self._spawned: dict[str, float] = {}
        self._group = ProcessGroup(self.directory, self.logs)
        starting.callback(self._close_group)
        self._port, self._etcd_port = self._ports.claim(), self._ports.claim()
        self.files = Files(self.directory)
        self._identities = Identities(self.files, self.url)

    def _close_group(self) -> None:
        self._group.close(grace_seconds=self._spawned)

    def _keep_logs(self) -> None:
        if self._keep_logs_in is not None:
            shutil.copytree(self.logs, self._keep_logs_in, dirs_exist_ok=True)

    def _start_etcd(self) -> None:
        arguments = components.etcd(
            self.files, self._etcd_port, self._ports.claim(), fsync=self._fsync
        )
        process = self._run("etcd", arguments)
        pair = self.files.pair("etcd-client")
        context = ssl.create_default_context(cafile=str(self.files.authority))
        context.load_cert_chain(*pair)
        self.etcd = Access(f"https://{LOOPBACK}:{self._etcd_port}", context, {})
        self._await(process, lambda: self._healthy(self.etcd, "/health"))

    def _await_account(self, namespace: str) -> None:
        """Wait for the default service account: no pod is admitted before it is there."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
        what = f"a default service account in {namespace}"
        until(lambda: self._exists(path), what, seconds=_ACCOUNT_SECONDS)

    def _start_components(self) -> None:
        if CONTROLLER_MANAGER in self._components:
            self.start_controller_manager()
        if KWOK in self._components:
            self.start_kwok()
        if KUBE_SCHEDULER in self._components:
            self.start_kube_scheduler()
        if CONTROLLER_MANAGER in self._components:
            self._await_account("default")

    def _binary(self, name: str) -> Path:
        if name not in self._binaries:
            self._binaries |= ensure([name])
        return self._binaries[name]

    def _run(self, binary: str, arguments: Sequence[str], *, name: str | None = None) -> Process:
        return self._group.spawn(name or binary, [self._binary(binary), *arguments])

    def _await(self, process: Process, ready: Callable[[], bool]) -> None:
        process.wait_until(ready, "ready", timeout_seconds=self._timeout_seconds)

    def _await_server(self, process: Process, port: int) -> Process:
        process.port = port
        access = Access(f"https://{LOOPBACK}:{port}", self._admin.context, self._admin.headers)
        self._await(process, lambda: self._healthy(access, "/healthz"))
        return process

    @staticmethod
    def _healthy(access: Access, path: str) -> bool:
        with contextlib.suppress(OSError):
            return request_text(access, "GET", path, timeout_seconds=5)[0] == 200
        return False

    def _exists(self, path: str) -> bool:
        return request_text(self._admin, "GET", path)[0] == 200


def _binaries_for(optional: Collection[str]) -> list[str]:
    return ["etcd", "kube-apiserver", "kubectl", *optional]


def main() -> None:
    """Run a control plane until Ctrl-C."""
    parser = argparse.ArgumentParser(prog="python -m hack.control_plane", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--components",
        default=f"{CONTROLLER_MANAGER},{KWOK}",
        help=f"comma-separated, out of {', '.join(OPTIONAL_COMPONENTS)} (default: %(default)s)",
    )
    parser.add_argument("--benchmark", action="store_true", help="no flow control, less admission")
    parser.add_argument("--keep-logs-in", type=Path, help="copy all logs there at the end")
    options = parser.parse_args()
    chosen = [name for name in options.components.split(",") if name]
    with (
        contextlib.suppress(KeyboardInterrupt),
        ControlPlane(
            components=chosen, benchmark=options.benchmark, keep_logs_in=options.keep_logs_in
        ) as plane,
    ):
        # A polite end of either kind leaves the block, which keeps the logs that were asked for.
        for polite in (signal.SIGINT, signal.SIGTERM):
            signal.signal(polite, signal.default_int_handler)
        print(f"export KUBECONFIG={plane.admin_kubeconfig}", flush=True)
        signal.pause()


if __name__ == "__main__":
    main()
