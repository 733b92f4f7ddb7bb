"""MOON's contrastive term, which methods add to the loss of any task: it compares features.

The loss of a task and the terms that depend on it are in `plfl.tasks`.
"""

import torch
from torch import Tensor
from torch.nn import functional

VECTOR = 32
"""A multiple of how many numbers a processor takes at a time."""


def contrastive(h: Tensor, near: Tensor, far: Tensor, temperature: float) -> Tensor:
    """MOON's −log(p / (p + n)), p = e^(cos(h, near) / T) and n = e^(cos(h, far) / T).

    The features are the last axis; the loss has the others.
    """
    gap = torch.cosine_similarity(h, far, -1) - torch.cosine_similarity(h, near, -1)
    # PyTorch computes the last numbers of a tensor that fill no vector by a routine of their own.
    # Which these are would depend on how many models train together.
    each = (gap / temperature).flatten()
    filled = functional.pad(each, (0, -len(each) % VECTOR))
    return functional.softplus(filled)[: len(each)].view_as(gap)
