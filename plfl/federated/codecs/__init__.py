"""Codecs: how the shared parameters that cross the channel become fewer bytes, one file each.

A codec turns rows of float32 numbers into *fields*, arrays of numbers or of small whole numbers,
and back. `plfl.federated.codecs.packing` turns them into the bytes of a message and refuses
impossible bytes. `plfl.federated.codecs.coder` adds memories.

The configuration imports the codecs that a study names; therefore they do not import torch.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field as Bounded

from plfl.base.errors import PlflError
from plfl.config.named import CodecRules

Rows = NDArray[np.float32]
"""Rows (n, d) of numbers, one for each client."""
Random = Sequence[np.random.Generator]
"""One stream of random numbers for each client, the same at both ends."""
LARGEST = 1e9
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


class Codec(CodecRules):
    """A codec, which works in float32 and on all rows at once."""

    largest: ClassVar[float] = LARGEST
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


class Sparse(Codec):
    """A codec that sends k of the d numbers of a row."""

    share: float = Bounded(gt=0, lt=1)
    """Share k/d of the numbers."""

    @property
    def contraction(self) -> float:  # type: ignore[override]
        return self.share

    def entries_kept(self, blocks: Blocks) -> int:
        """The number k, at least one."""
        return max(1, round(self.share * blocks.width))
