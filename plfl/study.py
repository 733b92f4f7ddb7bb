"""The typed configuration of a study: the only definition of its keys and the only reader of YAML.

The JSON schema for editors and the key reference in the docs are generated from these models
(`plfl schema`), so a key's docstring is its documentation.
"""

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model, model_validator

from plfl import clients, methods, servers, trace
from plfl.clients import ClientOpt
from plfl.data.features import CALENDAR, FEATURES
from plfl.errors import ConfigError
from plfl.files import sha256
from plfl.methods import Method
from plfl.methods.fedopt import FedOpt
from plfl.methods.fedprox import FedProx
from plfl.problems import allowed, explain, without
from plfl.servers import ServerOpt

FORMAT = 1
"""Version of the configuration's form; a results folder carries it, see `results.records`."""
LONGEST_NAME = 100
"""Characters that the name of a study may have."""


class Section(BaseModel):
    """A block of keys: unknown ones are refused, values never change after loading."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False
    )


class Comstock(Section):
    """Buildings of NREL's ComStock, as the public bucket lays them out."""

    release: str = Field(
        "2023/comstock_amy2018_release_1", pattern=r"^\d{4}/comstock_(amy\d{4}|tmy3)_release_\d+$"
    )
    """Release directory in the bucket. Building ids are valid for one release only."""
    upgrade: int = Field(10, ge=0, le=99)
    """Upgrade scenario; 0 is the baseline, the paper used 10, "New Windows"."""
    join: Literal["position", "utc"] = "position"
    """How hourly weather meets 15-minute load: row by row as the paper's authors did, which is off
    by one hour in IL and three in CA, or by true time."""


class Meters(Section):
    """A folder of the user's own meters: one CSV or Parquet file a meter, its name the client's."""

    folder: Path = Path("meters")
    """Folder of the files. With several states, each has a sub-folder of its name."""
    columns: dict[str, str] = {"timestamp": "timestamp", "load": "load"}
    """Which column of the files is what: `timestamp` and `load` always; `temperature` (°C),
    `wind_speed` (m/s), `floor_area` (ft²), `wall_area` and `window_area` (m²) if there are any."""
    timezone: str = "UTC"
    """IANA time zone of stamps without an offset, e.g. `America/New_York`, or a fixed one
    (`UTC`, `Etc/GMT+5`) for meters that never change their clocks."""
    interval: Literal[15, 30, 60] = 15
    """Minutes from one reading to the next."""
    stamp: Literal["end", "start"] = "end"
    """Whether a stamp marks the end or the start of its interval."""
    unit: Literal["kWh", "Wh", "kW", "W"] = "kWh"
    """Unit of the load column: energy in the interval or mean power during it."""
    max_gap: int = Field(60, ge=0)
    """Longest gap that is filled, in minutes, by a straight line between its neighbours; a longer
    one is refused."""
    allow_negative: bool = False
    """Accept negative load (a meter behind which power is generated)."""
    about: Path | None = None
    """CSV file of what else is known of the meters: `client`, the name of a meter, and columns of
    your own, of which figures know `building type` and `climate zone`; null: nothing."""


class Sample(Section):
    """Generated buildings in the ComStock layout, called sample data wherever they show."""

    seed: int = Field(2018, ge=0, lt=2**63)
    """Seed of the generator."""


