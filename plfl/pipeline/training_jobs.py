"""The training jobs of a study: which cells each trains, what these depend on, what they need."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from plfl.experiments.job_sizes import COMMON_AXES, cost_of_step, local_steps, stack_of
from plfl.pipeline.file_patterns import Wildcards, fill_wildcards
from plfl.pipeline.fingerprint import code_digest
from plfl.pipeline.jobs import variant_of_job
from plfl.plugins.registry import Algorithm
from plfl.study import Cell, Study
from plfl.study.plan import CELL_AXES


@dataclass(frozen=True)
class TrainingRule:
    """A rule whose jobs each train all cells that differ only in the `spanned` axes."""

    name: str
    schemes: Sequence[str]
    """The sharing schemes of its cells, all of which have the same cells."""
    spanned_axes: Sequence[str]
    trainees: str
    """Who trains, for the message."""
    log_ending: str
    cells: Sequence[Cell]
    """Of all jobs, in the order of the study."""
    study_name: str

    def files(self, pattern: str) -> list[str]:
        """The files that one job writes, one for each cell, given the pattern of their names."""
        spanned = ({axis: getattr(cell, axis) for axis in self.spanned_axes} for cell in self.cells)
        return [*dict.fromkeys(fill_wildcards(pattern, **values) for values in spanned)]

    @property
    def job(self) -> str:
        """The name of a job: the axes, as wildcards, on which all of its cells have the same
        value; `study` if there are none."""
        return "-".join(f"{{{axis}}}" for axis in self._common) or "study"

    @property
    def log(self) -> str:
        """The name of the log of a job."""
        return self.job + self.log_ending

    @property
    def schemes_expression(self) -> str:
        """The regular expression of the wildcard `sharing`."""
        return "|".join(self.schemes) or "(?!)"

    def message(self, has_variants: bool) -> str:
        """What a job does."""
        label = "{wildcards}" if has_variants or self._common else self.study_name
        return f"{label}: train {self.trainees}"

    @property
    def _common(self) -> list[str]:
        return [axis for axis in CELL_AXES if axis not in self.spanned_axes]


@dataclass(frozen=True)
class TrainingJobs:
    """The training jobs of a study, or of each of its variants."""

    study: Study

    @cached_property
    def rules(self) -> list[TrainingRule]:
        """The rules that train. With nothing shared, method and ServerOpt have no effect: trained
        once, reported under each.

        Hyperparameters are selected once for all seeds, so all seeds train in one job.
        """
        # Which methods a ServerOpt can be combined with may depend on the ClientOpt.
        refuses = bool(self._variant.plan.combinations.refusals)
        without_effect = ("method", "server_opt", *(["client_opt"] if refuses else []))
        spanned = [axis for axis in CELL_AXES if axis not in COMMON_AXES[stack_of(self.study)]]
        spanned_alone = spanned + [axis for axis in without_effect if axis not in spanned]
        schemes = self._variant.grid.sharing
        if "sharing" in spanned:
            everybody = "federations and clients alone"
            return [self._rule("train", schemes, spanned, everybody, "")]
        unshared = [name for name in schemes if self._variant.plan.schemes.shares_nothing(name)]
        federated = [name for name in schemes if name not in unshared]
        return [
            *self._rule_of_all("train", federated, spanned, "federations", ""),
            *self._rule_of_all("train_local", unshared, spanned_alone, "clients alone", ".local"),
        ]

    def _rule_of_all(
        self, name: str, schemes: Iterable[str], spanned: Sequence[str], trainees: str, ending: str
    ) -> Iterator[TrainingRule]:
        """One rule for all schemes that have the same cells, which methods may refuse."""
        schemes_of_cells: dict[tuple[tuple[str, ...], ...], list[str]] = {}
        for scheme in schemes:
            cells = tuple(
                tuple(str(getattr(cell, axis)) for axis in CELL_AXES if axis != "sharing")
                for cell in self._variant.cells
                if cell.sharing == scheme
            )
            schemes_of_cells.setdefault(cells, []).append(scheme)
        schemes_of_cells.pop((), None)
        for number, equal_schemes in enumerate(schemes_of_cells.values(), 1):
            rule = name if number == 1 else f"{name}_{number}"
            yield self._rule(rule, equal_schemes, spanned, trainees, ending)

    def _rule(
        self, name: str, schemes: Sequence[str], spanned: Sequence[str], trainees: str, ending: str
    ) -> TrainingRule:
        cells = [cell for cell in self._variant.cells if cell.sharing in schemes]
        return TrainingRule(name, schemes, spanned, trainees, ending, cells, self.study.name)

    @property
    def _variant(self) -> Study:
        """A variant. All have the same cells."""
        return next(iter(self.study.variants.values()))

    # -- of a job, given its wildcards -----------------------------------------------------------

    def cells(self, wildcards: Wildcards) -> list[Cell]:
        """The cells that a job trains."""
        common = {axis: value for axis, value in wildcards.items() if axis in CELL_AXES}
        return [
            cell
            for cell in variant_of_job(self.study, wildcards).cells
            if all(str(getattr(cell, axis)) == value for axis, value in common.items())
        ]

    def settings(self, wildcards: Wildcards) -> dict[str, Any]:
        """The part of the configuration that determines the results of a job."""
        job = variant_of_job(self.study, wildcards)
        return {str(cell): job.plan.settings(cell) for cell in self.cells(wildcards)}

    def code(self, wildcards: Wildcards) -> str:
        """Digest of the code that a job runs."""
        return training_code(variant_of_job(self.study, wildcards), self.cells(wildcards))

    def megabytes(self, wildcards: Wildcards, attempt: int) -> int:
        """Memory of a job.

        Measured with the paper's model: 0.4 GB for 12 models and 0.3 to 1.1 MB for each model, less
        per model the more there are. The series of the clients stay in their file, but some are
        kept for each; of covariates and targets at most 1 GB
        (`plfl.data.computed.MOST_BYTES_IN_MEMORY`). On a cluster, two Snakemake processes of 0.5 GB
        each run on the node (docs/clusters.md). A retry requests more.
        """
        states = {cell.state for cell in self.cells(wildcards)}
        clients = sum(map(variant_of_job(self.study, wildcards).data.clients_of, states))
        return attempt * (2000 + clients + 3 * self.count_models(wildcards) // 4)

    def minutes(self, wildcards: Wildcards, attempt: int) -> int:
        """Time limit of a job, by the cost of a local step of its model on a CPU."""
        job = variant_of_job(self.study, wildcards)
        cost = cost_of_step(job)
        # The cheaper a step, the more of the time goes into scoring the models of all clients.
        share = job.federation.participation if cost > 1 else 1
        models, rounds = math.ceil(share * self.count_models(wildcards)), job.federation.rounds
        sharings = {cell.sharing for cell in self.cells(wildcards)}
        steps = models * rounds * max(local_steps(job, sharing) for sharing in sharings)
        return attempt * (10 + int(steps * cost) // 60_000)

    def count_models(self, wildcards: Wildcards) -> int:
        """How many models a job trains side by side at most, all trials included."""
        job = variant_of_job(self.study, wildcards)
        cells = self.cells(wildcards)
        return sum(job.plan.count_trials(cell) * job.data.clients_of(cell.state) for cell in cells)


def training_code(study: Study, cells: Iterable[Cell]) -> str:
    """Digest of the code that training `cells` of a study runs, that of plug-ins included."""
    algorithms: list[Algorithm] = [study.model, study.task, *study.channel.codecs]
    for cell in cells:
        keys = study.hyperparameters
        algorithms.append(keys.find_client_opt(cell.client_opt))
        if not study.plan.trains_alone(cell):
            algorithms += [keys.find_method(cell.method), keys.find_server_opt(cell.server_opt)]
    modules = {type(algorithm).__module__ for algorithm in algorithms}
    return code_digest("plfl.experiments.train", *modules)
