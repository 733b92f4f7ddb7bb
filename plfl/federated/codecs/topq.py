"""The k largest numbers of a row, chosen as by `top`, each in 8 bits as by `q8`, with one scale."""

from typing import Any

from numpy.typing import NDArray

from plfl.federated.codecs.q import Quantised
from plfl.federated.codecs.top import Top
from plfl.interfaces.codec import Blocks, Field, Random, Rows

_BYTES = Quantised(bits=8)


class QuantisedTop(Top):
    """The largest numbers as bytes."""

    name = "topq"
    has_codes = True

    def fields(self, blocks: Blocks) -> tuple[Field, ...]:
        return self._index(blocks), *_BYTES.fields(Blocks((self.entries_kept(blocks),)))

    def encode(self, rows: Rows, blocks: Blocks, random: Random) -> list[NDArray[Any]]:
        offsets, values = super().encode(rows, blocks, random)
        return [offsets, *_BYTES.encode(values, Blocks((self.entries_kept(blocks),)), random)]

    def decode(
        self, fields: list[NDArray[Any]], blocks: Blocks, random: Random, remembers: bool
    ) -> Rows:
        values = _BYTES.decode(fields[1:], Blocks((self.entries_kept(blocks),)), random, remembers)
        return super().decode([fields[0], values], blocks, random, remembers)