class Data(Section):
    """Where the clients' series come from."""

    source: Literal["comstock", "meters", "sample"] = "comstock"
    """The public ComStock bucket, a folder of own meters, or the embedded generator."""
    folder: Path = Path("data")
    """Cache of downloaded and generated files, shared by all studies."""
    states: list[Annotated[str, Field(pattern=r"^[A-Za-z0-9_]+$")]] = Field(
        ["CA", "IL", "NY"], min_length=1
    )
    """States: one federation each. For meters any names; they are sub-folders of the meters."""
    clients: int = Field(12, ge=1)
    """Clients per state: the first ones of its list of buildings (the paper: 12 of 42)."""
    buildings: dict[str, list[Annotated[int, Field(ge=0, lt=2**63)]]] = {}
    """Own building ids per state, in order, instead of the paper's list."""
    features: list[str] = Field(list(FEATURES), min_length=1)
    """Inputs of the model, in order; `load` first. The paper uses all eight."""
    comstock: Comstock = Comstock()
    meters: Meters = Meters()
    sample: Sample = Sample()

    @property
    def interval(self) -> int:
        """Minutes from one row of the series to the next."""
        return self.meters.interval if self.source == "meters" else 15

    @property
    def inputs(self) -> list[str]:
        """The features that there are: of own meters those that a column or the calendar gives."""
        if self.source != "meters":
            return self.features
        return [name for name in self.features if name in CALENDAR or name in self.meters.columns]


class Windows(Section):
    """From series to supervised windows."""

    look_back: int = Field(12, ge=1)
    """Input rows per window, 12 of 15 minutes = 3 h (paper)."""
    look_ahead: int = Field(4, ge=1)
    """Steps from the last input row to the target, 4 of 15 minutes = 1 h (paper)."""
    split: tuple[float, float, float] = (0.8, 0.1, 0.1)
    """Shares of training, validation and test, in the order of time (paper)."""
    history: int | None = Field(None, ge=1)
    """Weeks of the training part that are kept, the latest ones; none: all of it."""
    scaling: Literal["pooled", "per_client"] = "pooled"
    """Min-max over the training parts of all clients of a state jointly (authors' code) or of each
    client alone."""


class Model(Section):
    """The forecaster: an LSTM over the look-back, an MLP over its concatenated hidden states."""

    hidden: int = Field(25, ge=1)
    """Hidden units of the LSTM (paper: 25)."""
    mlp: list[Annotated[int, Field(ge=1)]] = [150, 75]
    """Widths of the hidden layers of the MLP, each followed by a per-channel PReLU (paper)."""
    output: Literal["abs", "linear"] = "abs"
    """Absolute value of the output, as the authors' code has it, or none."""


class Grid(Section):
    """The cells: every combination of these axes in every state."""

    method: list[str] = Field(["fedopt"], min_length=1)
    """Algorithms; `fedopt` is the plain round of the paper."""
    client_opt: list[str] = Field(["adam", "adamams", "prox", "proxadam"], min_length=1)
    """Local optimisers (paper: these four)."""
    server_opt: list[str] = Field(
        ["fedavg", "fedavgadaptive", "fedadagrad", "fedadam", "fedyogi"], min_length=1
    )
    """Server optimisers (paper: these five)."""
    personalization: list[str] = Field(["P1", "P2", "P3"], min_length=1)
    """Splits of the parameters, names of `personalization` below."""
    seeds: list[Annotated[int, Field(ge=0, lt=2**63)]] = Field([10], min_length=1)
    """Seeds of initial parameters and minibatches (authors' code: 10)."""
    refused: Literal["error", "skip"] = "error"
    """What becomes of a method with optimisers that make no sense for it: an error that says why,
    or left out of the grid."""


PerClient = Annotated[float, Field(gt=0)] | list[Annotated[float, Field(gt=0)]]


