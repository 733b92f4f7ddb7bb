"""MOON's contrastive term, which methods add to the loss of any task: it compares features.

The loss of a task and the terms that depend on it are in `plfl.tasks`.
"""

import torch
from torch import Tensor


def contrastive(h: Tensor, near: Tensor, far: Tensor, temperature: float) -> Tensor:
    """MOON's −log(p / (p + n)), p = e^(cos(h, near) / T) and n = e^(cos(h, far) / T).

    The features are the last axis; the loss has the others.
    """
    gap = torch.cosine_similarity(h, far, -1) - torch.cosine_similarity(h, near, -1)
    return torch.nn.functional.softplus(gap / temperature)
