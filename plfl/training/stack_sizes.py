"""How many rows the stacked engine trains at once, so that no row's bits depend on others.

PyTorch may choose another routine for batches of another size, and then round differently.
Therefore only a few sizes of stacks are used, and their results are compared before a model trains.
"""

import logging
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from plfl.models.network import Network

log = logging.getLogger(__name__)

CPU = torch.device("cpu")

SIZES = (2, 8, 16, 32, 64)
"""Rows of a stack. None has a single row, because PyTorch often has another routine for a batch of
one."""
ROW_BY_ROW = (1,)
"""Sizes on a CPU for a model whose bits depend on the size of its stack."""
MOST = 2**20
"""Most parameters of a stack, chosen for the caches. A stack of two rows may have more."""
GPU_SIZES = (16, 64, 256, 1024)
"""Rows of a stack on a GPU, where a few rows take as long as many."""
GPU_MOST = 2**26
"""Most parameters of a stack on a GPU, enough to keep a large GPU busy. The smallest size may have
more."""


def sizes_for(width: int, device: torch.device = CPU) -> tuple[int, ...]:
    """The sizes of stacks of rows of `width` parameters."""
    sizes, most = (SIZES, MOST) if device.type == "cpu" else (GPU_SIZES, GPU_MOST)
    return sizes[:1] + tuple(size for size in sizes[1:] if size * width <= most)


def split(rows: int, sizes: tuple[int, ...]) -> Iterator[tuple[slice, int]]:
    """As few stacks as possible for `rows` rows: the rows of each, and its size.

    The last stack may have fewer rows than its size; the engine then fills it with copies.
    """
    for first in range(0, rows, sizes[-1]):
        end = min(first + sizes[-1], rows)
        yield slice(first, end), next(size for size in sizes if size >= end - first)


@torch.no_grad()
def comparable(
    network: Network, sizes: tuple[int, ...], like: Sequence[Tensor], features: str
) -> tuple[int, ...]:
    """`sizes` if random rows have the same bits in stacks of all these sizes.

    Otherwise `ROW_BY_ROW` on a CPU. On a GPU that would take too long: there, the sizes with the
    same bits as the largest one.

    Args:
        network: the model.
        sizes: in ascending order.
        like: inputs of `Network.forward_pass` with the sizes and type of the training, but any
            number of rows.
        features: those that the loss reads, see `Engine.features_of`; empty: none.
    """
    most = sizes[-1]
    random = torch.Generator().manual_seed(0)
    rows = torch.stack([network.initial(seed) for seed in range(most)]).to(like[0])
    inputs = [torch.rand(most, *x.shape[1:], generator=random).to(like[0]) for x in like]

    def passes(which: Tensor) -> Tensor:
        """Forecasts and gradients of the rows `which`, in a stack in this order."""
        models = rows[which]
        gradients = torch.empty_like(models)
        given = (x[which] for x in inputs)
        forecasts, kept = network.forward_pass(models, *given, features=bool(features))
        read: dict[str, Tensor] = {features: getattr(kept, features)} if features else {}
        network.backward_pass(models, kept, forecasts, read, gradients)
        return torch.cat([x.flatten(1) for x in (forecasts, *read.values(), gradients)], 1)

    whole, same = passes(torch.arange(most)), []
    for size in sizes:
        # Each row is at another place than in `whole`.
        which = (torch.arange(size) + 1) % most
        if torch.equal(passes(which), whole[which]):
            same.append(size)
            continue
        log.info("in a stack of %d, a model's bits are not those in a stack of %d", size, most)
        if rows.device.type == "cpu":
            log.info("the stacked engine trains one row after the other")
            return ROW_BY_ROW
    return tuple(same) or sizes[-1:]
