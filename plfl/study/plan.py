"""What the keys of a study mean: its cells, their candidates, and the settings that determine the
numbers of each cell."""

import itertools
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from functools import cached_property
from typing import Any

from plfl import plugins
from plfl.base.errors import ConfigError
from plfl.base.files import digest, sha256
from plfl.config.named import DEFAULT_TASK
from plfl.interfaces.terms import AddsNoise
from plfl.layout import ParameterLayout, WindowShape
from plfl.plugins.registry import Algorithm
from plfl.study import axes
from plfl.study.axes import Axis
from plfl.study.combinations import Candidate, Combination, Combinations, overrides
from plfl.study.keys import StudyKeys
from plfl.study.schemes import SharingSchemes


@dataclass(frozen=True, order=True)
class Cell:
    """One experiment of the grid: the federation of one state, trained once."""

    state: str
    sharing: str
    method: str
    client_opt: str
    server_opt: str
    seed: int

    @property
    def combination(self) -> Combination:
        """The cell without its state and seed."""
        return Combination(self.sharing, self.method, self.client_opt, self.server_opt)

    def __str__(self) -> str:
        """The name of the cell, as in file names: `CA-P2-fedopt-adam-fedyogi-10`."""
        return "-".join(str(value) for value in astuple(self))


CELL_AXES = tuple(field.name for field in fields(Cell))
"""The axes whose values make a cell: its name, columns of tables and wildcards of the workflow."""


def depends_on_seed(keys: StudyKeys, method: str) -> bool:
    """Whether the numbers of cells with this method depend on their seeds: not those of trees that
    all clients grow in every round, without noise."""
    federation, algorithm = keys.federation, keys.hyperparameters.find_method(method)
    simulation = federation.simulation
    everyone_trains = federation.participation == simulation.availability == 1
    has_noise = isinstance(algorithm, AddsNoise) and algorithm.noise > 0
    if not everyone_trains or simulation.dropout or has_noise:
        return True
    return not keys.model.grows_trees


