"""Codecs: how the shared parameters that cross the channel become fewer bytes, one file each.

`plfl.interfaces.codec` has their class. `plfl.federated.codecs.packing` turns the fields of a codec
into the bytes of a message. `plfl.federated.codecs.coder` adds memories.
"""

from pydantic import Field as Bounded

from plfl.interfaces.codec import Blocks as Blocks
from plfl.interfaces.codec import Codec as Codec
from plfl.interfaces.codec import CodecError as CodecError
from plfl.interfaces.codec import Field as Field
from plfl.interfaces.codec import Random as Random
from plfl.interfaces.codec import Rows as Rows


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
