"""Adam on the proximal objective f(y) + μ/2 ‖y_shared − x‖² (PL-FL Fig. 4).

The term is part of the gradient and so enters both moments (coupled). Under P3 it is plain Adam.
"""

from pydantic import Field

from plfl.clients.adam import Adam


class ProxAdam(Adam):
    """Adam drawn towards the server's parameters."""

    name = "proxadam"

    mu: float = Field(1e-2, ge=0)
    """Strength μ of the proximal term (authors' code: 1e-2; the paper's α is μ/2)."""

    @property
    def proximal(self) -> float:
        return self.mu
