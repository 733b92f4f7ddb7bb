"""A pretrained forecaster in a file: a model of somebody else, as it is, without any training.

The file is a program for ONNX runtimes (`.onnx`) or a TorchScript module (`.pt`). It maps `loads`,
float32 (W, C): the last C loads of W windows in kWh per interval, oldest first, to the next S loads
(W, S), where S is at least the number of intervals to the last target. Scaling is up to the file.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from plfl.base.errors import DataError, Problem
from plfl.base.extras import require
from plfl.base.keys import Key
from plfl.base.lazy import torch
from plfl.data.dataset import Dataset
from plfl.interfaces.baseline import Arrays, Baseline, FitSettings, FittedBaseline, Floats, Starts

FEWEST_LOADS = 8
"""The least number of known readings among the last C of a window that gets a forecast."""
WINDOWS_PER_BATCH = 256
"""Windows that are forecast at once."""
LoadForecaster = Callable[[Floats, int], Floats]
"""Given the last loads (W, C), NaN where unknown, and S: the next S loads (W, S), or their
quantiles (W, S, Q)."""


class PretrainedElsewhere(Baseline):
    """What baselines have in common that were trained elsewhere: there is nothing to train or to
    keep, and a new meter gets what all others have."""

    needs_training: ClassVar[bool] = False

    trained_on_this_dataset: bool
    """Whether its training data contain these series. Then it does not count."""

    @property
    def reach(self) -> int:
        return 0

    @property
    def is_received(self) -> bool:
        return True

    @property
    def has_seen_the_data(self) -> bool:
        return self.trained_on_this_dataset

    def restore(
        self,
        arrays: Arrays,
        dataset: Dataset,
        settings: FitSettings,
        members: Mapping[str, FittedBaseline],
    ) -> FittedBaseline:
        return self.fit(dataset, settings, members)

    def adopt(self, arrays: Arrays, dataset: Dataset, settings: FitSettings) -> FittedBaseline:
        return self.fit(dataset, settings, {})


class Pretrained(PretrainedElsewhere):
    """A pretrained forecaster in a file. It reads the loads of a client and nothing else."""

    name: ClassVar[str] = "pretrained"
    label: ClassVar[str] = "Pretrained model"
    about: ClassVar[str] = "A forecaster in a file, trained elsewhere: ONNX or TorchScript."

    file: Path
    """The program, `.onnx` or `.pt`."""
    context: int
    """C, the number of loads that it reads."""
    fill: bool = False
    """Whether an unknown load is replaced by the one before, or else by the first known one;
    otherwise it is NaN."""

    def count_context(self, interval: int) -> int:
        return self.context

    def fit(
        self, dataset: Dataset, settings: FitSettings, members: Mapping[str, FittedBaseline]
    ) -> FittedBaseline:
        readers = {".onnx": _load_onnx, ".pt": _load_torchscript}
        if self.file.suffix not in readers:
            raise DataError(
                Problem(
                    Key("baselines.further"),
                    f"pretrained: {self.file} ends neither in .onnx nor in .pt",
                    "export the model as one of them",
                )
            )
        if not self.file.is_file():
            raise DataError(
                Problem(
                    Key("baselines.further"),
                    f"pretrained: {self.file} does not exist",
                    "check `file`",
                )
            )
        forecasts = readers[self.file.suffix](self.file)
        return PretrainedFit(dataset, forecasts, self.context, (), (), self.fill)


@dataclass(frozen=True)
class PretrainedFit(FittedBaseline):
    """A pretrained model with the readings of the clients."""

    dataset: Dataset
    forecasts: LoadForecaster
    context: int
    """C, the number of loads that the model reads."""
    model_levels: tuple[float, ...]
    """The levels of the model's quantiles, ascending; empty: it has a single forecast."""
    levels: tuple[float, ...]
    """The levels to forecast; empty: the median, or the single forecast."""
    fill: bool = False

    def predict(self, client: int, starts: Starts) -> Floats:
        """Forecasts; a level that the model does not have gets its quantile of the nearest ones,
        interpolated. NaN where fewer than `FEWEST_LOADS` loads are known."""
        dataset = self.dataset
        steps = dataset.look_ahead + dataset.horizons - 1
        loads = self._last_loads(client, starts)
        usable = np.flatnonzero(np.isfinite(loads).sum(axis=1) >= FEWEST_LOADS)
        if self.fill:
            loads[usable] = _fill_gaps(loads[usable])
        levels = self.levels or ((0.5,) if self.model_levels else ())
        shape = (len(starts), dataset.horizons, *([len(levels)] if levels else []))
        outputs = np.full(shape, np.nan)
        for begin in range(0, len(usable), WINDOWS_PER_BATCH):
            windows = usable[begin : begin + WINDOWS_PER_BATCH]
            blocks = self.forecasts(loads[windows], steps)[:, dataset.look_ahead - 1 :]
            outputs[windows] = _at_levels(blocks, self.model_levels, levels)
        return outputs if self.levels else outputs.reshape(dataset.truth(starts).shape)

    def _last_loads(self, client: int, starts: Starts) -> Floats:
        """The last C loads (W, C) that windows know, NaN before the first reading."""
        first = int(self.dataset.view.bounds[client, 0])
        row_numbers = self.dataset.persistence_rows(starts)[:, None] - np.arange(self.context)[::-1]
        return np.where(
            row_numbers >= first, self.dataset.load[np.maximum(row_numbers, first)], np.nan
        )


