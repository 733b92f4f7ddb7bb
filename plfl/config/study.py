"""A study: its sections, its cells, and the settings that determine the numbers of each cell."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from plfl import plugins
from plfl.config import axes, checks, search, task_rules
from plfl.config.algorithms import Hyperparameters, available
from plfl.config.axes import Axis
from plfl.config.loading import read
from plfl.config.messages import explain, without
from plfl.config.method_rules import MethodRules
from plfl.config.model_rules import DEFAULT, ChosenModel, find
from plfl.config.plugged import with_plugins
from plfl.config.search import Candidate
from plfl.config.sections import (
    IMAGES,
    Baselines,
    Compute,
    Data,
    Federation,
    Grid,
    Scarcity,
    Tracking,
    Tuning,
    Windows,
)
from plfl.config.task_rules import ChosenTask
from plfl.errors import ConfigError, DataError, did_you_mean
from plfl.files import sha256
from plfl.layout import ParameterLayout, WindowShape, image_shape
from plfl.optimizers.client import ClientOpt
from plfl.optimizers.server import ServerOpt
from plfl.registry import Algorithm, Section

FORMAT = 3
"""Version of the configuration and of the tables, stored in every results folder."""
PAPER_SCHEMES = {"P1": ["*"], "P2": ["body"], "P3": []}
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

    def __str__(self) -> str:
        """The name of the cell, as in file names: `CA-P2-fedopt-adam-fedyogi-10`."""
        return "-".join(str(value) for value in astuple(self))


class Study(Section):
    """A study: its data, its model, its grid of cells, and how they are trained."""

    name: str = Field(
        "study",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*(/[A-Za-z0-9_.+=,-]+)?$",
        max_length=LONGEST_NAME,
    )
    """Name of the study, of its folders in `results/` and `figures/`, and of its MLflow
    experiment. A variant of a study with further axes is named STUDY/VARIANT (docs/axes.md)."""
    plugins: list[Path] = []
    """Python files of your own with methods, optimisers, models, readers of meter files or figures,
    relative to the file of the study (docs/add-an-algorithm.md). Installed packages can bring
    more."""
    data: Data = Data()
    windows: Windows = Windows()
    task: ChosenTask = Field(default_factory=task_rules.find(task_rules.DEFAULT))
    model: ChosenModel = Field(default_factory=find(DEFAULT))
    sharing: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9_]+$")], list[str]] = PAPER_SCHEMES
    """Sharing schemes: for each, patterns that match the names of the parameters shared through the
    server. All other parameters are personal. `body` and `head` stand for these parts of the model.
    P1 shares all parameters (federated learning), P2 the body, in the paper the LSTM (PL-FL), P3
    none (local training)."""
    grid: Grid = Grid()
    federation: Federation = Federation()
    tuning: Tuning = Tuning()
    baselines: Baselines = Baselines()
    scarcity: Scarcity = Scarcity()
    hyperparameters: Hyperparameters = Hyperparameters()
    forecasts: Literal["week", "all"] = "week"
    """Which forecasts of the test set are kept: the first week of every cell (`week`), or also all
    forecasts of the cells whose models are kept, as `models/STATE-SHARING.forecasts.parquet`."""
    tracking: Tracking = Tracking()
    compute: Compute = Compute()

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
        """Check `raw`, the content of a configuration from `source`; see `load`.

        Its plug-ins are imported. Their paths are relative to `folder`; those of the study that is
        returned are relative to the working directory.
        """
        if not isinstance(raw, Mapping):
            raise ConfigError(source, ["the top level must be a block of keys"])
        raw, broken = with_plugins(raw, folder)
        try:
            study = cls.model_validate(raw)
        except ValidationError as error:
            problems = broken + explain(error, cls)
            raw = dict(raw)
            of_model = any(found["loc"][:1] == ("model",) for found in error.errors())
            if of_model:
                raw.pop("sharing", None)  # its patterns mean parameters of that model
            # Checks across blocks only run once every key is valid by itself. Remove the invalid
            # keys and check again, so that one message lists all errors, except those of the
            # default model, which the study does not name.
            try:
                cls.model_validate(without(raw, error))
            except ValidationError as rest:
                further = [p for p in explain(rest, cls) if p not in problems]
                problems += [p for p in further if not (of_model and p.startswith("model"))]
            raise ConfigError(source, problems) from None
        if broken:
            raise ConfigError(source, broken)
        return study

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        problems = list(self._problems_of_axes() if self.grid.model_extra else self._problems())
        if problems:
            raise ValueError("\n".join(problems))
        return self

    def _problems(self) -> Iterator[str]:
        named = list(checks.of_grid(self.grid, self.sharing))
        yield from named
        yield from checks.of_data(self.data)
        misfits = list(checks.of_task(self.task.name, self.data))
        yield from misfits
        if misfits and not self.data.is_images:
            return  # a model's outputs, on which further checks depend, follow from the images
        if self.data.is_images:
            yield from checks.of_images(self.data, self.windows, self.federation, self.tuning)
        yield from checks.of_selection(self.data, self.federation)
        yield from checks.of_local_work(self.federation)
        yield from checks.of_calibration(self.federation, self.task)
        yield from checks.of_windows(self.windows)
        yield from checks.of_context(self.windows, self.data)
        yield from checks.of_target(self.windows, self.model)
        yield from checks.of_sharing_names(self.sharing)
        broken = self.model.problems(self.window_shape)
        yield from broken
        if not broken:
            yield from checks.of_sharing(self.sharing, self.layout)
        yield from checks.of_engine(self.compute, self.model)
        yield from checks.of_unfit(self.unfit)
        yield from checks.of_simulation(self.federation.simulation, self.data.clients)
        yield from checks.of_combinations(self.grid, self.refused)
        yield from checks.of_schemes(self.grid, self.unshareable)
        yield from checks.of_paths(self.tuning, self.grid)
        if not named:
            yield from checks.of_budgets(self.tuning, self._untuned_cells)

    def _problems_of_axes(self) -> Iterator[str]:
        """Problems of the axes beside those that every grid has, then those of the variants."""
        found = list(axes.problems(self.grid, self.tuning, type(self)))
        yield from found
        if found:
            return
        of_variants: dict[str, list[str]] = {}
        for label in self.places:
            try:
                self._variant(label)
            except ValidationError as error:
                for problem in explain(error, type(self)):
                    of_variants.setdefault(problem, []).append(label)
        for problem, labels in of_variants.items():
            yield problem if len(labels) == len(self.places) else f"{problem} (in {_some(labels)})"
        if not of_variants:
            yield from checks.of_variants(
                {v: [(c, s.is_alone(c)) for c in s.cells] for v, s in self.variants.items()}
            )

    @cached_property
    def axes(self) -> list[Axis]:
        """The axes beside those that every grid has."""
        return axes.axes(self.grid)

    @cached_property
    def places(self) -> dict[str, dict[str, str]]:
        """Where each variant lies on the axes: the label on each axis, by the key of the axis."""
        return axes.variants(self.axes)

    @cached_property
    def variants(self) -> dict[str, Self]:
        """The studies that the axes span, by label, such as `participation=0.1,model=mlp`.

        A study without axes is its own only variant, with an empty label.
        """
        if not self.axes:
            return {"": self}
        return {label: self._variant(label) for label in self.places}

    def _variant(self, label: str) -> Self:
        raw = axes.at(self, self.axes, self.places[label]) | {"name": f"{self.name}/{label}"}
        return type(self).model_validate(raw)

    @cached_property
    def inputs(self) -> dict[str, str]:
        """Which datasets and baselines each variant reads: its labels on the axes of `data`,
        `windows` and `task`.

        Variants with the same text read the same ones; empty without such axes.
        """
        of_data = [axis.key for axis in self.axes if axis.is_of_data]
        return {
            label: axes.text({key: place[key] for key in of_data}, self.axes)
            for label, place in (self.places if self.axes else {"": {}}).items()
        }

    def variant(self, label: str) -> Self:
        """The variant with this label.

        Raises:
            ConfigError: there is none.
        """
        if label not in self.variants:
            hint = did_you_mean(label, self.variants)
            known = _some(list(self.variants)) if self.axes else "none, as its grid has no axes"
            problem = f"the study has no variant {label!r}{hint}; its variants: {known}"
            raise ConfigError(self.name, [problem])
        return self.variants[label]

    def find(self, name: str) -> tuple[Self, Cell]:
        """The cell of this name, with its study: the variant where the name begins with one.

        Raises:
            ConfigError: there is none.
        """
        label, slash, cell = name.rpartition("/")
        known = [(f"{v}/" if v else "") for v in self.variants]
        if (label + slash) in known:
            study = self.variants[label]
            found = {str(one): one for one in study.cells}
            if cell in found:
                return study, found[cell]
            hint = did_you_mean(cell, found)
        else:
            hint = did_you_mean(label, self.variants) if self.axes else ""
        problem = f"the study has no cell {name!r}{hint}; `plfl cells --list` lists them"
        raise ConfigError(self.name, [problem])

    @property
    def window_shape(self) -> WindowShape:
        """What the model reads of a window and returns; a window may be an image."""
        if self.data.is_images:
            return image_shape(*IMAGES[self.data.source])
        windows = self.windows
        sizes = len(self.data.inputs), windows.look_back, windows.context_width
        return WindowShape(*sizes, self.task.outputs(windows.horizons))

    @property
    def layout(self) -> ParameterLayout:
        """The parameters of the model, as columns of a row."""
        return self.model.layout(self.window_shape)

    @property
    def unfit(self) -> dict[str, str]:
        """Why methods of the grid cannot train the model, or with the settings, by method."""
        given = self.model, self.task, self.federation
        found = {
            name: self.hyperparameters.of_method(name).unfit(*given)
            for name in self.grid.method
            if self._is_known("method", name)
        }
        return {name: reason for name, reason in found.items() if reason}

    @property
    def _untuned_cells(self) -> dict[str, tuple[Candidate, bool]]:
        """The first cell of each combination: its algorithms, and whether clients train alone."""
        first = {astuple(cell)[1:-1]: cell for cell in reversed(self.cells)}
        alone = {cell: self.is_alone(cell) for cell in first.values()}
        return {
            str(cell): (
                self._untuned(cell.method, cell.client_opt, cell.server_opt, alone[cell]),
                alone[cell],
            )
            for cell in first.values()
        }

    @cached_property
    def refused(self) -> dict[tuple[str, str, str], str]:
        """The reasons why methods refuse a ClientOpt and a ServerOpt, by the three names."""
        found = {}
        grid = self.grid
        for names in itertools.product(grid.method, grid.client_opt, grid.server_opt):
            if not all(map(self._is_known, ("method", "client_opt", "server_opt"), names)):
                continue  # unknown names are reported by `checks.of_grid`
            for candidate in self._tried(names):
                method = candidate.method
                if method and (
                    reason := method.refuses(candidate.client_opt, candidate.server_opt)
                ):
                    found[names] = reason
                    break
        return found

    @cached_property
    def unshareable(self) -> dict[tuple[str, str], str]:
        """The reasons why methods do not work with sharing schemes, by the two names."""
        known = [name for name in self.grid.method if self._is_known("method", name)]
        rules = {name: self.hyperparameters.of_method(name) for name in known}
        choosy = [n for n in known if type(rules[n]).unshareable is not MethodRules.unshareable]
        if not choosy or list(self.model.problems(self.window_shape)):
            return {}
        layout, found = self.layout, {}
        for method, scheme in itertools.product(choosy, self.grid.sharing):
            if self.sharing.get(scheme):
                shared = layout.mask(self.sharing[scheme])
                if reason := rules[method].unshareable(shared, layout):
                    found[method, scheme] = reason
        return found

    def _is_known(self, kind: str, name: str) -> bool:
        return name in available(kind)

    def _tried(self, names: tuple[str, str, str]) -> list[Candidate]:
        """The combinations of values that a cell with a server and these algorithms tries."""
        untuned = self._untuned(*names)
        try:
            return search.candidates(untuned, self.tuning.search, self.tuning.trials)
        except ValueError:  # reported by `checks.of_budgets`
            return [untuned]

    @cached_property
    def cells(self) -> list[Cell]:
        """All cells in the order of the configuration, without refused combinations.

        Raises:
            ConfigError: the grid has further axes, so that only its variants have cells.
        """
        grid = self.grid
        if self.axes:
            keys = ", ".join(axis.key for axis in self.axes)
            raise ConfigError(
                self.name,
                [
                    f"has variants, one for each value of {keys}; name one of them, as in "
                    f"FILE.yaml:{next(iter(self.places))} (docs/axes.md)"
                ],
            )
        choices = (
            self.data.states,
            grid.sharing,
            grid.method,
            grid.client_opt,
            grid.server_opt,
            grid.seeds,
        )
        cells = [Cell(*values) for values in itertools.product(*choices)]
        return [
            cell
            for cell in cells
            if (cell.method, cell.client_opt, cell.server_opt) not in self.refused
            and (cell.method, cell.sharing) not in self.unshareable
        ]

    def shares_nothing(self, sharing: str) -> bool:
        """Whether a sharing scheme shares no parameter."""
        return not self.sharing[sharing]

    def parameters(self, patterns: Iterable[str]) -> list[str]:
        """Names of the model's parameters that any of the patterns means, in order."""
        layout = self.layout
        found = {name for pattern in patterns for name in layout.matching(pattern)}
        return [name for name in layout.names if name in found]

    def method(self, cell: Cell) -> MethodRules:
        """The method of a cell with the study's hyperparameters."""
        return self.hyperparameters.of_method(cell.method)

    def client_optimiser(self, cell: Cell) -> ClientOpt:
        """The ClientOpt of a cell with the study's hyperparameters."""
        return self.hyperparameters.of_client_opt(cell.client_opt)

    def server_optimiser(self, cell: Cell) -> ServerOpt:
        """The ServerOpt of a cell with the study's hyperparameters."""
        return self.hyperparameters.of_server_opt(cell.server_opt)

    def candidates(self, cell: Cell) -> list[Candidate]:
        """The combinations of hyperparameters that a cell tries."""
        alone = self.is_alone(cell)
        return search.candidates(
            self._untuned(cell.method, cell.client_opt, cell.server_opt, alone),
            self.tuning.of(alone),
            self.tuning.trials,
        )

    def trials(self, cell: Cell) -> int:
        """The number of combinations of hyperparameters that a cell tries."""
        alone = self.is_alone(cell)
        untuned = self._untuned(cell.method, cell.client_opt, cell.server_opt, alone)
        return self.tuning.trials or search.count(untuned, self.tuning.of(alone))

    def _untuned(
        self, method: str, client_opt: str, server_opt: str, alone: bool = False
    ) -> Candidate:
        """The algorithms with the study's own hyperparameters.

        Where clients train alone, the method is left out: it has no effect.
        """
        return Candidate(
            self.hyperparameters.of_client_opt(client_opt),
            self.hyperparameters.of_server_opt(server_opt),
            None if alone else self.hyperparameters.of_method(method),
        )

    @property
    def rungs(self) -> list[int]:
        """Rounds after which trials are compared, including the last round."""
        rounds = self.federation.rounds
        chooses = bool(self.tuning.search or self.tuning.alone)
        ends = {round(share * rounds) for share in self.tuning.halve_after if chooses}
        return [*sorted(ends - {0, rounds}), rounds]

    def with_all_seeds(self, cells: Iterable[Cell]) -> list[Cell]:
        """These cells and, if they are tuned, those that differ from them only in their seeds.

        Hyperparameters are chosen once for all seeds of a cell, so all its seeds train together.
        """
        wanted = set(cells)
        tuned = {astuple(cell)[:-1] for cell in wanted if self.trials(cell) > 1}
        return [cell for cell in self.cells if cell in wanted or astuple(cell)[:-1] in tuned]

    def is_alone(self, cell: Cell) -> bool:
        """Whether the clients of a cell train alone, without a server."""
        return self.trains_alone(cell.sharing, cell.method)

    def trains_alone(self, sharing: str, method: str) -> bool:
        """Whether clients train alone with a sharing scheme and a method."""
        ignores = self.hyperparameters.of_method(method).ignores_sharing
        return self.shares_nothing(sharing) and not ignores

    def repeats(self, sharing: str, method: str, client_opt: str, server_opt: str) -> bool:
        """Whether a combination repeats an earlier one, as happens without a server."""
        if not self.trains_alone(sharing, method):
            return False
        same = (
            (m, s)
            for m, s in itertools.product(self.grid.method, self.grid.server_opt)
            if self.trains_alone(sharing, m) and (m, client_opt, s) not in self.refused
        )
        return next(same) != (method, server_opt)

    def settings(self, cell: Cell) -> dict[str, Any]:
        """The part of the configuration that determines the numbers of `cell`, and nothing else.

        Raises:
            DataError: the file `federation.simulation.trace` does not exist.
        """
        settings = {
            "cell": [cell.state, cell.seed],
            "shared": self.parameters(self.sharing[cell.sharing]),
            "client_opt": [cell.client_opt, self.client_optimiser(cell).model_dump(mode="json")],
            "model": self.model.settings,
            "federation": self.federation.model_dump(mode="json"),
        }
        if path := self.federation.simulation.trace:
            settings["trace"] = _digest_of(path)
        if self.task.name != task_rules.DEFAULT or self.task.margins != "none":
            settings["task"] = self.task.settings
        if self.data.is_images:  # files hold images before they are divided
            settings["clients"] = [self.data.clients, self.data.skew.model_dump(mode="json")]
        alone = self.is_alone(cell)
        if self.trials(cell) > 1:
            settings["tuning"] = [self.tuning.of(alone), self.tuning.trials, self.grid.seeds]
        if len(self.rungs) > 1:  # these rounds are scored, too
            settings["rungs"] = self.rungs
        used: list[Algorithm] = [self.client_optimiser(cell)]
        if not alone:
            used += [self.server_optimiser(cell), self.method(cell)]
            chosen = self.method(cell)
            server = self.server_optimiser(cell).model_dump(mode="json")
            settings["server_opt"] = [cell.server_opt, server]
            settings["method"] = [cell.method, chosen.model_dump(mode="json")]
        if code := plugins.signature(*map(type, used)):
            settings["plugins"] = code
        return settings

    def description(self) -> dict[str, Any]:
        """The study as its results record it, without the settings that do not affect them."""
        return self.model_dump(
            mode="json",
            exclude={"compute": {"threads", "stack", "checkpoint_seconds"}},
            exclude_unset=bool(self.axes),  # keys that an axis replaces, as those of a model
        )

    @property
    def results(self) -> Path:
        """The folder of the study's tables, cells and MLflow database."""
        return Path("results") / self.name

    @property
    def root(self) -> Path:
        """The results folder of the study, for a variant the one of the study that it is of."""
        return Path("results") / self.name.split("/")[0]

    @property
    def figures(self) -> Path:
        """The folder of the study's figures."""
        return Path("figures") / self.name

    @property
    def is_sample(self) -> bool:
        """Whether the data are sample data, which every table, title and log must say."""
        return self.data.source == "sample"

    @property
    def sample_suffix(self) -> str:
        """What a title adds if the data are sample data; otherwise empty."""
        return " (sample data)" if self.is_sample else ""


def _some(labels: list[str], most: int = 3) -> str:
    """The first labels, and how many more there are."""
    rest = f" and {len(labels) - most} more" if len(labels) > most else ""
    return ", ".join(labels[:most]) + rest


def _digest_of(path: Path) -> str:
    try:
        return sha256(path)
    except OSError:
        raise DataError(
            f"{path}: the file does not exist; fix or remove federation.simulation.trace"
        ) from None