class Simulation(Section):
    """Participation and time on a simulated clock: who can be reached, who drops out, how fast.

    A round takes its slowest participant's download, local steps and upload. By default every
    client that is drawn takes part, and nothing takes any time.
    """

    availability: float = Field(1.0, gt=0, le=1)
    """Probability that a client drawn for a round can be reached; else it stays away."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Probability that a participant drops out in mid-round: it uploads nothing, and its personal
    part stays as it was at the start of the round."""
    step_seconds: PerClient | None = None
    """Seconds of a local step: a number for all clients or one for each, in their order; null: it
    takes no time."""
    down_mbit: PerClient | None = None
    """Mbit/s from the server to a client: a number for all or one for each, in their order; null:
    a download takes no time."""
    up_mbit: PerClient | None = None
    """Mbit/s from a client to the server: a number for all or one for each, in their order; null:
    an upload takes no time."""
    step_spread: float = Field(0.0, ge=0)
    """Standard deviation of the logarithm of the clients' times per step around those given."""
    link_spread: float = Field(0.0, ge=0)
    """Standard deviation of the logarithm of the clients' links around those given."""
    trace: Path | None = None
    """CSV or Parquet file of who could be reached when, and how fast: `client`, from when on
    (`round` or `seconds`), and any of `available`, `step_seconds`, `down_mbit`, `up_mbit`; null:
    none. What it tells goes before the keys above."""

    @property
    def timed(self) -> bool:
        """Whether anything takes time.

        Raises:
            DataError: the trace cannot be used, see `plfl.trace.read`.
        """
        if (self.step_seconds, self.down_mbit, self.up_mbit) != (None, None, None):
            return True
        return self.trace is not None and trace.has_speeds(self.trace)

    def of(self, clients: Sequence[int]) -> Self:
        """The same for some of the clients by themselves."""
        lists = {key: value for key, value in self if isinstance(value, list)}
        chosen = {key: [values[i] for i in clients] for key, values in lists.items()}
        return self.model_copy(update=chosen)


class Federation(Section):
    """The rounds."""

    rounds: int = Field(40, ge=1)
    """Rounds, or global epochs (authors' code: 40)."""
    local_steps: int = Field(125, ge=1)
    """Minibatch steps of a client in a round (authors' code: 125)."""
    batch_size: int = Field(16, ge=1)
    """Windows in a minibatch (paper: 16)."""
    batches: Literal["draw", "epoch"] = "draw"
    """Draw each minibatch without replacement from all training windows (authors' code), or walk
    through shuffled passes."""
    participation: float = Field(1.0, gt=0, le=1)
    """Share of the clients that take part in a round (paper: all)."""
    weighting: Literal["uniform", "samples"] = "uniform"
    """Weights of the clients in the server's mean (paper: uniform)."""
    opt_state: Literal["reset", "keep", "keep_personal"] = "reset"
    """Moments of the local optimiser at the start of a round: re-created (paper), kept, or kept for
    the personal parameters alone."""
    evaluate_every: int = Field(10, ge=1)
    """Rounds from one evaluation to the next (authors' code: 10); the last is always evaluated."""
    simulation: Simulation = Simulation()


class Tuning(Section):
    """Rates of every cell, chosen on its validation part from the same grid for all.

    The combination of least validation MASE (local models, last round) is the cell's. The test part
    is never looked at.
    """

    client_lr: list[Annotated[float, Field(gt=0)]] = []
    """Client learning rates to try; none: that of the optimiser."""
    server_lr: list[Annotated[float, Field(gt=0)]] = []
    """Server learning rates to try; none: that of the optimiser."""
    mu: list[Annotated[float, Field(ge=0)]] = []
    """Strengths of the proximal term to try with the optimisers that have one and with `fedprox`;
    none: theirs."""
    halve_after: list[Annotated[float, Field(gt=0, lt=1)]] = [0.125, 0.25, 0.5]
    """Shares of the rounds after which the worse half of each cell's combinations is dropped
    (successive halving, Jamieson and Talwalkar 2016); none: all are trained in full."""


class Scarcity(Section):
    """Short histories (`plfl scarcity`): what becomes of clients that join late."""

    late: float = Field(0.0, ge=0, le=0.5)
    """Share of a state's clients that join after a federation of all others has ended and train the
    head of its last global model; by turns every client does. 0: none does."""
    head: Literal["mlp", "last"] = "mlp"
    """What they train: the whole MLP, or its last linear layer."""
    epochs: int = Field(2, ge=1)
    """Passes over their own history (FedADC+: 2), as far as `rounds` × `local_steps` go."""


class Tracking(Section):
    """MLflow."""

    enabled: bool = True
    """Log the study into an MLflow database beside its results."""
    port: int = Field(5077, ge=1, le=65535)
    """Port on 127.0.0.1 at which `make ui` serves it."""
    target_mase: float = Field(1.0, gt=0)
    """Test MASE of which the price is told: rounds, bytes and simulated seconds until the mean over
    clients is down to it. 1 is persistence."""


