"""Adam on the proximal objective f(y) + μ/2 ‖y_shared − x‖² (PL-FL Fig. 4).

The proximal term is part of the gradient and therefore enters both moments. With P3, this is plain
Adam.
"""

from pydantic import Field

from plfl.optimizers.client.adam import Adam


class ProxAdam(Adam):
    """Adam with a proximal term towards the server's parameters."""

    name = "proxadam"

    mu: float = Field(1e-2, ge=0)
    """Strength μ of the proximal term (authors' code: 1e-2; the paper's α is μ/2)."""

    @property
    def proximal(self) -> float:
        return self.mu
