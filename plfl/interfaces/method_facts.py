"""Facts about methods that a study reads before it trains: with what a method works, and what it
sends. Each has a default, so that the author of a method (`method.py`) reads them only where the
method differs."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

from plfl.optimizers.client import ClientOpt
from plfl.optimizers.server import ServerOpt
from plfl.plugins.registry import Algorithm


class Sizes(NamedTuple):
    """The sizes of a method's messages for one client, in numbers of 4 bytes: terms of d_s, the
    number of shared parameters, d_φ, those of the embedding, and hyperparameters by name."""

    down: str = "d_s"
    """Down to a participant in a round."""
    up: str = "d_s"
    """Up from a participant in a round."""
    before_down: str = "0"
    """Down to every client before round 1."""
    before_up: str = "0"
    """Up from every client before round 1."""


class MethodFacts(Algorithm):
    """The facts about a method; `Method` adds what it does."""

    # Facts that a method states.

    ignores_sharing: ClassVar[bool] = False
    """Whether the method has an effect even if the sharing scheme shares nothing."""
    no_proximal: ClassVar[str | None] = None
    """Why it cannot be combined with a proximal ClientOpt; None if it can."""
    own_server: ClassVar[str | None] = None
    """What the method's server does instead of a step of the ServerOpt, which must then be
    `fedavg`. None if any ServerOpt may take the step."""
    server_lr: ClassVar[str | None] = None
    """If the method has an `own_server`: the symbol of the quantity that the learning rate of
    `fedavg` stands for. None if the rate has no meaning; it must then be 1."""
    own_steps: ClassVar[bool] = False
    """Whether it takes the local steps in a routine of its own (`TrainInstructions.routine`)."""
    equal_steps: ClassVar[bool] = True
    """Whether such a routine needs equally many local steps of all clients."""
    reads_features: ClassVar[bool] = False
    """Whether its loss reads hidden states of the model: of the LSTM or of the MLP."""
    only_task: ClassVar[str | None] = None
    """The only task for which it is defined; None if it is for any task."""
    only_model: ClassVar[str | None] = None
    """The only model that it can train; None if it can train any network."""
    has_teacher: ClassVar[bool] = False
    """Whether it mixes a teacher's outputs into the targets."""
    updates_only: ClassVar[bool] = False
    """Whether the server uses nothing from the clients except their mean update, as
    `federation.privacy` needs. Subclasses do not inherit it: each must declare it."""
    sends: ClassVar[Sizes | None] = None
    """What it sends, for `plfl methods`; None: it does not say. Subclasses do not inherit it."""
    no_buffers: ClassVar[str | None] = None
    """Why it cannot train a model with buffers that training changes, such as the statistics of
    BatchNorm; None if it can."""
    no_codec: ClassVar[str | None] = None
    """Why the channel cannot code the method's messages (`channel`); None if it can."""
    adds_numbers: ClassVar[bool] = False
    """Whether the server adds all that clients send, so that it can be masked (`channel.secure`),
    although it is no update."""
    no_server_average: ClassVar[str | None] = None
    """Why the server's parameters have no average over the rounds (`federation.server_ema`); None
    if they have one."""
    simulation_only: ClassVar[str | None] = None
    """Why the method cannot be deployed (`plfl.deploy`); None if it can."""

    # Facts that follow from the hooks of a class.

    selects: ClassVar[bool] = False
    """Whether the method chooses the participants (`Method.strata`, `Method.select`)."""
    has_own_model: ClassVar[bool] = False
    """Whether clients forecast with another model than the one that they train for the server
    (`Method.scored`)."""
    adapts: ClassVar[bool] = False
    """Whether clients train a model further before they forecast with it (`Method.adapt`)."""
    mixes: ClassVar[bool] = False
    """Whether the forecasts do not come from a model alone (`Method.mixed`)."""

    def contradicts(self, client_opt: ClientOpt, server_opt: ServerOpt) -> str | None:
        """Which of its facts these optimisers contradict; None if they contradict none."""
        if self.no_proximal and client_opt.proximal:
            return f"{self.no_proximal}; use sgd for prox, adam for proxadam"
        if self.own_server:
            has_rate = self.server_lr is not None
            if server_opt.name != "fedavg" or not (has_rate or server_opt.lr == 1):
                fedavg = f"fedavg, whose lr is {self.server_lr}" if has_rate else "fedavg with lr 1"
                return f"{self.own_server}; use {fedavg}"
        return None

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        super().__pydantic_init_subclass__(**options)
        cls.selects = cls._has_own("strata", "select")
        cls.has_own_model = cls._has_own("scored")
        cls.adapts = cls._has_own("adapt")
        cls.mixes = cls._has_own("mix_outputs")

    @classmethod
    def _has_own(cls, *hooks: str) -> bool:
        """Whether a class has hooks other than those of `Method`."""
        (method,) = (parent for parent in cls.__mro__ if MethodFacts in parent.__bases__)
        return any(getattr(cls, hook) is not getattr(method, hook) for hook in hooks)