def _at_levels(
    blocks: Floats, model_levels: tuple[float, ...], levels: tuple[float, ...]
) -> Floats:
    """Quantiles (W, H, Q) at levels, given those of a model; a single forecast stays (W, H)."""
    if not model_levels:
        return blocks
    flat = blocks.reshape(-1, len(model_levels))
    at_levels = np.array([np.interp(levels, model_levels, row) for row in flat])
    return at_levels.reshape(*blocks.shape[:2], len(levels))


def _fill_gaps(loads: Floats) -> Floats:
    """Rows of loads without gaps: each gets the load before it, or else the first known one."""
    is_known = np.isfinite(loads)
    row_numbers = np.arange(len(loads))[:, None]
    earlier_places = np.maximum.accumulate(
        np.where(is_known, np.arange(loads.shape[1]), -1), axis=1
    )
    return loads[
        row_numbers, np.where(earlier_places < 0, is_known.argmax(axis=1)[:, None], earlier_places)
    ]


def _load_onnx(path: Path) -> LoadForecaster:
    require("pretrained", "a pretrained model in a .onnx file")
    import onnxruntime

    try:
        program = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has no common class of errors
        raise DataError(Problem(path, f"cannot be read as an ONNX program: {error}")) from None
    inputs = [node.name for node in program.get_inputs()]
    if len(inputs) != 1:
        raise DataError(
            Problem(
                path,
                f"has the inputs {', '.join(inputs)}, but is given only the last loads",
                "export it with one input",
            )
        )

    def forecasts(loads: Floats, steps: int) -> Floats:
        return _check_output(
            path, program.run(None, {inputs[0]: loads.astype("f4")})[0], loads, steps
        )

    return forecasts


def _load_torchscript(path: Path) -> LoadForecaster:
    try:
        module = torch.jit.load(str(path), map_location="cpu").eval()
    except (RuntimeError, ValueError) as error:
        raise DataError(Problem(path, f"cannot be read as a TorchScript module: {error}")) from None

    def forecasts(loads: Floats, steps: int) -> Floats:
        with torch.no_grad():
            output = module(torch.from_numpy(loads.astype("f4"))).numpy()
        return _check_output(path, output, loads, steps)

    return forecasts


def _check_output(path: Path, output: Floats, loads: Floats, steps: int) -> Floats:
    """The first steps (W, S) of the output of a model; DataError if it has fewer."""
    if output.ndim != 2 or output.shape[0] != len(loads) or output.shape[1] < steps:
        raise DataError(
            Problem(
                path,
                f"returns {output.shape} for {loads.shape} loads",
                f"export it with {steps} or more forecasts for each row of loads, one for each "
                "interval to the last target",
            )
        )
    return output[:, :steps].astype(float)
