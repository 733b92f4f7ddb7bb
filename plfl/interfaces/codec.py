"""A codec: how the shared parameters that cross the channel become fewer bytes, as one class.

This file is all that the author of a codec has to read; docs/channel.md has an example. A codec
turns rows of float32 numbers into *fields*, arrays of numbers or of small whole numbers, and back.
plfl packs the fields into the bytes of a message, refuses impossible bytes, and adds memories.
The facts are read with the study; `fields`, `encode` and `decode` are called for each message.

A codec does not import torch, so that a study which names it is read quickly.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from plfl.base.errors import PlflError
from plfl.plugins.registry import Algorithm

Rows = NDArray[np.float32]
"""Rows (n, d) of numbers, one for each client."""
Random = Sequence[np.random.Generator]
"""One stream of random numbers for each client, the same at both ends."""
LARGEST_SENT = 1e9
"""Largest size of a number that crosses the channel."""


class CodecError(PlflError):
    """The codec cannot have sent this message."""


@dataclass(frozen=True)
class Blocks:
    """The parts of a row, each with a scale of its own."""

    lengths: tuple[int, ...]
    """Numbers of parameters; they sum to d."""

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Where the blocks start."""
        return np.cumsum([0, *self.lengths[:-1]])

    @property
    def width(self) -> int:
        """The number d of parameters."""
        return sum(self.lengths)

    def spread(self, scales: Rows) -> Rows:
        """Scales (n, blocks) as one number for each parameter, (n, d)."""
        return np.repeat(scales, self.lengths, axis=1)


@dataclass(frozen=True)
class Field:
    """A part of a message."""

    count: int
    """How many numbers it has."""
    kind: str = "<f4"
    """Their NumPy type, or `code` for whole numbers that are packed bit by bit."""
    levels: int = 0
    """Codes are whole numbers from 0 to `levels` − 1."""

    @property
    def bits(self) -> int:
        """Bits of a code."""
        return (self.levels - 1).bit_length()

    @property
    def size(self) -> int:
        """Bytes."""
        if self.kind == "code":
            return (self.count * self.bits + 7) // 8
        return self.count * np.dtype(self.kind).itemsize


class Codec(Algorithm):
    """A codec, which works in float32 and on all rows at once."""

    has_codes: ClassVar[bool] = False
    """Whether a message ends with whole numbers, which `rc` can shorten."""
    is_unbiased: ClassVar[bool] = False
    """Whether E C(v) = v without a memory, so that the mean of many clients is exact."""
    contraction: ClassVar[float | None] = None
    """α of E‖C(v) − v‖² ≤ (1 − α)‖v‖², for normal values. None if α is not positive: then no memory
    can be used."""
    largest: ClassVar[float] = LARGEST_SENT
    """Largest size of a number that it can encode."""

    @abstractmethod
    def fields(self, blocks: Blocks) -> tuple[Field, ...]:
        """The fields of a message."""

    @abstractmethod
    def encode(self, rows: Rows, blocks: Blocks, random: Random) -> list[NDArray[Any]]:
        """The fields of the rows' messages, each (n, count)."""

    @abstractmethod
    def decode(
        self, fields: list[NDArray[Any]], blocks: Blocks, random: Random, remembers: bool
    ) -> Rows:
        """The rows that the fields stand for; CodecError if this codec cannot have made them.
        `remembers`: a memory will make up for the error."""
