"""A study: its keys, what they mean (`StudyPlan`), and where its files are (`StudyPaths`)."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError, model_validator

from plfl import plugins
from plfl.base.errors import ConfigError, Problem, collect_problems, suggest_name
from plfl.base.text import list_names
from plfl.config.error_messages import ContradictionError, explain, read
from plfl.config.grid import Grid
from plfl.plugins.registry import ALGORITHM_PACKAGES, algorithm
from plfl.study import axes
from plfl.study.checks.channel import check_channel, check_crowds, check_sums
from plfl.study.checks.claims import check_claims
from plfl.study.checks.data import check_data, check_public
from plfl.study.checks.federation import (
    check_calibration,
    check_selection,
    check_simulation,
    check_start,
    check_weighting,
)
from plfl.study.checks.methods import check_buffers, check_combinations, check_engine, check_methods
from plfl.study.checks.privacy import check_privacy
from plfl.study.checks.schemes import (
    check_joining,
    check_names,
    check_private_schemes,
    check_sharing,
)
from plfl.study.checks.tuning import check_budgets, check_paths, check_values, check_variants
from plfl.study.checks.windows import check_covariates, check_history, check_target
from plfl.study.keys import StudyKeys
from plfl.study.paths import StudyPaths
from plfl.study.plan import Cell, StudyPlan

__all__ = ["FORMAT", "Cell", "Study"]

FORMAT = 3
"""Version of the configuration and of the tables, stored in every results folder."""


class Study(StudyKeys):
    """A study: its data, its model, its grid of cells, and how they are trained."""

    # -- reading and checking --------------------------------------------------------------------

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a study from a YAML file, or a variant of it from `FILE:VARIANT` (docs/axes.md).

        Raises:
            ConfigError: the file is missing, is not YAML, or contains errors. The message lists
                every error with its path, the value, what is allowed and the most similar name.
        """
        source, label = split_variant(path)
        problems: list[Problem] = []
        raw = read(source, problems)
        with collect_problems(problems):
            study = cls.parse(raw, source, Path(source).parent)
        if problems:
            raise ConfigError(source, problems)
        return study if label is None else study.variant(label)

    @classmethod
    def parse(cls, raw: object, source: str, folder: Path = Path()) -> Self:
        """Check `raw`, the content of a configuration from `source`; see `load`. Its plug-ins are
        imported. Their paths are relative to `folder`; those of the study that is returned are
        relative to the working directory.

        >>> import plfl
        >>> data = {"source": "sample", "states": ["NY"], "clients": 2}
        >>> grid = {"client_opt": ["adam"], "server_opt": ["fedavg"], "seeds": [1]}
        >>> study = plfl.Study.parse({"name": "mine", "data": data, "grid": grid}, "my program")
        >>> [str(cell) for cell in study.cells]
        ['NY-P1-fedopt-adam-fedavg-1', 'NY-P2-fedopt-adam-fedavg-1', 'NY-P3-fedopt-adam-fedavg-1']
        """
        if not isinstance(raw, Mapping):
            raise ConfigError(source, ["the top level must be a block of keys"])
        if {"format", "study"} <= raw.keys():
            raise ConfigError(
                source,
                [Problem("", "holds results, not a study", "name the YAML file of the study")],
            )
        raw, broken = _with_plugins(raw, folder)
        if broken:  # they may define what seems to be unknown
            raise ConfigError(source, broken)
        try:
            return cls.model_validate(raw)
        except ValidationError as error:
            raise ConfigError(source, explain(error, cls)) from None

    @classmethod
    def from_results(
        cls, raw: object, source: str, digests: Mapping[str, str] | None = None
    ) -> Self:
        """The study in a file of results. It is only data, and must not run code: ResultsError if
        it names Python files that have changed or are not trusted (`plfl.plugins.check_trust`).
        ConfigError as in `parse`."""
        plugins.check_trust(raw, source, digests)
        return cls.parse(raw, source)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with other values of some keys, unchecked."""
        copied = super().model_copy(update=update, deep=deep)
        for name in copied.__dict__.keys() - type(self).model_fields.keys():
            del copied.__dict__[name]  # computed from the values of the original
        return copied

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        """Check what must fit together. Pydantic calls this when every key is valid by itself."""
        has_axes = self.grid.model_extra or len(self.data.origin_dates) > 1
        problems = list(self._problems_of_axes() if has_axes else self._problems())
        problems = problems or list(
            check_claims(
                self.claims,
                self.grid,
                self.plan.axes,
                self.data.states,
                self.baselines,
                self.task,
            )
        )
        if problems:
            raise ContradictionError(problems)
        return self

    def _problems(self) -> Iterator[Problem]:
        """Problems of keys that do not fit each other."""
        data, windows, federation, task = self.data, self.windows, self.federation, self.task
        if unknown := list(check_names(self.grid.sharing, self.sharing, task, data)):
            yield from unknown  # all else reads what these keys name
            return
        plan = self.plan
        methods, algorithms = plan.combinations.methods, plan.combinations.algorithms
        yield from check_data(data)
        yield from task.problems(data, windows, federation)
        yield from check_selection(task, data, federation)
        yield from check_weighting(federation, algorithms)
        joining = [name for name in self.grid.sharing if name in plan.schemes.joining_schemes]
        yield from check_simulation(federation.simulation, data, joining)
        yield from check_privacy(federation, data, algorithms)
        yield from check_start(federation)
        yield from check_public(
            self.public, data, self.baselines, self.paths.public, self.public_files
        )
        yield from check_calibration(federation, task)
        yield from check_methods(methods, self.model, task, federation)
        yield from check_channel(self.channel, methods)
        if self.channel.secure:
            yield from check_sums(self.channel, federation, task, algorithms)
            late = {name: plan.schemes.joining_schemes[name] for name in joining}
            yield from check_crowds(federation, data, late)
        yield from check_covariates(windows, data)
        yield from check_target(windows, self.model)
        yield from check_engine(self.compute, self.model)
        problems_of_model = list(self.model.problems(plan.window_shape))
        yield from problems_of_model
        if not problems_of_model:
            yield from check_sharing(plan.schemes.patterns, plan.layout)
            yield from check_buffers(methods, plan.layout)
            schemes = "sharing schemes", len(self.grid.sharing)
            yield from check_combinations(self.grid, plan.refused_schemes, *schemes)
        if federation.privacy.clip is not None:
            yield from check_private_schemes(self.grid, plan.schemes.joining_schemes)
        yield from check_history(windows, data, task, federation, self.tuning)
        yield from check_joining(plan.schemes.joining_schemes, windows, federation)
        optimisers = "optimisers", len(self.grid.client_opt) * len(self.grid.server_opt)
        yield from check_combinations(self.grid, plan.combinations.refusals, *optimisers)
        yield from check_paths(self.tuning, self.grid)
        yield from check_values(self.tuning, algorithms)
        yield from check_budgets(self.tuning, plan.untuned_candidates)

    def _problems_of_axes(self) -> Iterator[Problem]:
        """Problems of the further axes, or else of the variants."""
        if problems := list(axes.problems(self.grid, self.tuning, type(self))):
            yield from problems
            return
        key_problems: dict[Problem, list[str]] = {}  # the variants that have each problem
        between_keys: dict[Problem, list[str]] = {}
        for label in self.plan.places:
            try:
                type(self).model_validate(self._raw_variant(label))
            except ValidationError as error:
                is_of_keys = any(detail["loc"] for detail in error.errors())
                for problem in explain(error, type(self)):
                    (key_problems if is_of_keys else between_keys).setdefault(problem, []).append(
                        label
                    )
        for problem, labels in (key_problems or between_keys).items():
            is_of_all = len(labels) == len(self.plan.places)
            yield problem if is_of_all else replace(problem, note=f"in {list_names(labels, 3)}")
        if not (key_problems or between_keys):
            yield from check_variants(
                {
                    v: [(c, s.plan.trains_alone(c)) for c in s.cells]
                    for v, s in self.variants.items()
                }
            )

    # -- what follows ----------------------------------------------------------------------------

    @cached_property
    def plan(self) -> StudyPlan:
        """What the keys mean."""
        return StudyPlan(self)

    @property
    def cells(self) -> list[Cell]:
        """All cells in the order of the configuration, without refused combinations. ConfigError:
        the grid has further axes, so that only its variants have cells."""
        return self.plan.cells

    @property
    def paths(self) -> StudyPaths:
        """Where the files are."""
        return StudyPaths(self.name)

    @property
    def public_files(self) -> dict[Path, list[str]]:
        """The states that train each file of public models that the study makes; none without
        `public.kind`."""
        if self.public.kind is None:
            return {}
        states = self.public.states or self.data.states
        files = {self.paths.public / f"{self.public.kind}.xz": states}
        for state in states if len(states) > 1 else ():
            others = [other for other in states if other != state]
            files[self.paths.public / f"without-{state}.xz"] = others
        return files

    @property
    def written_keys(self) -> dict[str, Any]:
        """The keys as values of JSON, without those that are not written: files of meters are read
        with what they say where no key says it, and a default would overrule them."""
        return self.model_dump(mode="json", exclude_unset=True)

    def description(self) -> dict[str, Any]:
        """The study as stored with its results, without the settings that do not affect them."""
        description = self.model_dump(
            mode="json",
            exclude={"compute": {"threads", "stack", "checkpoint_seconds"}},
            # Else keys that an axis replaces, such as those of a model, would stand there, too.
            exclude_unset=bool(self.plan.axes),
        )
        if self.data.source == "meters" and "meters" in description["data"]:
            # What no key says is what the files say: a default would overrule them.
            meters = self.data.meters.model_dump(mode="json", exclude_unset=True)
            description["data"]["meters"] = meters
        return description

    # -- variants --------------------------------------------------------------------------------

    @cached_property
    def variants(self) -> dict[str, Self]:
        """The variants of the study, by label, such as `participation=0.1,model=mlp`. A study
        without axes is its own only variant, with an empty label."""
        if not self.plan.axes:
            return {"": self}
        return {
            label: type(self).model_validate(self._raw_variant(label)) for label in self.plan.places
        }

    def _raw_variant(self, label: str) -> dict[str, Any]:
        keys = axes.keys_at(self, self.plan.axes, self.plan.places[label])
        return keys | {"name": f"{self.name}/{label}"}

    def variant(self, label: str) -> Self:
        """The variant with this label; ConfigError if there is none."""
        if label not in self.variants:
            hint = suggest_name(label, self.variants)
            labels = (
                list_names(list(self.variants), 3)
                if self.plan.axes
                else "none, as its grid has no axes"
            )
            problem = f"the study has no variant {label!r}{hint}; its variants: {labels}"
            raise ConfigError(self.name, [problem])
        return self.variants[label]

    def find(self, name: str) -> tuple[Self, Cell]:
        """The cell of this name and its study, which is a variant if the name begins with one;
        ConfigError if there is none."""
        label, slash, cell_name = name.rpartition("/")
        prefixes = [(f"{v}/" if v else "") for v in self.variants]
        if (label + slash) in prefixes:
            study = self.variants[label]
            by_name = {str(cell): cell for cell in study.cells}
            if cell_name in by_name:
                return study, by_name[cell_name]
            hint = suggest_name(cell_name, by_name)
        else:
            hint = suggest_name(label, self.variants) if self.plan.axes else ""
        problem = f"the study has no cell {name!r}{hint}; `plfl cells --list` lists them"
        raise ConfigError(self.name, [problem])

    # -- words ---------------------------------------------------------------------------------

    @property
    def client_word(self) -> str:
        """The word for a client: "meter" or "client"."""
        return "meter" if self.data.source == "meters" else "client"


def split_variant(path: str | Path) -> tuple[str, str | None]:
    """The file and the label of a variant `FILE:VARIANT`; None: it is the path of a file."""
    file, colon, label = str(path).rpartition(":")
    is_variant = bool(colon) and not Path(path).exists() and Path(file).exists()
    return (file, label) if is_variant else (str(path), None)


def _with_plugins(raw: Mapping[str, Any], folder: Path) -> tuple[Mapping[str, Any], list[Problem]]:
    """Import the plug-ins of a configuration. Returns the configuration with paths of plug-ins
    relative to the working directory, and with a block of keys for each algorithm that it uses; and
    the problems."""
    plugin_files = raw.get("plugins", [])
    if not isinstance(plugin_files, list) or not all(
        isinstance(item, str) for item in plugin_files
    ):
        return raw, []  # reported by pydantic
    files = [plugins.locate_file(Path(item), folder) for item in plugin_files]
    problems = plugins.activate(files)
    if plugin_files:
        raw = {**raw, "plugins": [file.as_posix() for file in files]}
    return raw if problems else _with_algorithms(raw, plugins.plugins_of(files)), problems


def _with_algorithms(raw: Mapping[str, Any], active: list[plugins.Plugin]) -> Mapping[str, Any]:
    """The configuration with a block of keys for each algorithm of its grid and of plug-ins, so
    that their hyperparameters stand in what is stored with results."""
    blocks, grid = raw.get("hyperparameters", {}), raw.get("grid", {})
    if not isinstance(blocks, Mapping) or not isinstance(grid, Mapping):
        return raw
    blocks = dict(blocks)
    for kind, package in ALGORITHM_PACKAGES.items():
        names = [name for item in active for room, name in item.algorithms if room == package]
        in_grid = grid.get(kind, Grid.model_fields[kind].default)
        names += [
            name
            for name in (in_grid if isinstance(in_grid, list) else [])
            if isinstance(name, str) and algorithm(package, name)
        ]
        if isinstance(block := blocks.get(kind, {}), Mapping):
            blocks[kind] = {name: {} for name in names} | dict(block)
    return {**raw, "hyperparameters": blocks}
