"""What the jobs of a study that do not train depend on, and what they need."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plfl import plugins
from plfl.config.baselines import Baselines
from plfl.data import sources
from plfl.experiments.scoring import Scoring, scoring_of
from plfl.pipeline.file_patterns import Wildcards, fill_wildcards
from plfl.pipeline.fingerprint import digests_of, method_digest
from plfl.pipeline.jobs import variant_of_job
from plfl.plugins.registry import Section
from plfl.report.reporting import Reporting, reporting_of
from plfl.study import Study


@dataclass(frozen=True)
class JobParameters:
    """What the jobs of a study that do not train depend on, and what they need. A function of
    `wildcards` is about one job, which runs again if its value changes."""

    study: Study

    def description(self, wildcards: Wildcards) -> dict[str, Any]:
        """The study, or the variant of a job, as stored with its results."""
        return variant_of_job(self.study, wildcards).description()

    def data_settings(self, wildcards: Wildcards) -> dict[str, Any]:
        """The part of the configuration that determines what is read of a state."""
        data = variant_of_job(self.study, wildcards).data
        settings: dict[str, Any] = sources.source_of(data).settings(data, wildcards["state"])
        return settings

    def own_files(self, wildcards: Wildcards) -> dict[str, str]:
        """The content of the user's own files that the clients of a state are read from.

        They are no inputs: of those Snakemake sees only the times, but a file that replaces another
        may be older, and it looks for wildcards in names with braces.
        """
        data = variant_of_job(self.study, wildcards).data
        return digests_of(sources.source_of(data).own_files(data, wildcards["state"]))

    @property
    def source_module(self) -> str:
        """The module of the source of the data."""
        return type(sources.source_of(self.study.data)).__module__

    def windows(self, wildcards: Wildcards) -> dict[str, Any]:
        """What determines the windows of a state besides its series."""
        job = variant_of_job(self.study, wildcards)
        return {"windows": job.windows.settings, **sources.build_arguments(job)}

    # -- baselines -------------------------------------------------------------------------------

    def baselines_settings(self, wildcards: Wildcards) -> dict[str, Any]:
        """What determines the baselines besides the examples: their keys with the files that these
        name, the keys of the task, the groups of clients, and the code, that of plug-ins
        included."""
        job, keys = variant_of_job(self.study, wildcards), self.study.baselines
        modules = {type(keys.find(name)).__module__ for name in keys.names}
        return {
            "baselines": keys.model_dump(),
            "task": job.task.settings,
            "files": digests_of(self._given_files(keys)),
            "divided": self.scoring.baseline_settings(job),
            "groups": self._groups(wildcards),
            "code": method_digest(self.scoring.baselines, *modules),
        }

    def _given_files(self, keys: Baselines) -> list[Path]:
        """The files that keys of the baselines name, but for those that the study makes: these are
        inputs of the jobs."""
        files = _files_of([keys.find(name) for name in keys.names])
        return [file for file in files if file not in self.study.public_files]

    def public_states(self, wildcards: Wildcards) -> dict[str, Any]:
        """What determines a public model of the study: the settings and the files of the states
        that train it."""
        states = self.study.public_files[self.study.paths.public / f"{wildcards['public']}.xz"]
        source, data = sources.source_of(self.study.data), self.study.data
        return {
            state: [source.settings(data, state), digests_of(source.own_files(data, state))]
            for state in states
        }

    def group_files(self, pattern: str) -> Callable[[Wildcards], list[str]]:
        """A function of a job's wildcards: the names of a file of the groups of clients whose
        baselines are jobs of their own; none if one job evaluates all."""

        def names(wildcards: Wildcards) -> list[str]:
            count = self._groups(wildcards)
            if count == 1:
                return []
            groups = range(1, count + 1)
            names = (fill_wildcards(pattern, **dict(wildcards.items()), group=k) for k in groups)
            return [*dict.fromkeys(names)]

        return names

    def _groups(self, wildcards: Wildcards) -> int:
        job = variant_of_job(self.study, wildcards)
        return self.scoring.baseline_groups(job, wildcards["state"])

    def common_baselines_megabytes(self, wildcards: Wildcards, attempt: int) -> int:
        """Memory of the baselines that need all clients of a state together: 13 MB for each of the
        clients whose windows are all read (`plfl.baselines.trees.MOST_POOLED_ROWS`)."""
        clients = self._clients(wildcards)
        return attempt * (2000 + 15 * min(clients, 400) + clients // 2)

    def baseline_group_megabytes(self, _wildcards: Wildcards, attempt: int) -> int:
        """Memory of the baselines of a group of clients."""
        return attempt * 4000

    def baseline_group_minutes(self, _wildcards: Wildcards, attempt: int) -> int:
        """Time limit of the baselines of a group. A client with a year of quarter hours takes a few
        seconds."""
        return attempt * 15

    def baselines_megabytes(self, wildcards: Wildcards, attempt: int) -> int:
        """Memory of the baselines of a state in one job, or of the tables that are joined; trees
        stay in their files. Six meters with 26 weeks of hours took 0.5 GB."""
        share = 30 if self._groups(wildcards) == 1 else 3
        return attempt * (2000 + share * self._clients(wildcards))

    def baselines_minutes(self, wildcards: Wildcards, attempt: int) -> int:
        """Time limit of the baselines of a state. A client with a year of quarter hours takes a few
        seconds."""
        return attempt * (10 + self._clients(wildcards) // 6)

    def _clients(self, wildcards: Wildcards) -> int:
        return variant_of_job(self.study, wildcards).data.clients_of(wildcards["state"])

    # -- tables, figures and page ----------------------------------------------------------------

    @property
    def scoring(self) -> Scoring:
        """How the results are scored."""
        return scoring_of(self.study)

    @property
    def reporting(self) -> Reporting:
        """How the results are reported."""
        return reporting_of(self.study)

    @property
    def figures_code(self) -> str:
        """Digest of the code of the figures, with the labels that plug-ins give their classes."""
        modules = [plugin.module.__name__ for plugin in plugins.plugins_of(self.study.plugins)]
        return method_digest(self.reporting.draw, *modules)


def _files_of(blocks: Iterable[Section]) -> list[Path]:
    """The files that keys of some blocks name."""
    values = [value for block in blocks for _, value in block]
    lists = [value if isinstance(value, list) else [value] for value in values]
    return [value for items in lists for value in items if isinstance(value, Path)]
