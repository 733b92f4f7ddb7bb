"""The sharing schemes of a study: what each shares, and how clients take part in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from plfl.config.sharing import JoinKind, Scheme


@dataclass(frozen=True)
class SharingSchemes:
    """The sharing schemes that a study defines, and those of its grid."""

    blocks: Mapping[str, Scheme | list[str]]
    """The content of the key `sharing`."""
    grid: Sequence[str]
    """The names of the grid, which are checked elsewhere."""

    @cached_property
    def patterns(self) -> dict[str, list[str]]:
        """The patterns of the shared parameters of each sharing scheme."""
        blocks = self.blocks.items()
        return {name: b.share if isinstance(b, Scheme) else b for name, b in blocks}

    @cached_property
    def joining_schemes(self) -> dict[str, Scheme]:
        """The sharing schemes in which clients take part without training in the rounds."""
        return {name: block for name, block in self.blocks.items() if isinstance(block, Scheme)}

    def joins(self, sharing: str) -> JoinKind | None:
        """How clients take part in a sharing scheme; None: in the rounds."""
        return self.joining_schemes[sharing].join if sharing in self.joining_schemes else None

    def shares_nothing(self, sharing: str) -> bool:
        """Whether a sharing scheme shares no parameter."""
        return not self.patterns[sharing]

    @property
    def federated_schemes(self) -> list[str]:
        """The sharing schemes of the grid that share parameters, but no raw data; without those
        of `for_new`."""
        schemes = [name for name in self.grid if name not in self.for_new]
        return [s for s in schemes if not self.shares_nothing(s) and self.joins(s) != "raw"]

    @property
    def for_new(self) -> dict[str, int]:
        """The sharing schemes that tell what a new client can expect, with the weeks it knows."""
        schemes = {
            name: self.joining_schemes[name] for name in self.grid if name in self.joining_schemes
        }
        return {name: block.history for name, block in schemes.items() if block.history}
