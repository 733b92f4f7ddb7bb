"""How many rows the stacked engine trains at once, so that no row's bits depend on others.

PyTorch may multiply matrices by another routine, and then round otherwise, if a batch has another
size. Stacks therefore have one of a few sizes, and all of these are compared before a model trains.
"""

import logging
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from plfl.models.network import Network
from plfl.training.task import Contrast

log = logging.getLogger(__name__)

CPU = torch.device("cpu")

SIZES = (2, 8, 16, 32, 64)
"""Rows of a stack. A batch of one matrix product often has a routine of its own."""
ROW_BY_ROW = (1,)
"""Sizes on a CPU for a model whose bits would depend on the size of its stack."""
MOST = 2**20
"""Most parameters of a stack, which suit the caches. A stack of two rows may have more."""
GPU_SIZES = (16, 64, 256, 1024)
"""Rows of a stack on a GPU, where few rows take as long as many."""
GPU_MOST = 2**26
"""Most parameters of a stack on a GPU, which keep a large one busy. The smallest may have more."""


def sizes_for(width: int, device: torch.device = CPU) -> tuple[int, ...]:
    """The sizes of stacks of rows of `width` parameters."""
    sizes, most = (SIZES, MOST) if device.type == "cpu" else (GPU_SIZES, GPU_MOST)
    return sizes[:1] + tuple(size for size in sizes[1:] if size * width <= most)


def split(rows: int, sizes: tuple[int, ...]) -> Iterator[tuple[slice, int]]:
    """Stacks for so many rows, as few as possible: the rows of each, and its size.

    The last stack may have fewer rows than its size; the engine then fills it with copies.
    """
    for first in range(0, rows, sizes[-1]):
        end = min(first + sizes[-1], rows)
        yield slice(first, end), next(size for size in sizes if size >= end - first)


@torch.no_grad()
def comparable(
    network: Network, sizes: tuple[int, ...], like: Sequence[Tensor], contrast: Contrast | None
) -> tuple[int, ...]:
    """`sizes` if random rows have the same bits in stacks of all of them.

    Else `ROW_BY_ROW` on a CPU, and on a GPU, where that would take too long, the sizes in which
    the bits are those in the largest one.

    Args:
        network: the model.
        sizes: in ascending order.
        like: inputs of `Network.forward_pass` for any number of rows, whose other sizes and type
            are those of the training.
        contrast: the term that compares features of the model, if the loss has one.
    """
    most = sizes[-1]
    random = torch.Generator().manual_seed(0)
    rows = torch.stack([network.initial(seed) for seed in range(most)]).to(like[0])
    with torch.inference_mode():  # as in training, so that nothing is compiled twice
        inputs = [torch.rand(most, *x.shape[1:], generator=random).to(like[0]) for x in like]

    def passes(which: Tensor) -> Tensor:
        """Forecasts and gradients of the rows `which`, in a stack in this order."""
        models = rows[which]
        gradients = torch.empty_like(models)
        with torch.inference_mode():
            given = (x[which] for x in inputs)
            forecasts, kept = network.forward_pass(models, *given, features=contrast is not None)
            names = [] if contrast is None else [contrast.features]
            read: dict[str, Tensor] = {name: getattr(kept, name) for name in names}
            network.backward_pass(models, kept, forecasts, read, gradients)
            return torch.cat([x.flatten(1) for x in (forecasts, *read.values(), gradients)], 1)

    whole, same = passes(torch.arange(most)), []
    for size in sizes:
        # Each row at another place than in `whole`.
        which = (torch.arange(size) + 1) % most
        if torch.equal(passes(which), whole[which]):
            same.append(size)
            continue
        log.info("in a stack of %d, a model's bits are not those in a stack of %d", size, most)
        if rows.device.type == "cpu":
            log.info("the stacked engine trains one row after the other")
            return ROW_BY_ROW
    return tuple(same) or sizes[-1:]
