"""The k largest numbers of a row where `top` finds them, each in 8 bits as in `q8`; one scale."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field as Bounded

from plfl.federated.codecs import Blocks, Codec, Field, Random, Rows, kept_of
from plfl.federated.codecs.q import Quantised
from plfl.federated.codecs.top import index, index_field, largest, placed


class QuantisedTop(Codec):
    """The largest numbers as bytes."""

    name = "topq"
    has_codes = True

    share: float = Bounded(gt=0, lt=1)
    """Share k/d of the numbers."""

    @property
    def contraction(self) -> float:
        return self.share

    def fields(self, blocks: Blocks) -> tuple[Field, ...]:
        return index_field(self.share, blocks), *_BYTES.fields(self._kept(blocks))

    def encode(self, rows: Rows, blocks: Blocks, random: Random) -> list[NDArray[Any]]:
        at = largest(self.share, rows, blocks)
        values = np.take_along_axis(rows, at, axis=1)
        return [index(self.share, at, blocks), *_BYTES.encode(values, self._kept(blocks), random)]

    def decode(
        self, fields: list[NDArray[Any]], blocks: Blocks, random: Random, remembers: bool
    ) -> Rows:
        values = _BYTES.decode(fields[1:], self._kept(blocks), random, remembers)
        return placed(self.share, fields[0], values, blocks)

    def _kept(self, blocks: Blocks) -> Blocks:
        return Blocks((kept_of(self.share, blocks),))


_BYTES = Quantised(bits=8)
