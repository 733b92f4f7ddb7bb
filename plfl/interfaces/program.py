"""The parts of ONNX programs of which a baseline makes its own (`Baseline.program`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from plfl.interfaces.baseline import Arrays, Floats

ProgramPart: TypeAlias = Callable[[Any], Any]
"""Loads as a tensor, given what is known of windows; both belong to PyTorch."""


class ProgramParts(Protocol):
    """Makes forecasters, each from what is saved for a client."""

    def past_loads(self, days: Sequence[int]) -> ProgramPart:
        """The mean of the loads some days before each target; without days the last load."""

    def loads_times(self, coefficients: Floats) -> ProgramPart:
        """The last load, and changes of the look-back times `coefficients` of `linear`."""

    def inputs_times(self, coefficients: Floats, has_lags: bool) -> ProgramPart:
        """The last load and inputs times `coefficients` of `ridge`, or of `ridge_lags`."""

    def trees(self, design: str, arrays: Arrays, members: Sequence[str] = ()) -> ProgramPart:
        """The mean of LightGBMs, which read a `design` and the forecasts of members."""

    def weighted(self, members: Sequence[str], weights: Floats) -> ProgramPart:
        """The sum of the forecasts of members, each times its weight."""
