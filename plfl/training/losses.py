"""MOON's contrastive term, which methods add to the loss of any task: it compares features.

The loss of a task and the terms that depend on it are in `plfl.tasks`.
"""

import torch
from torch import Tensor
from torch.nn import functional

VECTOR = 32
"""A multiple of the numbers that a processor's vector instruction takes at a time."""


def contrastive(h: Tensor, near: Tensor, far: Tensor, temperature: float) -> Tensor:
    """MOON's −log(p / (p + n)), p = e^(cos(h, near) / T) and n = e^(cos(h, far) / T).

    The last axis is the features; the loss has the other axes.
    """
    gap = torch.cosine_similarity(h, far, -1) - torch.cosine_similarity(h, near, -1)
    # PyTorch treats numbers at the end of a tensor that do not fill a vector by another routine.
    # Which numbers these are would depend on how many models train together.
    each = (gap / temperature).flatten()
    filled = functional.pad(each, (0, -len(each) % VECTOR))
    return functional.softplus(filled)[: len(each)].view_as(gap)
