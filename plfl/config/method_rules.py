"""What a configuration must know about a method."""

from typing import ClassVar

from plfl.config.model_rules import DEFAULT, ModelRules
from plfl.config.task_rules import TaskRules
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
    has_teacher: ClassVar[bool] = False
    """Whether it mixes the outputs of a teacher into the targets."""

    reads_rate: ClassVar[bool] = False
    """Whether it computes with the rate of the local steps, which must then be constant."""

    def unfit(
        self, model: ModelRules, task: TaskRules, loss: str, has_constant_rate: bool
    ) -> str | None:
        """Why the method cannot train this model, or with this loss or rate; None if it can."""
        if self.reads_features and not model.has_features:
            return (
                f"compares hidden features of the model {DEFAULT}, which {model.summary} does not "
                f"have; remove the method, or set model.name to {DEFAULT}"
            )
        if self.has_teacher and (reason := task.refuses_teacher(loss)):
            return f"mixes forecasts of a teacher into the targets, which {reason}"
        if self.reads_rate and not has_constant_rate:
            return (
                "computes with a constant rate of the local optimiser; remove the method, or "
                "federation.schedule and federation.warm_up"
            )
        return None

    @property
    def simulation_only(self) -> str | None:
        """Why the method cannot be deployed (`plfl.deploy`); None if it can."""
        return None
