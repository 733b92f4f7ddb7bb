"""Messages as bytes: named arrays and a few facts, in the format of safetensors.

The arrays cross as they lie in memory, little-endian; nothing received is ever executed, and what
is not a message is refused.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from plfl.errors import PlflError

_ABOUT = "plfl"
_HEADER = 8
"""Bytes that tell the length of safetensors' header."""


class WireError(PlflError):
    """Bytes that are no message, or a message that does not fit."""


@dataclass(frozen=True)
class Message:
    """What one side tells the other."""

    about: Mapping[str, Any]
    """Facts: what JSON can hold."""
    arrays: Mapping[str, Tensor] = field(default_factory=dict)

    def pack(self) -> bytes:
        """The message as bytes."""
        about = {_ABOUT: json.dumps(self.about, separators=(",", ":"))}
        arrays = {name: array.detach().cpu().contiguous() for name, array in self.arrays.items()}
        return safetensors.torch.save(arrays, about)

    @classmethod
    def unpack(cls, data: bytes) -> "Message":
        """The message that `pack` made into `data`, bit for bit.

        Raises:
            WireError: it is no message.
        """
        try:
            arrays = safetensors.torch.load(data)
            length = int.from_bytes(data[:_HEADER], "little")
            header = json.loads(data[_HEADER : _HEADER + length])
            about = json.loads(header["__metadata__"][_ABOUT])
        except (safetensors.SafetensorError, ValueError, KeyError, TypeError) as error:
            raise WireError(f"{len(data)} bytes are no message of plfl: {error}") from None
        if not isinstance(about, dict):
            raise WireError(f"{len(data)} bytes are no message of plfl: no facts in it")
        return cls(about, arrays)
