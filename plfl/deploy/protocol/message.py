"""A message as bytes, in the safetensors format: named arrays and a few fields.

Arrays are sent in their memory layout, little-endian. Received bytes are never executed, and bytes
that are not a message are refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from plfl.base.errors import PlflError

_ABOUT = "plfl"
_HEADER = 8
"""Number of bytes for the length of the safetensors header."""


class MessageError(PlflError):
    """Bytes that are not a message, or a message with unexpected content."""


@dataclass(frozen=True)
class Message:
    """A message from one side to the other."""

    about: Mapping[str, Any]
    """Facts, as JSON values."""
    arrays: Mapping[str, Tensor] = field(default_factory=dict)

    def pack(self) -> bytes:
        """The message as bytes."""
        about = {_ABOUT: json.dumps(self.about, separators=(",", ":"))}
        arrays = {name: array.detach().cpu().contiguous() for name, array in self.arrays.items()}
        return safetensors.torch.save(arrays, about)

    @classmethod
    def unpack(cls, data: bytes) -> Message:
        """The inverse of `pack`, bit for bit.

        Raises:
            MessageError: `data` is not a message.
        """
        try:
            arrays = safetensors.torch.load(data)
            length = int.from_bytes(data[:_HEADER], "little")
            header = json.loads(data[_HEADER : _HEADER + length])
            about = json.loads(header["__metadata__"][_ABOUT])
        except Exception as error:  # arbitrary bytes can raise almost anything
            raise MessageError(f"{len(data)} bytes are not a plfl message: {error}") from None
        if not isinstance(about, dict):
            raise MessageError(f"{len(data)} bytes are not a plfl message: its facts are missing")
        return cls(about, arrays)
