"""A study: its sections, its cells, and the settings that determine the numbers of each cell."""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    Field,
    SerializeAsAny,
    ValidationError,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)

from plfl import plugins
from plfl.base.errors import ConfigError, did_you_mean
from plfl.base.text import list_names
from plfl.config.algorithms import Hyperparameters
from plfl.config.messages import explain, read
from plfl.config.rules import DEFAULT_TASK, ChosenModel, ChosenTask, find_model, find_task
from plfl.config.sections import (
    Baselines,
    ChannelSettings,
    Claim,
    Compute,
    Data,
    FederationSettings,
    Grid,
    Patterns,
    Scheme,
    Tracking,
    Tuning,
    Windows,
)
from plfl.interfaces.method import Method
from plfl.interfaces.model import DEFAULT
from plfl.layout import ParameterLayout, WindowShape
from plfl.optimizers.client import ClientOpt
from plfl.optimizers.server import ServerOpt
from plfl.plugins.registry import KINDS, Algorithm, Section, algorithm
from plfl.study import axes, checks
from plfl.study.axes import Axis
from plfl.study.combinations import Candidate, Combinations

FORMAT = 3
"""Version of the configuration and of the tables, stored in every results folder."""
PAPER_SCHEMES: dict[str, list[str] | Scheme] = {"P1": ["*"], "P2": ["body"], "P3": []}
"""The paper's sharing schemes: share everything, the body of the model (its LSTM), nothing."""
LONGEST_NAME = 100
"""Maximum length of a study's name, in characters."""


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
    def combination(self) -> tuple[str, str, str, str]:
        """The cell without its state and seed; see `plfl.study.combinations`."""
        return self.sharing, self.method, self.client_opt, self.server_opt

    def __str__(self) -> str:
        """The name of the cell, as in file names: `CA-P2-fedopt-adam-fedyogi-10`."""
        return "-".join(str(value) for value in astuple(self))


