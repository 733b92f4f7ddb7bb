"""The k largest numbers of a row, and where they are: a list of their indices or a bit for each of
the d numbers, whichever is shorter. Of equally large numbers, the first ones are sent.

Source: Sebastian U. Stich, Jean-Baptiste Cordonnier and Martin Jaggi, "Sparsified SGD with Memory",
NeurIPS 2018, https://arxiv.org/abs/1809.07599.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from plfl.federated.codecs import Sparse
from plfl.interfaces.codec import Blocks, CodecError, Field, Random, Rows


class Top(Sparse):
    """The largest numbers as floats."""

    name = "top"

    def fields(self, blocks: Blocks) -> tuple[Field, ...]:
        return self._index(blocks), Field(self.entries_kept(blocks))

    def encode(self, rows: Rows, blocks: Blocks, random: Random) -> list[NDArray[Any]]:
        order = np.argsort(-np.abs(rows), axis=1, kind="stable")
        columns = np.sort(order[:, : self.entries_kept(blocks)], axis=1)
        offsets = columns
        if self._index(blocks).kind == "code":
            offsets = np.zeros(rows.shape, dtype=np.int64)
            np.put_along_axis(offsets, columns, 1, axis=1)
        return [offsets, np.take_along_axis(rows, columns, axis=1)]

    def decode(
        self, fields: list[NDArray[Any]], blocks: Blocks, random: Random, remembers: bool
    ) -> Rows:
        offsets, values = fields
        rows = np.zeros((len(values), blocks.width), dtype=np.float32)
        if self._index(blocks).kind == "code":
            if (offsets.sum(1, dtype=np.int64) != values.shape[1]).any():
                raise CodecError("the coded update has another number of places than of values")
            rows[offsets > 0] = values.ravel()
            return rows
        columns = offsets.astype(np.int64)
        if (
            (np.diff(columns, axis=1) <= 0).any()
            or columns.min() < 0
            or columns.max() >= blocks.width
        ):
            raise CodecError("the coded update has an index that is out of range or out of order")
        np.put_along_axis(rows, columns, values, axis=1)
        return rows

    def _index(self, blocks: Blocks) -> Field:
        """Where the numbers are, in the shorter form."""
        index_field = Field(self.entries_kept(blocks), "<u2" if blocks.width <= 1 << 16 else "<i4")
        mask = Field(blocks.width, "code", levels=2)
        return mask if mask.size < index_field.size else index_field
