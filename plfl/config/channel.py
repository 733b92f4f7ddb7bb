"""The section `channel`: the codecs of the shared parameters, and their masks."""

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from plfl.config.named import Chain, chain_of
from plfl.interfaces.codec import Codec
from plfl.plugins.registry import Section

FEWEST_MASKED = 3
"""Clients of a masked sum, at least: one of two knows the other's numbers."""


class ChannelSettings(Section):
    """Codecs of the shared parameters ([guide](channel.md))."""

    up: str = "none"
    """Stages of updates, such as `ef21+q3+rc`."""
    down: str = "none"
    """Stages of the server's parameters, such as `delta+q3`."""
    scales: Literal["tensor", "one"] | Annotated[int, Field(ge=1)] = "tensor"
    """A scale for each `tensor`, for all (`one`), or for each block of this many parameters."""
    secure: bool = False
    """Clients mask what they send; the server sees sums only
    ([guide](privacy.md#secure-aggregation))."""

    @field_validator("up", "down")
    @classmethod
    def _check_chain(cls, text: str, info: ValidationInfo) -> str:
        chain_of(text, info.field_name or "")
        return text

    def chain(self, direction: Literal["up", "down"]) -> Chain | None:
        """The stages of a direction; None without any."""
        return chain_of(getattr(self, direction), direction)

    @property
    def chains(self) -> list[Chain | None]:
        """The stages of both directions."""
        return [self.chain("up"), self.chain("down")]

    @property
    def codecs(self) -> list[Codec]:
        """The codecs of both directions, if any."""
        return [chain.codec for chain in self.chains if chain]

    @property
    def is_coded(self) -> bool:
        """Whether anything is coded."""
        return bool(self.codecs)
