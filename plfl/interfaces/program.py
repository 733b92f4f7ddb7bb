"""The parts of ONNX programs of which a baseline makes its own (`Baseline.program`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from plfl.interfaces.baseline import Arrays, Floats

ProgramPart: TypeAlias = Callable[[Any], Any]
"""Loads as a tensor, given what is known of windows; both belong to PyTorch."""


class TreeInputs(Protocol):
    """What trees may read of windows, as arrays (W, K) or as tensors."""

    @property
    def look_back(self) -> Any:
        """The loads of the look-back."""

    @property
    def changes(self) -> Any:
        """The same as changes from the last load, in the client's unit."""

    @property
    def season_changes(self) -> Any:
        """Those of the loads around one day, two days and a week before the target."""

    @property
    def level(self) -> Any:
        """The last load, as a level of the client's loads."""

    @property
    def calendar(self) -> Any:
        """The target's time of day and day of the week."""

    @property
    def covariates(self) -> Any:
        """The study's covariates."""

    @property
    def inputs(self) -> Any:
        """The study's inputs at the last row, other than the load."""

    @property
    def extra_inputs(self) -> Any:
        """The same without the calendar."""


class TreeDesign(Protocol):
    """What trees read of windows, and what they forecast."""

    @property
    def read_inputs(self) -> Callable[[TreeInputs], Sequence[Any]]:
        """Of the inputs those that the trees read, in their order."""

    @property
    def forecasts_changes(self) -> bool:
        """Whether they forecast the change from the last load, in the client's unit, instead of
        the load."""


class ProgramParts(Protocol):
    """Makes forecasters, each from what is saved for a client."""

    def past_loads(self, days: Sequence[int]) -> ProgramPart:
        """The mean of the loads some days before each target; without days the last load."""

    def loads_times(self, coefficients: Floats) -> ProgramPart:
        """The last load, and changes of the look-back times `coefficients` of `linear`."""

    def inputs_times(self, coefficients: Floats, has_lags: bool) -> ProgramPart:
        """The last load and inputs times `coefficients` of `ridge`, or of `ridge_lags`."""

    def trees(self, design: TreeDesign, arrays: Arrays, members: Sequence[str] = ()) -> ProgramPart:
        """The mean of LightGBMs of a `design`, which also read the forecasts of members."""

    def weigh(self, members: Sequence[str], weights: Floats) -> ProgramPart:
        """The sum of the forecasts of members, each times its weight."""
