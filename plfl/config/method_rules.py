"""What a configuration must know about a method."""

from typing import ClassVar

from plfl.config.model_rules import DEFAULT, ModelRules
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

    reads_features: ClassVar[bool] = False
    """Whether its loss looks into the model: at hidden states of the LSTM or of the MLP."""
    squared_error: ClassVar[bool] = False
    """Whether its loss can be expressed by other targets only where it is a squared error."""

    def unfit(self, model: ModelRules, loss: str) -> str | None:
        """Why the method cannot train this model, or with this loss; None if it can."""
        if self.reads_features and not model.has_features:
            return (
                f"compares hidden features of the model {DEFAULT}, which {model.summary} does not "
                f"have; remove the method, or set model.name to {DEFAULT}"
            )
        if self.squared_error and loss != "mse":
            return (
                f"mixes forecasts of a teacher into the targets, which needs a squared error, but "
                f"federation.loss is {loss}; remove the method, or set federation.loss to mse"
            )
        return None

    @property
    def simulation_only(self) -> str | None:
        """Why the method cannot be deployed (`plfl.deploy`); None if it can."""
        return None