class Study(Section):
    """A study: its data, its model, its grid of cells, and how they are trained."""

    name: str = Field(
        "study",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.+=,-]*)?$",
        max_length=LONGEST_NAME,
    )
    """Name of the study, of its folders in `results/` and `figures/`, and of its MLflow
    experiment."""
    plugins: list[Path] = []
    """Python files with your own methods, optimisers, models, baselines or figures, relative to the
    study's file (docs/add-an-algorithm.md)."""
    data: SerializeAsAny[Data] = Field(default_factory=lambda: Data.extended()())
    windows: Windows = Windows()
    task: ChosenTask = Field(default_factory=find_task(DEFAULT_TASK))
    model: ChosenModel = Field(default_factory=find_model(DEFAULT))
    sharing: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9_]+$")], Scheme | Patterns] = (
        PAPER_SCHEMES
    )
    """Sharing schemes: patterns of the parameters that go through the server; all others are
    personal. `body` and `head` are parts of the model, in the paper LSTM and MLP."""
    grid: Grid = Grid()
    federation: FederationSettings = FederationSettings()
    channel: ChannelSettings = ChannelSettings()
    tuning: Tuning = Tuning()
    baselines: Baselines = Baselines()
    claims: list[Claim] = []
    """Comparisons to judge. Their p values are corrected for their number."""
    hyperparameters: Hyperparameters = Hyperparameters()
    tracking: Tracking = Tracking()
    compute: Compute = Compute()

    # -- reading and checking --------------------------------------------------------------------

    @field_validator("data", mode="wrap")
    @classmethod
    def _with_blocks_of_plugins(cls, raw: Any, built_in: ValidatorFunctionWrapHandler) -> Any:
        block = Data.extended()
        return block.model_validate(raw) if isinstance(raw, Mapping) else built_in(raw)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a study from a YAML file, or a variant of it from `FILE:VARIANT` (docs/axes.md).

        Raises:
            ConfigError: the file is missing, is not YAML, or contains errors. The message lists
                every error with its path, the value, what is allowed and the most similar name.
        """
        file, colon, label = str(path).rpartition(":")
        if colon and not Path(path).exists() and Path(file).exists():
            return cls.parse(read(file), file, Path(file).parent).variant(label)
        return cls.parse(read(path), str(path), Path(path).parent)

    @classmethod
    def parse(cls, raw: object, source: str, folder: Path = Path()) -> Self:
        """Check `raw`, the content of a configuration from `source`; see `load`. Its plug-ins are
        imported. Their paths are relative to `folder`; those of the study that is returned are
        relative to the working directory."""
        if not isinstance(raw, Mapping):
            raise ConfigError(source, ["the top level must be a block of keys"])
        if {"format", "study"} <= raw.keys():
            raise ConfigError(
                source, ["holds results, not a study; name the YAML file of the study"]
            )
        raw, broken = _with_plugins(raw, folder)
        if broken:  # they may define what seems to be unknown
            raise ConfigError(source, broken)
        try:
            return cls.model_validate(raw)
        except ValidationError as error:
            raise ConfigError(source, explain(error, cls)) from None

    @classmethod
    def from_record(
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
    def _consistent(self) -> Self:
        """Check what must fit together. Pydantic calls this when every key is valid by itself."""
        has_axes = self.grid.model_extra or len(self.data.cuts) > 1
        problems = list(self._problems_of_axes() if has_axes else self._problems())
        problems = problems or list(
            checks.of_claims(self.claims, self.grid, self.axes, self.data.states, self.baselines)
        )
        if problems:
            raise ValueError("\n".join(problems))
        return self

    def _problems(self) -> Iterator[str]:
        """Problems of keys that do not fit each other."""
        data, windows, federation, task = self.data, self.windows, self.federation, self.task
        if unknown := list(checks.of_names(self.grid.sharing, self.sharing, task, data)):
            yield from unknown  # all else reads what these keys name
            return
        methods, algorithms = self.combinations.methods, self.combinations.algorithms
        yield from checks.of_data(data)
        yield from task.problems(data, windows, federation)
        yield from checks.of_selection(task, data, federation)
        joining = [name for name in self.grid.sharing if name in self.schemes]
        yield from checks.of_simulation(federation.simulation, data, joining)
        yield from checks.of_privacy(federation, data, algorithms)
        yield from checks.of_calibration(federation, task)
        yield from checks.of_methods(methods, self.model, task, federation)
        yield from checks.of_channel(self.channel, methods)
        yield from checks.of_covariates(windows, data)
        yield from checks.of_target(windows, self.model)
        yield from checks.of_engine(self.compute, self.model)
        yield from self.model.problems(self.window_shape)
        if self._has_layout:
            yield from checks.of_sharing(self.shared, self.layout)
            yield from checks.of_buffers(methods, self.layout)
            schemes = "sharing schemes", len(self.grid.sharing)
            yield from checks.of_combinations(self.grid, self.unshareable, *schemes)
        if federation.privacy.clip is not None:
            yield from checks.of_private_schemes(self.grid, self.schemes)
        yield from checks.of_history(windows, data, task, federation, self.tuning)
        yield from checks.of_joining(self.schemes, data, windows, federation)
        optimisers = "optimisers", len(self.grid.client_opt) * len(self.grid.server_opt)
        yield from checks.of_combinations(self.grid, self.combinations.refusals, *optimisers)
        yield from checks.of_paths(self.tuning, self.grid)
        yield from checks.of_values(self.tuning, algorithms)
        yield from checks.of_budgets(self.tuning, self.untuned)

    def _problems_of_axes(self) -> Iterator[str]:
        """Problems of the further axes, or else of the variants."""
        if problems := list(axes.problems(self.grid, self.tuning, type(self))):
            yield from problems
            return
        of_keys: dict[str, list[str]] = {}  # the variants that have each problem
        between_keys: dict[str, list[str]] = {}
        for label in self.places:
            try:
                type(self).model_validate(self._raw_variant(label))
            except ValidationError as error:
                is_of_keys = any(detail["loc"] for detail in error.errors())
                for problem in explain(error, type(self)):
                    (of_keys if is_of_keys else between_keys).setdefault(problem, []).append(label)
        for problem, labels in (of_keys or between_keys).items():
            yield (
                problem
                if len(labels) == len(self.places)
                else f"{problem} (in {list_names(labels, 3)})"
            )
        if not (of_keys or between_keys):
            yield from checks.of_variants(
                {v: [(c, s.is_alone(c)) for c in s.cells] for v, s in self.variants.items()}
            )

    # -- variants --------------------------------------------------------------------------------

    @cached_property
    def axes(self) -> list[Axis]:
        """The further axes: those that not every grid has."""
        return axes.axes(self.grid, self.data)

    @cached_property
    def places(self) -> dict[str, dict[str, str]]:
        """The place of each variant: the label on each axis, by the key of the axis."""
        return axes.variants(self.axes)

    @cached_property
    def variants(self) -> dict[str, Self]:
        """The variants of the study, by label, such as `participation=0.1,model=mlp`. A study
        without axes is its own only variant, with an empty label."""
        if not self.axes:
            return {"": self}
        return {label: type(self).model_validate(self._raw_variant(label)) for label in self.places}

    def _raw_variant(self, label: str) -> dict[str, Any]:
        return axes.keys_at(self, self.axes, self.places[label]) | {"name": f"{self.name}/{label}"}

    @cached_property
    def inputs(self) -> dict[str, str]:
        """The part of a variant's label that determines its datasets and baselines: its labels on
        the axes of `data`, `windows` and `task`, if any. Variants with the same text read the same
        files."""
        of_data = [axis.key for axis in self.axes if axis.is_of_data]
        return {
            label: axes.text({key: place[key] for key in of_data}, self.axes)
            for label, place in (self.places if self.axes else {"": {}}).items()
        }

    def variant(self, label: str) -> Self:
        """The variant with this label; ConfigError if there is none."""
        if label not in self.variants:
            hint = did_you_mean(label, self.variants)
            labels = (
                list_names(list(self.variants), 3) if self.axes else "none, as its grid has no axes"
            )
            problem = f"the study has no variant {label!r}{hint}; its variants: {labels}"
            raise ConfigError(self.name, [problem])
        return self.variants[label]

    def find(self, name: str) -> tuple[Self, Cell]:
        """The cell of this name and its study, which is a variant if the name begins with one;
        ConfigError if there is none."""
        label, slash, cell = name.rpartition("/")
        prefixes = [(f"{v}/" if v else "") for v in self.variants]
        if (label + slash) in prefixes:
            study = self.variants[label]
            by_name = {str(candidate): candidate for candidate in study.cells}
            if cell in by_name:
                return study, by_name[cell]
            hint = did_you_mean(cell, by_name)
        else:
            hint = did_you_mean(label, self.variants) if self.axes else ""
        problem = f"the study has no cell {name!r}{hint}; `plfl cells --list` lists them"
        raise ConfigError(self.name, [problem])

    # -- the model -------------------------------------------------------------------------------

    @property
    def window_shape(self) -> WindowShape:
        """The shape of what the model reads of a window and returns."""
        return self.task.window_shape(self.data, self.windows)

    @property
    def layout(self) -> ParameterLayout:
        """The parameters of the model, as columns of a row."""
        return self.model.layout(self.window_shape)

    @property
    def _has_layout(self) -> bool:
        """Whether the model can be trained on such windows."""
        return not self.model.problems(self.window_shape)

    def parameters(self, patterns: Iterable[str]) -> list[str]:
        """Names of the model's parameters that match any of the patterns, in the model's order."""
        layout = self.layout
        matching_names = {name for pattern in patterns for name in layout.matching(pattern)}
        return [name for name in layout.names if name in matching_names]

    # -- the grid --------------------------------------------------------------------------------

    @cached_property
    def combinations(self) -> Combinations:
        """The combinations of the grid."""
        return Combinations(self.grid, self.hyperparameters, self.tuning, self.shared)

    @cached_property
    def shared(self) -> dict[str, list[str]]:
        """The patterns of the shared parameters of each sharing scheme."""
        blocks = self.sharing.items()
        return {name: b.share if isinstance(b, Scheme) else b for name, b in blocks}

    @cached_property
    def schemes(self) -> dict[str, Scheme]:
        """The sharing schemes in which clients take part without training in the rounds."""
        return {name: block for name, block in self.sharing.items() if isinstance(block, Scheme)}

    def joins(self, sharing: str) -> Literal["unseen", "raw"] | None:
        """How clients take part in a sharing scheme; None: in the rounds."""
        return self.schemes[sharing].join if sharing in self.schemes else None

    @property
    def participant(self) -> str:
        """The word for a participant: "meter" or "client"."""
        return "meter" if self.data.source == "meters" else "client"

    def put_in_words(self, text: str) -> str:
        """A text about clients in the words of the study; keys stay as they are."""
        participant = self.participant
        replacements = {"client": participant, "Client": participant.capitalize()}
        return re.sub(r"(?<![.\w])([Cc]lient)(?=s?\b)", lambda match: replacements[match[1]], text)

    @property
    def federated(self) -> list[str]:
        """The sharing schemes of the grid that share parameters, but no raw data; without those
        of `for_new`."""
        shares_nothing, new_schemes = self.combinations.shares_nothing, self.for_new
        schemes = [s for s in self.grid.sharing if s not in new_schemes]
        return [s for s in schemes if not shares_nothing(s) and self.joins(s) != "raw"]

    @property
    def for_new(self) -> dict[str, int]:
        """The sharing schemes that tell what a new client can expect, with the weeks it knows."""
        schemes = {name: self.schemes[name] for name in self.grid.sharing if name in self.schemes}
        return {name: block.history for name, block in schemes.items() if block.history}

    @property
    def has_joiners(self) -> bool:
        """Whether unseen clients receive a model that was trained by other clients."""
        return any(self.joins(name) == "unseen" for name in self.grid.sharing)

    @property
    def chooses_in_history(self) -> bool:
        """Whether everything is chosen on a part of the history, see `windows.history`."""
        return not self.windows.has_validation or self.data.cut is not None

    @property
    def retrains(self) -> bool:
        """Whether the choice is trained again: on the whole history, or for fewer rounds."""
        return self.chooses_in_history or bool(self.tuning.rounds)

    @cached_property
    def unshareable(self) -> dict[tuple[str, str], str]:
        """The reasons why methods do not work with sharing schemes, by the two names."""
        rules = self.combinations.methods
        choosy = [n for n in rules if type(rules[n]).unshareable is not Method.unshareable]
        if not choosy or not self._has_layout:
            return {}
        layout, reasons = self.layout, {}
        for method, scheme in itertools.product(choosy, self.grid.sharing):
            if self.shared.get(scheme):
                shared = layout.mask(self.shared[scheme])
                if reason := rules[method].unshareable(shared, layout):
                    reasons[method, scheme] = reason
        return reasons

    @cached_property
    def cells(self) -> list[Cell]:
        """All cells in the order of the configuration, without refused combinations. ConfigError:
        the grid has further axes, so that only its variants have cells."""
        grid = self.grid
        if self.axes:
            keys = ", ".join(axis.key for axis in self.axes)
            problem = (
                f"has variants, one for each value of {keys}; name one of them, as in "
                f"FILE.yaml:{next(iter(self.places))} (docs/axes.md)"
            )
            raise ConfigError(self.name, [problem])
        algorithms = grid.method, grid.client_opt, grid.server_opt
        choices = (self.data.states, grid.sharing, *algorithms, grid.seeds)
        cells = [Cell(*values) for values in itertools.product(*choices)]
        return [
            cell
            for cell in cells
            if (cell.method, cell.client_opt, cell.server_opt) not in self.combinations.refusals
            and (cell.method, cell.sharing) not in self.unshareable
        ]

    @property
    def untuned(self) -> dict[str, tuple[Candidate, bool]]:
        """The first cell of each combination: its algorithms, and whether clients train alone."""
        untuned = self.combinations.untuned
        first = {cell.combination: cell for cell in reversed(self.cells)}
        return {str(c): (untuned(*names), self.is_alone(c)) for names, c in first.items()}

    def with_all_seeds(self, cells: Iterable[Cell]) -> list[Cell]:
        """These cells and, if they are tuned, those that differ from them only in their seeds:
        hyperparameters are chosen once for all seeds of a cell, so all its seeds train together."""
        chosen_cells = set(cells)
        tuned = {astuple(cell)[:-1] for cell in chosen_cells if self.trials(cell) > 1}
        return [cell for cell in self.cells if cell in chosen_cells or astuple(cell)[:-1] in tuned]

    # -- a cell ----------------------------------------------------------------------------------

    def is_alone(self, cell: Cell) -> bool:
        """Whether the clients of a cell train alone, without a server."""
        return self.combinations.trains_alone(cell.sharing, cell.method)

    def method(self, cell: Cell) -> Method:
        """The method of a cell with the study's hyperparameters."""
        return self.hyperparameters.of_method(cell.method)

    def client_optimiser(self, cell: Cell) -> ClientOpt:
        """The ClientOpt of a cell with the study's hyperparameters."""
        return self.hyperparameters.of_client_opt(cell.client_opt)

    def server_optimiser(self, cell: Cell) -> ServerOpt:
        """The ServerOpt of a cell with the study's hyperparameters."""
        return self.hyperparameters.of_server_opt(cell.server_opt)

    def candidates(self, cell: Cell) -> list[Candidate]:
        """The algorithms of a cell, with each choice of hyperparameters that it tries."""
        return self.combinations.candidates(*cell.combination)

    def trials(self, cell: Cell) -> int:
        """The number of trials of a cell."""
        return self.combinations.trials(*cell.combination)

    def settings(self, cell: Cell) -> dict[str, Any]:
        """The part of the configuration that determines the numbers of `cell`, and nothing else."""
        trains_alone, rounds = self.is_alone(cell), self.federation.model_dump(mode="json")
        if self.federation.privacy.clip is None or trains_alone:
            del rounds["privacy"]
        else:
            del rounds["privacy"]["delta"]
        settings = {
            "cell": [cell.state, cell.seed],
            "shared": self.parameters(self.shared[cell.sharing]),
            "client_opt": [cell.client_opt, self.client_optimiser(cell).model_dump(mode="json")],
            "model": self.model.settings,
            "federation": rounds,
        }
        if self.task.name != DEFAULT_TASK or self.task.widening != "none":
            settings["task"] = self.task.settings
        settings |= self.task.split_settings(self.data)
        if scheme := self.schemes.get(cell.sharing):
            settings["scheme"] = scheme.model_dump(mode="json", exclude_none=True)
        if self.tuning.rounds:
            settings["rounds"] = self.tuning.rounds
        if self.trials(cell) > 1:
            settings["tuning"] = [self.tuning.of(trains_alone), self.tuning.trials, self.grid.seeds]
        algorithms: list[Algorithm] = [self.client_optimiser(cell)]
        if not trains_alone:
            algorithms += [self.server_optimiser(cell), self.method(cell)]
            cell_method = self.method(cell)
            server = self.server_optimiser(cell).model_dump(mode="json")
            settings["server_opt"] = [cell.server_opt, server]
            settings["method"] = [cell.method, cell_method.model_dump(mode="json")]
            if self.channel.is_coded:
                settings["channel"] = self.channel.model_dump(mode="json")
            algorithms += self.channel.codecs
        if code := plugins.signature(*map(type, algorithms)):
            settings["plugins"] = code
        return settings

    # -- results ---------------------------------------------------------------------------------

    def description(self) -> dict[str, Any]:
        """The study as stored with its results, without the settings that do not affect them."""
        return self.model_dump(
            mode="json",
            exclude={"compute": {"threads", "stack", "checkpoint_seconds"}},
            exclude_unset=bool(self.axes),  # keys that an axis replaces, such as those of a model
        )

    @property
    def results(self) -> Path:
        """The folder of the study's tables, cells and MLflow database."""
        return Path("results") / self.name

    @property
    def root(self) -> Path:
        """The results folder of the study; for a variant, the folder of the whole study."""
        return Path("results") / self.name.split("/")[0]

    @property
    def figures(self) -> Path:
        """The folder of the study's figures."""
        return Path("figures") / self.name


