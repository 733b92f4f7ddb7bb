"""The forecasters of a results folder as modules of PyTorch, which read the readings themselves.

Whatever a forecaster is, its module gets the last R readings of a meter and the time of the last
one, makes of them what `plfl.data.covariates` or `plfl.baselines` make, and returns loads in kWh.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import assert_never

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from plfl.base.errors import DataError, Problem
from plfl.base.keys import Key
from plfl.base.minutes import MINUTES_PER_DAY, MINUTES_PER_WEEK
from plfl.baselines import features as designs
from plfl.baselines.fitting import RESIDUALS
from plfl.baselines.trees import texts_of
from plfl.config.windows import Calendar, Encoding, Holidays, KnownFuture, Lags, Level, Transform
from plfl.data.arrays import arrays_under
from plfl.data.covariates import EncodingColumns, LagColumns
from plfl.data.features import SMALLEST, time_of_day, weekday
from plfl.data.windows import Scaling
from plfl.federated.tree_growth import Tree
from plfl.forecast.contents import Contents
from plfl.forecast.networks import module_of
from plfl.interfaces.baseline import Arrays, Floats
from plfl.interfaces.program import TreeDesign
from plfl.models.trees import Group
from plfl.networks.network import run_module
from plfl.training.tree_kernel import fields_of_text


@dataclass(frozen=True)
class PastReadings:
    """What a forecaster knows of B windows: their readings, and when the last one was taken."""

    model: Contents
    loads: Tensor
    """Loads (B, R) in kWh per interval, float64; NaN where they are unknown."""
    scaled_readings: Tensor
    """The readings (B, R, F) as float32, scaled as in training."""
    later: Tensor
    """The same of the rows after them, up to the last target, if some are known in advance."""
    minute: Tensor
    """Minutes (B,) since Monday 00:00 of the last reading, whole numbers."""

    @property
    def last(self) -> Tensor:
        """The last loads (B, 1)."""
        return self.loads[:, -1:]

    @property
    def look_back(self) -> Tensor:
        """The loads (B, T) of the look-back."""
        return self.loads[:, -self.model.study.windows.look_back :]

    def shift(self, steps: Sequence[int]) -> Tensor:
        """The loads (B, K) these numbers of rows before the last one; NaN if they are unknown."""
        end = self.loads.shape[1] - 1
        is_inside = [0 <= n <= end for n in steps]
        places = [
            end - n if is_known else end for n, is_known in zip(steps, is_inside, strict=True)
        ]
        return torch.where(torch.tensor(is_inside), self.loads[:, places], torch.nan)

    def back_or_last(self, steps: Sequence[int]) -> Tensor:
        """As `shift`, with the last load instead of those that are unknown."""
        loads = self.shift(steps)
        return torch.where(loads.isnan(), self.last, loads)

    @property
    def lead_rows(self) -> list[int]:
        """Rows from the last one to each target."""
        windows = self.model.study.windows
        return [windows.look_ahead + h for h in range(windows.horizons)]

    def calendar(self, harmonics: int) -> Tensor:
        """The targets' times of day and days of the week (B, H, 2 · harmonics + 7)."""
        monday = np.datetime64("2024-01-01", "m")
        times = time_of_day(monday + np.arange(MINUTES_PER_DAY), harmonics)
        days = weekday(monday + MINUTES_PER_DAY * np.arange(7))
        minutes = torch.tensor([rows * self.model.interval for rows in self.lead_rows])
        minute_of_week = (self.minute[:, None] + minutes) % MINUTES_PER_WEEK
        return torch.cat(
            [
                torch.from_numpy(times)[minute_of_week % MINUTES_PER_DAY],
                torch.from_numpy(days)[minute_of_week // MINUTES_PER_DAY],
            ],
            2,
        )

    def inputs(self, names: Sequence[str]) -> Tensor:
        """Scaled inputs (B, K) at the last row, as float64."""
        return self.scaled_readings[
            :, -1, [self.model.columns.index(name) for name in names]
        ].double()

    @property
    def extra_inputs(self) -> Tensor:
        """The scaled inputs (B, K) other than the load and the calendar."""
        return self.inputs(designs.further_of(self.model.columns))

    @property
    def season_lags(self) -> Tensor:
        """The loads (B, H, 15) of `plfl.baselines.features.season_lags`."""
        season_rows = [season // self.model.interval for season in designs.SEASON_MINUTES]
        steps = [
            n - a - lead
            for lead in self.lead_rows
            for n in season_rows
            for a in designs.STEPS_AROUND
        ]
        return self.back_or_last(steps).reshape(
            -1, len(self.lead_rows), len(steps) // len(self.lead_rows)
        )

    def for_each(self, values: Tensor) -> Tensor:
        """Values (B, K) that are the same for all targets (B, H, K)."""
        return values[:, None].expand(-1, len(self.lead_rows), -1)

    def covariates(self, scaling: Scaling) -> Tensor:
        """The covariates (B, G) of `plfl.data.covariates`, as float32."""
        transforms = self.model.study.windows.covariates
        parts = [
            self._transform(transform, torch.from_numpy(estimates), scaling).float()
            for transform, estimates in zip(transforms, scaling.covariates, strict=True)
        ]
        return torch.cat(parts, 1) if parts else self.scaled_readings[:, 0, :0]

    def _transform(self, transform: Transform, estimates: Tensor, scaling: Scaling) -> Tensor:
        windows = self.model.study.windows
        match transform:
            case Lags():
                steps = LagColumns(transform, windows).list_steps(self.model.interval)
                zero = self.last if windows.is_relative else torch.from_numpy(scaling.offset[:1])
                return (self.back_or_last(steps) - zero) / torch.from_numpy(scaling.scale[:1])
            case Level():
                return level(estimates, self.last)
            case Calendar():
                return self.calendar(transform.harmonics)[:, 0]
            case Encoding():
                earlier = self.back_or_last(EncodingColumns(transform, windows).steps)
                numbers = torch.cat([self.last, self.last - earlier], 1)
                above, width = numbers[:, :, None] - estimates[:, :-1], estimates.diff(dim=1)
                ramps = (above / torch.where(width > 0, width, 1)).clamp(0, 1)
                return torch.where(width > 0, ramps, (above > 0).double()).flatten(1)
            case Holidays():
                raise DataError(
                    Problem(
                        Key("windows.covariates"),
                        "holidays: a program knows the day of the week but not the date",
                        "use `plfl forecast`, or choose a forecaster that reads no covariates, "
                        "--with NAME",
                    )
                )
            case KnownFuture():
                columns = [self.model.columns.index(name) for name in transform.features]
                first = windows.look_ahead - 1
                rows = self.later[:, first : first + windows.horizons]
                return rows[:, :, columns].flatten(1)
            case _:
                assert_never(transform)


def level(unit: Tensor, loads: Tensor) -> Tensor:
    """`Unit.level` of loads (B, 1), given the numbers of the unit as a tensor: in an exported
    program, a number of Python would have single precision."""
    share = (loads / unit[1]).clamp(min=SMALLEST)
    return torch.cat([(loads - unit[1]) / unit[2], share.log()], 1)


class Program(nn.Module):
    """The forecaster of a client with all that it makes of readings."""

    offset: Tensor
    scale: Tensor

    def __init__(
        self,
        model: Contents,
        scaling: Scaling,
        forecaster: Callable[[PastReadings], Tensor],
        row_count: int,
        widths: NDArray[np.float64] | None = None,
    ):
        """`row_count`: the readings until the last one; `widths`: in units of the scaled load."""
        super().__init__()
        self.model, self.forecaster, self.row_count = model, forecaster, row_count
        self.widths = None if widths is None else torch.from_numpy(widths * scaling.scale[0])
        self.register_buffer("offset", torch.from_numpy(scaling.offset))
        self.register_buffer("scale", torch.from_numpy(scaling.scale))

    def forward(self, readings: Tensor, minute: Tensor) -> Tensor:
        """Loads in kWh per interval (B,), or (B, H) of several targets; quantiles (B, H, Q).
        The readings (B, R, F) are float64, in the units of the data; see `PastReadings` for the
        minute."""
        scaled = ((readings - self.offset) / self.scale).float()
        read_count = self.row_count
        past_readings = PastReadings(
            self.model,
            readings[:, :read_count, 0],
            scaled[:, :read_count],
            scaled[:, read_count:],
            minute,
        )
        return self.model.study.task.export(self.forecaster(past_readings), self.widths)


class ScaledNetwork(nn.Module):
    """A network with its scaling."""

    def __init__(self, model: Contents, scaling: Scaling, module: nn.Module):
        super().__init__()
        windows = model.study.windows
        self.module, self.relative = module, windows.is_relative
        self.look_back, self.shape = windows.look_back, model.study.plan.window_shape
        self.scaling = scaling

    def forward(self, past_readings: PastReadings) -> Tensor:
        """Loads (B,), or (B, O) of several outputs."""
        sequence = past_readings.scaled_readings[:, -self.look_back :]
        if self.relative:
            load = sequence[:, :, :1] - sequence[:, -1:, :1]
            sequence = torch.cat([load, sequence[:, :, 1:]], 2)
        inputs = sequence, past_readings.covariates(self.scaling)
        outputs: Tensor = run_module(self.module, self.shape, *inputs).double()
        loads = torch.from_numpy(self.scaling.scale[:1]) * outputs
        if not self.relative:
            return torch.from_numpy(self.scaling.offset[:1]) + loads
        return (past_readings.last if outputs.dim() > 1 else past_readings.last[:, 0]) + loads


@dataclass(frozen=True)
class TensorInputs:
    """The `TreeInputs` (B, H, K) of windows."""

    past_readings: PastReadings
    unit: Tensor
    scaling: Scaling

    def _for_each(self, values: Tensor) -> Tensor:
        return self.past_readings.for_each(values)

    @property
    def look_back(self) -> Tensor:
        return self._for_each(self.past_readings.look_back)

    @property
    def changes(self) -> Tensor:
        last = self.past_readings.last
        return self._for_each((self.past_readings.look_back - last) / self.unit[0])

    @property
    def season_changes(self) -> Tensor:
        last = self.past_readings.last[:, None]
        return (self.past_readings.season_lags - last) / self.unit[0]

    @property
    def level(self) -> Tensor:
        return self._for_each(level(self.unit, self.past_readings.last))

    @property
    def calendar(self) -> Tensor:
        return self.past_readings.calendar(4)

    @property
    def covariates(self) -> Tensor:
        return self._for_each(self.past_readings.covariates(self.scaling).double())

    @property
    def inputs(self) -> Tensor:
        return self._for_each(self.past_readings.inputs(self.past_readings.model.columns[1:]))

    @property
    def extra_inputs(self) -> Tensor:
        return self._for_each(self.past_readings.extra_inputs)


class Boosters(nn.Module):
    """LightGBM's trees with what they read; the mean, if there are several models."""

    def __init__(
        self,
        design: TreeDesign,
        model: Contents,
        stored_arrays: Arrays,
        scaling: Scaling,
        received_forecasters: Sequence[Callable[[PastReadings], Tensor]] = (),
    ):
        """`received_forecasters`: forecasts that they read, too."""
        super().__init__()
        self.design, self.scaling = design, scaling
        self.received, self.known = received_forecasters, _modules(received_forecasters)
        self.levels = len(model.study.task.quantile_levels) or 1
        self.unit = torch.from_numpy(stored_arrays["unit"])
        texts = texts_of(stored_arrays)
        if not texts:
            raise DataError(
                Problem(
                    model.baseline,
                    "no other meter has trained a model for this one",
                    "choose another forecaster with --with",
                )
            )
        trees = [list(map(Tree.read, fields_of_text(text)[1:])) for text in texts]
        sizes = [len(tree.value) for output in trees for tree in output]
        self.trees = Group(len(texts), max(map(len, trees)), max(2, *sizes)).double()
        for o, output in enumerate(trees):
            for t, tree in enumerate(output):
                for key, values in tree._asdict().items():
                    table = getattr(self.trees, key).data
                    table[o, t, : len(values)] = torch.from_numpy(values)

    def forward(self, past_readings: PastReadings) -> Tensor:
        """Loads (B,), or (B, H) of several targets; quantiles (B, H, Q)."""
        inputs, horizons = self._features(past_readings), len(past_readings.lead_rows)
        if horizons > 1:
            number = torch.arange(horizons, dtype=inputs.dtype)[:, None]
            inputs = torch.cat([number.expand(inputs.shape[0], -1, -1), inputs], 2)
        loads = self.trees(inputs.flatten(0, 1)).unflatten(0, (-1, horizons))
        if self.design.forecasts_changes:
            loads = past_readings.last[:, None] + self.unit[0] * loads
        loads = loads.unflatten(2, (-1, self.levels)).sort(-1).values.mean(2)
        return one_target(loads[..., 0]) if self.levels == 1 else loads

    def _features(self, past_readings: PastReadings) -> Tensor:
        """What trees read of windows (B, H, K)."""
        parts = [*self.design.read_inputs(TensorInputs(past_readings, self.unit, self.scaling))]
        for forecaster in self.received:
            loads = forecaster(past_readings).reshape(
                past_readings.loads.shape[0], len(past_readings.lead_rows), -1
            )
            parts.append((loads - past_readings.last[:, None]) / self.unit[0])
        return torch.cat(parts, 2)


class WeightedSum(nn.Module):
    """The weighted sum of forecasters."""

    def __init__(self, parts: Sequence[Callable[[PastReadings], Tensor]], weights: list[float]):
        super().__init__()
        self.parts, self.known = parts, _modules(parts)
        # In an exported program, numbers of Python would have single precision.
        self.weights = torch.tensor(weights, dtype=torch.float64)

    def forward(self, past_readings: PastReadings) -> Tensor:
        """Loads as those of the forecasters."""
        pairs = zip(self.parts, self.weights, strict=True)
        return torch.stack([weight * part(past_readings) for part, weight in pairs]).sum(0)


def _modules(forecasters: Sequence[Callable[[PastReadings], Tensor]]) -> nn.ModuleList:
    """Those that are modules, so that they become parts of another one."""
    return nn.ModuleList(part for part in forecasters if isinstance(part, nn.Module))


def one_target(loads: Tensor) -> Tensor:
    """Loads (B, H), or (B,) of a single target."""
    return loads[:, 0] if loads.shape[1] == 1 else loads


def past_loads(days: Sequence[int], past_readings: PastReadings) -> Tensor:
    """The loads of `plfl.baselines.naive.PastLoads`, (B,) or (B, H)."""
    seasons = [number * MINUTES_PER_DAY // past_readings.model.interval for number in days]
    season_loads = [_season(past_readings, season) for season in seasons] or [
        past_readings.for_each(past_readings.last)[..., 0]
    ]
    return one_target(torch.stack(season_loads).mean(0))


def _season(past_readings: PastReadings, season: int) -> Tensor:
    """The loads (B, H) of `plfl.baselines.naive.last_season`."""
    steps = [season - lead for lead in past_readings.lead_rows]
    loads = past_readings.shift(steps)
    for earlier_season in range(season, past_readings.loads.shape[1], season):
        earlier = past_readings.shift([n + earlier_season if n >= 0 else -1 for n in steps])
        loads = torch.where(loads.isnan(), earlier, loads)
    return loads


def loads_times(coefficients: Tensor, past_readings: PastReadings) -> Tensor:
    """The forecasts of `plfl.baselines.linear.LeastSquares`, (B,) or (B, H)."""
    changes = past_readings.look_back[:, :-1] - past_readings.last
    coefficients = coefficients.reshape(len(coefficients), -1)
    return one_target(past_readings.last + coefficients[0] + changes @ coefficients[1:])


def inputs_times(coefficients: Tensor, has_lags: bool, past_readings: PastReadings) -> Tensor:
    """The forecasts of `plfl.baselines.ridge.Regression`, (B,) or (B, H)."""
    means, weights = coefficients[:, 1:].unflatten(1, (2, -1)).unbind(1)
    parts = [
        past_readings.for_each(past_readings.look_back),
        past_readings.calendar(1),
        past_readings.for_each(past_readings.extra_inputs),
    ]
    inputs = torch.cat(parts + [past_readings.season_lags] * has_lags, 2)
    moved = coefficients[:, 0] + ((inputs[..., : weights.shape[1]] - means) * weights).sum(2)
    return one_target(past_readings.last + moved)


@dataclass(frozen=True)
class BaselineParts:
    """The `ProgramParts` of a client's saved baseline."""

    model: Contents
    scaling: Scaling
    arrays: Arrays
    """What is saved of the baseline and of those that it needs."""

    def past_loads(self, days: Sequence[int]) -> Callable[[PastReadings], Tensor]:
        """See `ProgramParts`, as for the others."""
        return partial(past_loads, days)

    def loads_times(self, coefficients: Floats) -> Callable[[PastReadings], Tensor]:
        return partial(loads_times, torch.from_numpy(coefficients))

    def inputs_times(
        self, coefficients: Floats, has_lags: bool
    ) -> Callable[[PastReadings], Tensor]:
        return partial(inputs_times, torch.from_numpy(coefficients), has_lags)

    def trees(
        self, design: TreeDesign, arrays: Arrays, members: Sequence[str] = ()
    ) -> Callable[[PastReadings], Tensor]:
        received = [self._member(name) for name in members]
        return Boosters(design, self.model, arrays, self.scaling, received)

    def weigh(self, members: Sequence[str], weights: Floats) -> Callable[[PastReadings], Tensor]:
        pairs = [pair for pair in zip(members, weights.tolist(), strict=True) if pair[1]]
        return WeightedSum([self._member(name) for name, _ in pairs], [w for _, w in pairs])

    def _member(self, name: str) -> Callable[[PastReadings], Tensor]:
        return replace(self, arrays=arrays_under(self.arrays, name)).forecaster(name)

    def forecaster(self, name: str) -> Callable[[PastReadings], Tensor]:
        """The forecaster of the baseline with this name, whose arrays these are.

        Raises:
            DataError: it cannot be exported.
        """
        baseline = self.model.study.baselines.find(name)
        forecaster = baseline.program(self.arrays, self)
        if forecaster is None:
            raise DataError(
                Problem(
                    name,
                    "cannot become a program",
                    "use `plfl forecast`, or choose another forecaster with --with",
                )
            )
        if RESIDUALS not in self.arrays:
            return forecaster
        residuals = torch.from_numpy(self.arrays[RESIDUALS])
        horizons = self.model.study.windows.horizons
        return lambda past: forecaster(past).reshape(-1, horizons, 1) + residuals


def baseline_forecaster(model: Contents, client: str) -> Callable[[PastReadings], Tensor]:
    """The forecaster of a client by a stored baseline."""
    parts = BaselineParts(model, model.scalings[client], model.fitted_arrays[client])
    return parts.forecaster(model.baseline)


def program_of(
    model: Contents,
    client: str,
    row: NDArray[np.float32] | None,
    row_count: int,
    widths: NDArray[np.float64] | None,
) -> Program:
    """The program of a client's forecaster, which reads `row_count` rows. `row`: the parameters
    (P,) of its network; None: it is a baseline. `widths`: of its intervals, if they have any."""
    scaling = model.scalings[client]
    if row is None:
        return Program(model, scaling, baseline_forecaster(model, client), row_count, widths).eval()
    network = ScaledNetwork(model, scaling, module_of(model.study, row))
    return Program(model, scaling, network, row_count, widths).eval()
