"""The part that methods have in common if their server keeps a mean over all N clients."""

from dataclasses import dataclass, field

from plfl.base.lazy import Tensor
from plfl.methods import MethodState
from plfl.methods.annotations import Federation


@dataclass
class MeanState(MethodState):
    """State of a method whose server keeps a mean over all N clients."""

    total: Tensor | None = field(default=None, kw_only=True)
    """Sum () of all clients' weights when the mean was last updated; None before that."""


def shares(f: Federation, state: MeanState, clients: Tensor, mean: Tensor) -> Tensor:
    """Weights (n,) of `clients` in `mean` (d_s,), the server's mean over all N clients.

    The weights of all N clients sum to one. Where clients are weighted by their windows, a client
    that joins late changes the sum of their windows; `mean` is then rescaled in place, so that it
    remains the mean under the new weights. A client that has never taken part contributes 0,
    whatever its weight.
    """
    weights = f.weights_of_all()
    total = weights.sum()
    if state.total is not None:
        mean *= state.total / total
    state.total = total
    return weights[clients] / total