@dataclass(frozen=True, eq=False)  # a study, which keeps its plan, is equal if its keys are
class StudyPlan:
    """What follows from the keys of a study, or of a variant."""

    keys: StudyKeys

    @cached_property
    def axes(self) -> list[Axis]:
        """The further axes: those that not every grid has."""
        return axes.axes(self.keys.grid, self.keys.data)

    @cached_property
    def places(self) -> dict[str, dict[str, str]]:
        """The place of each variant: the label on each axis, by the key of the axis."""
        return axes.variants(self.axes)

    @cached_property
    def latest_variant(self) -> str | None:
        """The variant whose models forecast; see `plfl.study.axes.latest`."""
        return axes.latest(self.places)

    @cached_property
    def data_labels(self) -> dict[str, str]:
        """The part of a variant's label that determines its datasets and baselines: its labels on
        the axes with `is_of_data`, if any. Variants with the same text read the same files."""
        data_axes = [axis.key for axis in self.axes if axis.is_of_data]
        return {
            label: axes.place_text({key: place[key] for key in data_axes}, self.axes)
            for label, place in (self.places if self.axes else {"": {}}).items()
        }

    @cached_property
    def schemes(self) -> SharingSchemes:
        """The sharing schemes."""
        return SharingSchemes(self.keys.sharing, self.keys.grid.sharing)

    @property
    def window_shape(self) -> WindowShape:
        """The shape of what the model reads of a window and returns."""
        return self.keys.task.window_shape(self.keys.data, self.keys.windows)

    @property
    def layout(self) -> ParameterLayout:
        """The parameters of the model, as columns of a row."""
        return self.keys.model.layout(self.window_shape)

    @property
    def _has_layout(self) -> bool:
        """Whether the model can be trained on such windows."""
        return not self.keys.model.problems(self.window_shape)

    def parameters(self, patterns: Iterable[str]) -> list[str]:
        """Names of the model's parameters that match any of the patterns, in the model's order."""
        layout = self.layout
        matching_names = {name for pattern in patterns for name in layout.match(pattern)}
        return [name for name in layout.names if name in matching_names]

    @cached_property
    def combinations(self) -> Combinations:
        """The combinations of the grid."""
        return Combinations(
            self.keys.grid, self.keys.hyperparameters, self.keys.tuning, self.schemes
        )

    @property
    def chooses_in_history(self) -> bool:
        """Whether everything is chosen on a part of the history, see `windows.history`."""
        return not self.keys.windows.has_validation or self.keys.data.origin_date is not None

    @property
    def retrains(self) -> bool:
        """Whether the choice is trained again: on the whole history, or for fewer rounds."""
        return self.chooses_in_history or bool(self.keys.tuning.rounds)

    @cached_property
    def refused_schemes(self) -> dict[tuple[str, str], str]:
        """The reasons why methods do not work with sharing schemes, by the two names."""
        methods = self.combinations.methods
        choosy = [name for name in methods if overrides(methods[name], "reasons_against_sharing")]
        if not choosy or not self._has_layout:
            return {}
        layout, reasons = self.layout, {}
        for method, scheme in itertools.product(choosy, self.keys.grid.sharing):
            if self.schemes.patterns.get(scheme):
                shared_mask = layout.mask(self.schemes.patterns[scheme])
                if reason := next(
                    methods[method].reasons_against_sharing(shared_mask, layout), None
                ):
                    reasons[method, scheme] = reason
        return reasons

    @cached_property
    def cells(self) -> list[Cell]:
        """All cells in the order of the configuration, without refused combinations. ConfigError:
        the grid has further axes, so that only its variants have cells."""
        grid = self.keys.grid
        if self.axes:
            keys = ", ".join(axis.key for axis in self.axes)
            problem = (
                f"has variants, one for each value of {keys}; name one of them, as in "
                f"FILE.yaml:{next(iter(self.places))} (docs/axes.md)"
            )
            raise ConfigError(self.keys.name, [problem])
        algorithms = grid.method, grid.client_opt, grid.server_opt
        choices = (self.keys.data.states, grid.sharing, *algorithms, grid.seeds)
        cells = [Cell(*values) for values in itertools.product(*choices)]
        return [
            cell
            for cell in cells
            if (cell.method, cell.client_opt, cell.server_opt) not in self.combinations.refusals
            and (cell.method, cell.sharing) not in self.refused_schemes
        ]

    @property
    def untuned_candidates(self) -> dict[str, tuple[Candidate, bool]]:
        """The first cell of each combination: its algorithms, and whether clients train alone."""
        untuned = self.combinations.untuned_candidate
        first = {cell.combination: cell for cell in reversed(self.cells)}
        return {str(c): (untuned(names), self.trains_alone(c)) for names, c in first.items()}

    def with_all_seeds(self, cells: Iterable[Cell]) -> list[Cell]:
        """These cells and, if they are tuned, those that differ from them only in their seeds:
        hyperparameters are chosen once for all seeds of a cell, so all its seeds train together."""
        chosen_cells = set(cells)
        tuned = {astuple(cell)[:-1] for cell in chosen_cells if self.count_trials(cell) > 1}
        return [cell for cell in self.cells if cell in chosen_cells or astuple(cell)[:-1] in tuned]

    def trains_alone(self, cell: Cell) -> bool:
        """Whether the clients of a cell train alone, without a server."""
        return self.combinations.trains_alone(cell.sharing, cell.method)

    def candidates(self, cell: Cell) -> list[Candidate]:
        """The algorithms of a cell, with each choice of hyperparameters that it tries."""
        return self.combinations.candidates(cell.combination)

    def count_trials(self, cell: Cell) -> int:
        """The number of trials of a cell."""
        return self.combinations.count_trials(cell.combination)

    def settings(self, cell: Cell) -> dict[str, Any]:
        """The part of the configuration that determines the numbers of `cell`, and nothing else."""
        keys, trains_alone = self.keys, self.trains_alone(cell)
        federation = keys.federation.model_dump(mode="json")
        if federation.pop("start") is not None:
            federation["start"] = self._start_digest
        if keys.federation.privacy.clip is None or trains_alone:
            del federation["privacy"]
        else:
            del federation["privacy"]["delta"]
        client_opt = keys.hyperparameters.find_client_opt(cell.client_opt)
        settings = {
            "cell": [cell.state, cell.seed],
            "shared": self.parameters(self.schemes.patterns[cell.sharing]),
            "client_opt": [cell.client_opt, client_opt.model_dump(mode="json")],
            "model": keys.model.settings,
            "federation": federation,
        }
        if keys.task.name != DEFAULT_TASK or keys.task.widening != "none":
            settings["task"] = keys.task.settings
        settings |= keys.task.split_settings(keys.data)
        if scheme := self.schemes.joining_schemes.get(cell.sharing):
            settings["scheme"] = scheme.model_dump(mode="json", exclude_none=True)
        if keys.tuning.rounds:
            settings["rounds"] = keys.tuning.rounds
        if self.count_trials(cell) > 1:
            settings["tuning"] = [
                keys.tuning.find_search(trains_alone),
                keys.tuning.trials,
                keys.grid.seeds,
            ]
        algorithms: list[Algorithm] = [client_opt]
        if not trains_alone:
            server_opt = keys.hyperparameters.find_server_opt(cell.server_opt)
            method = keys.hyperparameters.find_method(cell.method)
            settings["server_opt"] = [cell.server_opt, server_opt.model_dump(mode="json")]
            settings["method"] = [cell.method, method.model_dump(mode="json")]
            if keys.channel.is_coded or keys.channel.secure:
                unused = None if keys.channel.secure else {"secure"}
                settings["channel"] = keys.channel.model_dump(mode="json", exclude=unused)
            algorithms += [server_opt, method, *keys.channel.codecs]
        if code := plugins.algorithm_digests(*map(type, algorithms)):
            settings["plugins"] = code
        return settings

    @cached_property
    def _start_digest(self) -> str:
        """SHA-256 of the file of `federation.start`; empty if it is not there."""
        path = self.keys.federation.start
        return sha256(path) if path is not None and path.is_file() else ""

    def fingerprint(self, cell: Cell) -> str:
        """The digest of the settings of a cell: cells with the same one have the same numbers if
        they have the same examples."""
        return digest(self.settings(cell))
