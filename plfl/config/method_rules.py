"""What a configuration must know about a method."""

from typing import ClassVar

from plfl.optimizers.client import ClientOpt
from plfl.optimizers.server import ServerOpt
from plfl.registry import Algorithm


class MethodRules(Algorithm):
    """The rules of a method. `plfl.methods.Method` adds what it does."""

    ignores_sharing: ClassVar[bool] = False
    """Whether the method has an effect even if the sharing scheme shares nothing."""

    def refuses(self, client_opt: ClientOpt, server_opt: ServerOpt) -> str | None:
        """Why the method does not work with these optimisers; None if it does."""
        return None

    @property
    def simulation_only(self) -> str | None:
        """Why the method cannot be deployed (`plfl.deploy`); None if it can."""
        return None