def _with_plugins(raw: Mapping[str, Any], folder: Path) -> tuple[Mapping[str, Any], list[str]]:
    """Import the plug-ins of a configuration. Returns the configuration with paths of plug-ins
    relative to the working directory, and with a block of keys for each algorithm that it uses; and
    one line for each problem."""
    plugin_files = raw.get("plugins", [])
    if not isinstance(plugin_files, list) or not all(
        isinstance(item, str) for item in plugin_files
    ):
        return raw, []  # reported by pydantic
    files = [plugins.located(Path(item), folder) for item in plugin_files]
    problems = plugins.activate(files)
    if plugin_files:
        raw = {**raw, "plugins": [file.as_posix() for file in files]}
    return raw if problems else _with_algorithms(raw, plugins.active(files)), problems


def _with_algorithms(raw: Mapping[str, Any], active: list[plugins.Plugin]) -> Mapping[str, Any]:
    """The configuration with a block of keys for each algorithm of its grid and of plug-ins, so
    that their hyperparameters stand in what is stored with results."""
    blocks, grid = raw.get("hyperparameters", {}), raw.get("grid", {})
    if not isinstance(blocks, Mapping) or not isinstance(grid, Mapping):
        return raw
    blocks = dict(blocks)
    for kind, package in KINDS.items():
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
