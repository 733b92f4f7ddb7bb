"""Torch's tensors in annotations of modules that must not wait for torch to be imported."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor as Tensor
else:
    Tensor = Any
