"""Where changed configurations come from: the file of --config, the object of --config-resource."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from scheduler.config.change import Outcome
from scheduler.config.run_settings import STANDARD_INPUT, RunSettings
from scheduler.crds.configuration import ConfigurationResource
from scheduler.crds.following import follow
from scheduler.kube.client import ApiClient
from scheduler.kube.credentials import Credentials
from scheduler.kube.events import Event
from scheduler.process.background import restart_forever
from scheduler.reload.config_file import ConfigFile
from scheduler.reload.plan import Source
from scheduler.reload.reloader import Reloader
from scheduler.reload.report import Report

_RESTART_SECONDS: Final = 30.0


class ConfigurationSources:
    """Offers each changed configuration to the reloader.

    Args:
        settings: The settings of the command line: which file and which object.
        reloader: Applies a configuration, and returns the outcome.
        report: Reports defects, and forgets a deleted object.
        credentials: Those of the watch on the object.
        client: Writes the object's status.
        record: Records an event about the object.
        may_act: Tells whether this process leads: only the leader writes the status.
    """

    def __init__(
        self,
        settings: RunSettings,
        reloader: Reloader,
        report: Report,
        credentials: Credentials,
        client: ApiClient,
        record: Callable[[Event], None],
        may_act: Callable[[], bool],
    ) -> None:
        self._settings = settings
        self._reloader = reloader
        self._report = report
        self._credentials = credentials
        self._client = client
        self.resource: ConfigurationResource | None = None
        if settings.config_resource:
            self.resource = ConfigurationResource(
                settings.config_resource,
                self._offer_resource,
                client,
                record,
                lambda: report.forget(Source.RESOURCE),
                may_act,
            )

    async def watch_file(self) -> None:
        """Offer each changed text of the file, until cancelled."""
        path, text = self._settings.config_path, self._settings.config_text
        if text is not None and path != STANDARD_INPUT:
            await ConfigFile(Path(path), text, self._offer_file).run()

    async def watch_resource(self, listen_to_signals: Callable[[], None]) -> None:
        """Offer each change of the object, until cancelled; a failure here must not affect pods.

        *listen_to_signals* installs the process's own signal handlers again: kopf replaces them.
        """
        resource = self.resource
        if resource is not None:
            await restart_forever(
                lambda: follow(
                    self._settings.config_resource,
                    resource,
                    self._credentials,
                    self._client,
                    listen_to_signals,
                ),
                self._report_defect,
                _RESTART_SECONDS,
            )

    async def _offer_file(self, text: str) -> Outcome:
        return await self._reloader.offer(text, Source.FILE)

    async def _offer_resource(self, text: str) -> Outcome:
        return await self._reloader.offer(text, Source.RESOURCE)

    def _report_defect(self, problem: Exception) -> None:
        self._report.watch_failed(Source.RESOURCE, problem, _RESTART_SECONDS)