class Compute(Section):
    """What the study may use of the machine. Only `device` and `engine` touch the results."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where the models are trained; `auto` takes a GPU when there is one."""
    threads: int = Field(1, ge=1)
    """Processor cores per training job."""
    engine: Literal["auto", "fused", "stacked", "reference"] = "auto"
    """How models are trained: `fused` is a native kernel for the CPU, `stacked` is torch on CPU or
    GPU, `reference` the slow, obvious oracle. `auto` takes the fastest that runs here."""
    stack: Literal["personalization", "cell"] = "personalization"
    """What one training job holds: all cells of a state and personalisation, or a single one."""
    checkpoint_seconds: float = Field(20.0, ge=0)
    """Seconds from one checkpoint of a training job to the next, at least: what a kill may cost,
    beside the round in flight."""


def _options(name: str, doc: str, package: Any) -> type[Section]:
    fields = {
        key: (cls, Field(default_factory=cls, description=cls.__doc__))
        for key, cls in package.available().items()
    }
    return create_model(name, __base__=Section, __doc__=doc, **fields)  # type: ignore[call-overload, no-any-return]


ClientOpts = _options("ClientOpts", "Hyperparameters of the local optimisers.", clients)
Methods = _options("Methods", "Hyperparameters of the methods.", methods)
ServerOpts = _options("ServerOpts", "Hyperparameters of the server optimisers.", servers)


@dataclass(frozen=True)
class Candidate:
    """A choice of rates for a cell."""

    client_opt: ClientOpt
    server_opt: ServerOpt
    method: Method

    @property
    def rates(self) -> dict[str, float]:
        """The values that tuning may choose: `lr`, `server_lr`, and `mu` (0 without the term)."""
        mu = self.method.mu if isinstance(self.method, FedProx) else self.client_opt.proximal
        return {"lr": self.client_opt.lr, "server_lr": self.server_opt.lr, "mu": mu}


@dataclass(frozen=True, order=True)
class Cell:
    """One experiment of the grid: a federation of one state, trained once."""

    state: str
    personalization: str
    method: str
    client_opt: str
    server_opt: str
    seed: int

    def __str__(self) -> str:
        """The cell's name in files: `CA-P2-fedopt-adam-fedyogi-10`."""
        return "-".join(str(value) for value in astuple(self))


