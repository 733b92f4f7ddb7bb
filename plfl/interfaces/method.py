"""A method: what an algorithm adds to a round of federated learning, as one class in one file.

This file is all that the author of a method has to read; docs/add-an-algorithm.md has an example.
In each round plfl asks the method what the server sends (`broadcast`), lets the clients train, and
gives the method what they did (`aggregate`). The method describes local training in a
`TrainInstructions`, in terms that every engine understands. Only these two hooks are required. They
stand in the order of the round, after the facts that a study reads.

Server and clients communicate only through `f.channel`. Each side may use its own part of the state
and what it has received: in `plfl.deploy` the two sides are different machines, and both run the
method. A method acts on the shared parameters only. Where nothing is shared (P3), only
`without_server` is called.

The files of plfl import torch from `plfl.base.lazy`, so that a study which names them is read
quickly. `plfl.base` and `plfl.interfaces.annotations` have the types for annotations.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plfl.base import Tensor
from plfl.interfaces.annotations import (
    Federation,
    FederationSettings,
    TrainInstructions,
    TrainResult,
)
from plfl.interfaces.model import Model
from plfl.interfaces.task import Task
from plfl.layout import ParameterLayout
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


@dataclass
class MethodState:
    """What a method keeps from one round to the next; empty for methods that keep nothing.

    Subclasses add fields. Each is a tensor, or None as long as it has no value. Checkpoints and the
    files of deployed clients contain every field under its name.
    """


@dataclass
class ClusterState(MethodState):
    """State of a method that sorts clients into clusters, which records show."""

    cluster: Tensor
    """Cluster (N,) of every client, −1 for a client that has none yet."""


class Method(Algorithm):
    """An algorithm: subclasses define its hyperparameters and override its hooks. Every function
    after `init` gets the federation `f` and, as `state`, what `init` returned."""

    # Facts about a study with the method.

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

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        super().__pydantic_init_subclass__(**options)
        cls.selects = cls.strata is not Method.strata or cls.select is not Method.select
        cls.has_own_model = cls.scored is not Method.scored
        cls.adapts = cls.adapt is not Method.adapt
        cls.mixes = cls.mix_outputs is not Method.mix_outputs

    # Optional: what a study with it must not ask for.

    def refuses(self, client_opt: ClientOpt, server_opt: ServerOpt) -> str | None:
        """Why the method does not work with these optimisers; None if it does."""
        if self.no_proximal and client_opt.proximal:
            return f"{self.no_proximal}; use sgd for prox, adam for proxadam"
        if self.own_server:
            has_rate = self.server_lr is not None
            if server_opt.name != "fedavg" or not (has_rate or server_opt.lr == 1):
                fedavg = f"fedavg, whose lr is {self.server_lr}" if has_rate else "fedavg with lr 1"
                return f"{self.own_server}; use {fedavg}"
        return None

    def unshareable(self, shared: NDArray[np.bool_], layout: ParameterLayout) -> str | None:
        """Why the method cannot be combined with this sharing scheme, whose mask (P,) `shared` has
        at least one parameter; None if it can."""
        return None

    def unfit(self, model: Model, task: Task, federation: FederationSettings) -> Iterator[str]:
        """Why the method cannot train this model, or with these settings, for reasons that do not
        follow from the facts above; empty if it can."""
        return iter(())

    def reasons_against_sums(self, task: Task, federation: FederationSettings) -> Iterator[str]:
        """Why a server that sees sums over clients only (`channel.secure`) does not suffice, with
        these settings, for reasons that do not follow from the facts above."""
        return iter(())

    def in_rounds(self) -> Method:
        """The method without its part before a client forecasts, such as fine-tuning. Cells whose
        methods are equal in this form have the same rounds, and train together."""
        return self

    def undeployable(self) -> str | None:
        """Why the method with these hyperparameters cannot be deployed; None if it can."""
        return self.simulation_only

    # Optional: before round 1.

    def shared_mask(self, sharing: Tensor, layout: ParameterLayout) -> Tensor:
        """Mask (P,) of the parameters that go through the channel; `sharing`: what is shared."""
        return sharing

    def init(self, f: Federation) -> MethodState:
        """Prepare `f` for round 1, and return the initial state."""
        return MethodState()

    # Optional: who trains in a round, and in which order.

    def strata(self, f: Federation, state: Any) -> Tensor | None:
        """Strata (N,) from each of which a fraction of clients is drawn; None: from all clients."""
        return None

    def select(self, f: Federation, state: Any, t: int, drawn: Tensor) -> Tensor:
        """Clients (indices, ascending) that train in round `t`, given those `drawn` at random."""
        return drawn

    def groups(self, f: Federation, state: Any, t: int, present: Tensor) -> list[Tensor]:
        """The clients `present`, divided into groups that train one after the other."""
        return [present]

    # Required: what crosses the channel in a round.

    @abstractmethod
    def broadcast(self, f: Federation, state: Any, t: int, clients: Tensor) -> TrainInstructions:
        """Send `clients` what they need through `f.channel`, and return their instructions."""

    @abstractmethod
    def aggregate(
        self, f: Federation, state: Any, t: int, clients: Tensor, result: TrainResult
    ) -> None:
        """Receive what `clients` send through `f.channel`, and let the server step. Clients update
        their own state before they send. It is not called if all `clients` of a group have dropped
        out."""

    # Optional: a round where nothing is shared.

    def without_server(self, f: Federation, clients: Tensor) -> TrainInstructions | None:
        """What `clients` do in a round where nothing is shared; None: their local steps."""
        return None

    # Optional: the models that are scored.

    def global_parameters(self, f: Federation, state: Any) -> Tensor:
        """Shared parameters (N, d_s) that each client would receive from the server now."""
        return f.server.send(f.everyone)

    def scored(self, f: Federation, state: Any) -> Tensor:
        """Models (N, P) that the clients forecast with, which are scored as `local`."""
        return f.average.rows if f.average else f.local

    def adapt(self, f: Federation, state: Any, rows: Tensor) -> Tensor | None:
        """Models (N, P) that the clients make from `rows` (N, P), the models [x; p_i] that they
        would have if they received x now, and forecast with. They adapt them on their training
        windows whenever they are scored, and discard them afterwards. None: they forecast with
        `scored`."""
        return None

    def mix_outputs(
        self, f: Federation, state: Any, rows: Tensor, starts: list[Tensor]
    ) -> list[Tensor] | None:
        """Outputs of each client i for the windows `starts[i]`, if a model alone does not give
        them. `rows` are the models of `adapt`. None: the outputs are those of the models of `adapt`
        or `scored`."""
        return None
