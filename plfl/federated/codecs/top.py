"""The k largest numbers of a row, and where they are: a list of their indices or a bit for each of
the d numbers, whichever is shorter. Of equally large numbers, the first ones are sent.

Source: Sebastian U. Stich, Jean-Baptiste Cordonnier and Martin Jaggi, "Sparsified SGD with Memory",
NeurIPS 2018, https://arxiv.org/abs/1809.07599.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field as Bounded

from plfl.federated.codecs import Blocks, Codec, CodecError, Field, Random, Rows, kept_of


class Top(Codec):
    """The largest numbers as floats."""

    name = "top"

    share: float = Bounded(gt=0, lt=1)
    """Share k/d of the numbers."""

    @property
    def contraction(self) -> float:
        return self.share

    def fields(self, blocks: Blocks) -> tuple[Field, ...]:
        return index_field(self.share, blocks), Field(kept_of(self.share, blocks))

    def encode(self, rows: Rows, blocks: Blocks, random: Random) -> list[NDArray[Any]]:
        at = largest(self.share, rows, blocks)
        return [index(self.share, at, blocks), np.take_along_axis(rows, at, axis=1)]

    def decode(
        self, fields: list[NDArray[Any]], blocks: Blocks, random: Random, remembers: bool
    ) -> Rows:
        return placed(self.share, fields[0], fields[1], blocks)


def index_field(share: float, blocks: Blocks) -> Field:
    """Where the numbers are that are sent, in the shorter form."""
    kept, width = kept_of(share, blocks), blocks.width
    listed = Field(kept, "<u2" if width <= 1 << 16 else "<i4")
    mask = Field(width, "code", levels=2)
    return mask if mask.size < listed.size else listed


def largest(share: float, rows: Rows, blocks: Blocks) -> NDArray[np.int64]:
    """Where the largest numbers (n, k) are, in ascending order."""
    order = np.argsort(-np.abs(rows), axis=1, kind="stable")
    return np.sort(order[:, : kept_of(share, blocks)], axis=1)


def index(share: float, at: NDArray[np.int64], blocks: Blocks) -> NDArray[Any]:
    """The indices (n, k) as a field."""
    if index_field(share, blocks).kind != "code":
        return at
    mask = np.zeros((len(at), blocks.width), dtype=np.uint8)
    np.put_along_axis(mask, at, 1, axis=1)
    return mask


def placed(share: float, where: NDArray[Any], values: Rows, blocks: Blocks) -> Rows:
    """Rows (n, d) with the `values` (n, k) in their places, and 0 elsewhere.

    Raises:
        CodecError: the places are impossible.
    """
    rows = np.zeros((len(values), blocks.width), dtype=np.float32)
    if index_field(share, blocks).kind == "code":
        if (where.sum(1, dtype=np.int64) != values.shape[1]).any():
            raise CodecError("the coded update has another number of places than of values")
        rows[where > 0] = values.ravel()
        return rows
    at = where.astype(np.int64)
    if (np.diff(at, axis=1) <= 0).any() or at.min() < 0 or at.max() >= blocks.width:
        raise CodecError("the coded update has an index that is out of range or out of order")
    np.put_along_axis(rows, at, values, axis=1)
    return rows