class Study(Section):
    """A whole study: data, model, grid of cells, and how they are trained."""

    name: str = Field("study", pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=LONGEST_NAME)
    """Name of the study: its folder in `results/` and `figures/`, its experiment in MLflow."""
    data: Data = Data()
    windows: Windows = Windows()
    model: Model = Model()
    personalization: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9_]+$")], list[str]] = {
        "P1": ["*"],
        "P2": ["lstm.*"],
        "P3": [],
    }
    """Name patterns of the shared parameters of each split; all others are personal. P1 shares all
    (federated learning), P2 the LSTM (PL-FL), P3 nothing (local training)."""
    grid: Grid = Grid()
    federation: Federation = Federation()
    tuning: Tuning = Tuning()
    scarcity: Scarcity = Scarcity()
    method: Methods = Methods()  # type: ignore[valid-type]
    client_opt: ClientOpts = ClientOpts()  # type: ignore[valid-type]
    server_opt: ServerOpts = ServerOpts()  # type: ignore[valid-type]
    tracking: Tracking = Tracking()
    compute: Compute = Compute()

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a study from a YAML file.

        Raises:
            ConfigError: the file is missing, is not YAML, or says something that cannot be; every
                error is listed with its path, the value, what is allowed and the nearest name.
        """
        return cls.parse(read(path), str(path))

    @classmethod
    def parse(cls, raw: object, source: str) -> Self:
        """Check `raw`, the content of a configuration that came from `source`; see `load`."""
        if not isinstance(raw, Mapping):
            raise ConfigError(source, ["the top level must be a block of keys"])
        try:
            return cls.model_validate(raw)
        except ValidationError as error:
            problems = explain(error, cls)
            # What hangs together across blocks is checked only once every key is valid by itself:
            # take the wrong ones out and look again, so that one reading shows everything.
            try:
                cls.model_validate(without(raw, error))
            except ValidationError as rest:
                problems += [p for p in explain(rest, cls) if p not in problems]
            raise ConfigError(source, problems) from None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        problems = list(self._problems())
        if problems:
            raise ValueError("\n".join(problems))
        return self

    def _problems(self) -> Iterator[str]:
        axes: dict[str, Iterable[str]] = {
            "method": methods.available(),
            "client_opt": clients.available(),
            "server_opt": servers.available(),
            "personalization": self.personalization,
        }
        for axis, known in axes.items():
            for value in getattr(self.grid, axis):
                if value not in known:
                    yield f"grid.{axis}: {value!r} is unknown; {allowed(value, known)}"
        for axis in (*axes, "seeds"):
            values = getattr(self.grid, axis)
            if repeated := sorted({str(v) for v in values if values.count(v) > 1}):
                yield f"grid.{axis}: {', '.join(repeated)} is there twice; name each once"
        if len(set(self.data.states)) < len(self.data.states):
            yield f"data.states: {self.data.states} names a state twice; name each once"
        yield from self._combination_problems()
        yield from self._feature_problems()
        yield from self._pattern_problems()
        yield from self._simulation_problems()
        if (halve := self.tuning.halve_after) != sorted(set(halve)):
            yield f"tuning.halve_after: {halve} must ascend"
        for key, folder in (
            ("data.folder", self.data.folder),
            ("data.meters.folder", self.data.meters.folder),
        ):
            if "\0" in str(folder):
                yield f"{key}: {str(folder)!r} cannot be a folder's name; take the NUL out of it"
        if any(share <= 0 for share in self.windows.split):
            yield f"windows.split: {self.windows.split} must be three shares above 0"
        elif abs(sum(self.windows.split) - 1) > 1e-9:
            yield f"windows.split: {self.windows.split} must add up to 1"
        for state in self.data.buildings:
            if state not in self.data.states:
                yield f"data.buildings.{state}: not one of data.states {self.data.states}"

    def _combination_problems(self) -> Iterator[str]:
        refused = self.refused
        if self.grid.refused == "error":
            for names, reason in refused.items():
                method, *optimisers = names
                yield f"grid: {method} with {' and '.join(optimisers)} makes no sense: {reason}"
            return
        pairs = len(self.grid.client_opt) * len(self.grid.server_opt)
        for method in self.grid.method:
            reasons = [reason for names, reason in refused.items() if names[0] == method]
            if len(reasons) == pairs:
                listed = "; ".join(dict.fromkeys(reasons))
                yield f"grid: {method} makes no sense with any of the optimisers: {listed}"

    @cached_property
    def refused(self) -> dict[tuple[str, str, str], str]:
        """Why a method refuses a ClientOpt and a ServerOpt, for combinations that make no sense."""
        found = {}
        grid = self.grid
        for names in itertools.product(grid.method, grid.client_opt, grid.server_opt):
            kinds = zip((self.method, self.client_opt, self.server_opt), names, strict=True)
            chosen, client, server = (getattr(kind, name, None) for kind, name in kinds)
            if chosen is None or client is None or server is None:
                continue  # an unknown name is an error of its own
            for candidate in self._candidates(client, server, chosen, alone=False):
                if reason := chosen.refuses(candidate.client_opt, candidate.server_opt):
                    found[names] = reason
                    break
        return found

    def _feature_problems(self) -> Iterator[str]:
        features = self.data.features
        for feature in features:
            if feature not in FEATURES:
                yield f"data.features: {feature!r} is unknown; {allowed(feature, FEATURES)}"
        if features[0] != "load":
            yield f"data.features: must start with 'load', starts with {features[0]!r}"
        if len(set(features)) < len(features):
            yield "data.features: a feature is there twice; name each once"
        mappable = ["timestamp", *(f for f in FEATURES if f not in CALENDAR)]
        for role in self.data.meters.columns:
            if role not in mappable:
                yield f"data.meters.columns: {role!r} is unknown; {allowed(role, mappable)}"
        columns = self.data.meters.columns
        for role, column in columns.items():
            if (first := next(r for r, c in columns.items() if c == column)) != role:
                yield (
                    f"data.meters.columns: {first!r} and {role!r} are both {column!r}; name a "
                    "column for each, or leave one out"
                )
        for role in ("timestamp", "load"):
            if role not in self.data.meters.columns:
                yield f"data.meters.columns: {role!r} is missing; name the column that holds it"

    def _pattern_problems(self) -> Iterator[str]:
        from plfl.forecaster import parameter_names

        names = parameter_names(self.model)
        for split, patterns in self.personalization.items():
            where = f"personalization.{split}"
            for pattern in patterns:
                if not any(fnmatchcase(name, pattern) for name in names):
                    yield f"{where}: {pattern!r} matches no parameter; {allowed(pattern, names)}"
            for name in names:
                hits = [pattern for pattern in patterns if fnmatchcase(name, pattern)]
                if len(hits) > 1:
                    yield f"{where}: {name!r} is matched twice, by {hits}; keep one of them"

    def _simulation_problems(self) -> Iterator[str]:
        for key, value in self.federation.simulation:
            if isinstance(value, list) and len(value) != self.data.clients:
                yield (
                    f"federation.simulation.{key}: {len(value)} numbers for {self.data.clients} "
                    "clients (data.clients); give one for each, or a single one for all"
                )

    @cached_property
    def cells(self) -> list[Cell]:
        """All cells of the study, in the order of the configuration, without refused ones."""
        grid = self.grid
        axes = (
            self.data.states,
            grid.personalization,
            grid.method,
            grid.client_opt,
            grid.server_opt,
            grid.seeds,
        )
        cells = [Cell(*values) for values in itertools.product(*axes)]
        return [
            cell
            for cell in cells
            if (cell.method, cell.client_opt, cell.server_opt) not in self.refused
        ]

    def shares_nothing(self, personalization: str) -> bool:
        """Whether the split is purely local training: no server, the same for every ServerOpt."""
        return not self.personalization[personalization]

    def chosen_method(self, cell: Cell) -> Method:
        """The method of a cell with the study's hyperparameters."""
        method: Method = getattr(self.method, cell.method)
        return method

    def client_optimiser(self, cell: Cell) -> ClientOpt:
        """The ClientOpt of a cell with the study's hyperparameters."""
        optimiser: ClientOpt = getattr(self.client_opt, cell.client_opt)
        return optimiser

    def server_optimiser(self, cell: Cell) -> ServerOpt:
        """The ServerOpt of a cell with the study's hyperparameters."""
        optimiser: ServerOpt = getattr(self.server_opt, cell.server_opt)
        return optimiser

    def candidates(self, cell: Cell) -> list[Candidate]:
        """The choices of rates that a cell is trained with."""
        return self._candidates(
            self.client_optimiser(cell),
            self.server_optimiser(cell),
            self.chosen_method(cell),
            self.is_alone(cell),
        )

    def _candidates(
        self, client: ClientOpt, server: ServerOpt, method: Method, alone: bool
    ) -> list[Candidate]:
        tuning = self.tuning
        clients, servers, methods = _varied([client], "lr", tuning.client_lr), [server], [method]
        if alone:
            # Neither the server nor a method or a term on shared parameters ever comes in.
            methods = [FedOpt()]
        else:
            servers = _varied(servers, "lr", tuning.server_lr)
            if "mu" in type(client).model_fields:
                clients = _varied(clients, "mu", tuning.mu)
            if isinstance(method, FedProx):
                methods = _varied(methods, "mu", tuning.mu)
        return [Candidate(*c) for c in itertools.product(clients, servers, methods)]

    @property
    def rungs(self) -> list[int]:
        """Rounds after which candidates are compared, the last round among them."""
        tuning, rounds = self.tuning, self.federation.rounds
        chooses = max(map(len, (tuning.client_lr, tuning.server_lr, tuning.mu))) > 1
        ends = {round(share * rounds) for share in tuning.halve_after if chooses}
        return [*sorted(ends - {0, rounds}), rounds]

    def is_alone(self, cell: Cell) -> bool:
        """Whether the clients of a cell train by themselves, so that the server never comes in."""
        return self.trains_alone(cell.personalization, cell.method)

    def trains_alone(self, personalization: str, method: str) -> bool:
        """Whether clients train by themselves in a split under a method."""
        ignores: bool = getattr(self.method, method).ignores_split
        return self.shares_nothing(personalization) and not ignores

    def repeats(self, personalization: str, method: str, client_opt: str, server_opt: str) -> bool:
        """Whether a combination is the same run as one before it, as all without a server are."""
        if not self.trains_alone(personalization, method):
            return False
        same = (
            (m, s)
            for m, s in itertools.product(self.grid.method, self.grid.server_opt)
            if self.trains_alone(personalization, m) and (m, client_opt, s) not in self.refused
        )
        return next(same) != (method, server_opt)

    def settings(self, cell: Cell) -> dict[str, Any]:
        """Everything of the configuration that fixes the numbers of `cell`, and nothing else.

        Raises:
            DataError: the trace cannot be used, see `plfl.trace.read`.
        """
        settings = {
            "cell": [cell.state, cell.seed],
            "shared": self.personalization[cell.personalization],
            "client_opt": [cell.client_opt, self.client_optimiser(cell).model_dump(mode="json")],
            "model": self.model.model_dump(mode="json"),
            "federation": self.federation.model_dump(mode="json"),
        }
        if path := self.federation.simulation.trace:
            trace.read(path)
            settings["trace"] = sha256(path)
        tuning, alone = self.tuning, self.is_alone(cell)
        if alone:
            tuning = tuning.model_copy(update={"server_lr": [], "mu": []})
        if tuning != Tuning():
            settings["tuning"] = tuning.model_dump(mode="json")
        if len(self.rungs) > 1:  # rounds that are scored besides
            settings["rungs"] = self.rungs
        if not alone:
            chosen = self.chosen_method(cell)
            server = self.server_optimiser(cell).model_dump(mode="json")
            settings["server_opt"] = [cell.server_opt, server]
            settings["method"] = [cell.method, chosen.model_dump(mode="json")]
        return settings

    @property
    def results(self) -> Path:
        """Folder of the study's tables, cells and MLflow database."""
        return Path("results") / self.name

    @property
    def figures(self) -> Path:
        """Folder of the study's figures."""
        return Path("figures") / self.name

    @property
    def is_sample(self) -> bool:
        """Whether the data are generated, which every table, title and log then says."""
        return self.data.source == "sample"


def read(path: str | Path) -> object:
    """What a YAML file holds.

    Raises:
        ConfigError: it is missing or no YAML, or a block has a key twice, of which YAML would
            forget the first.
    """
    try:
        return yaml.load(Path(path).read_text(encoding="utf-8"), _Loader)
    except FileNotFoundError:
        raise ConfigError(str(path), ["the file does not exist"]) from None
    except Exception as error:  # PyYAML lets through whatever a malformed value raises in it
        raise ConfigError(str(path), [f"cannot be read as YAML: {error}"]) from None


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in seen:
                problem = f"{key.value!r} is there twice; name it once"
                raise yaml.constructor.ConstructorError(
                    problem=problem, problem_mark=key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _varied(of: list[Any], key: str, tried: list[float]) -> list[Any]:
    """The options `of`, each with every value that is tried for a key; as they are without any."""
    return [o.model_copy(update={key: value}) for o in of for value in tried] or of


def digest(*parts: object) -> str:
    """A short fingerprint of plain data (what JSON can hold), the same on every machine."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
