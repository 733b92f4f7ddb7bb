"""Proximal gradient descent (FedProx, Li et al. 2020): SGD on f(y) + μ/2 ‖y_shared − x‖².

The anchor x holds the shared parameters received in this round, so with P3 this is plain SGD.
"""

from pydantic import Field

from plfl.optimizers.client.sgd import Sgd


class Prox(Sgd):
    """SGD with a proximal term towards the server's parameters."""

    name = "prox"

    mu: float = Field(1e-2, ge=0)
    """Strength μ of the proximal term (authors' code: 1e-2; the paper's α is μ/2)."""

    @property
    def proximal(self) -> float:
        return self.mu
