"""A method: what an algorithm adds to a round of federated learning, as one class in one file.

Its author reads this file and `plfl.federated.instructions`; docs/add-an-algorithm.md shows one. It
must have `broadcast` and `aggregate`, describes local training in a `TrainInstructions`, and acts
on the shared parameters only; if nothing is shared, only `without_server` is called. Server and
clients communicate only through `f.channel`, and use their own part of the state and what they have
received: `plfl.deploy` runs both on different machines. Import torch from `plfl.base.lazy`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from plfl.base import Tensor
from plfl.interfaces.annotations import (
    Federation,
    FederationSettings,
    Reasons,
    TrainInstructions,
    TrainResult,
)
from plfl.interfaces.model import Model
from plfl.interfaces.task import Task
from plfl.interfaces.terms import Sizes as Sizes
from plfl.layout import Mask, ParameterLayout
from plfl.optimizers.client import ClientOpt
from plfl.optimizers.server import ServerOpt
from plfl.plugins.registry import Algorithm


@dataclass
class MethodState:
    """What a method keeps from one round to the next. Subclasses add fields: tensors, or None as
    long as they have no value. Checkpoints and files of deployed clients contain them by name."""


@dataclass
class ClusterState(MethodState):
    """State of a method with clusters: that of every client (N,), −1 as long as it has none."""

    cluster: Tensor


class Method(Algorithm):
    """An algorithm: subclasses define its hyperparameters, state the facts that differ, and
    override hooks, which stand in the order of the round. Every hook after `init` gets the
    federation `f` and, as `state`, what `init` returned."""

    sends: ClassVar[Sizes | None] = None  # for `plfl methods`; subclasses do not inherit it
    ignores_sharing: ClassVar[bool] = False  # it has an effect even if nothing is shared
    own_server: ClassVar[str | None] = None  # what its server does instead of a ServerOpt's step
    server_lr: ClassVar[str | None] = None  # the symbol of fedavg's lr in it; None: lr must be 1
    takes_own_steps: ClassVar[bool] = False  # in a `TrainInstructions.routine`
    needs_equal_steps: ClassVar[bool] = True  # such a routine: equally many of all clients
    has_teacher: ClassVar[bool] = False  # it mixes a teacher's outputs into the targets
    reads_features: ClassVar[bool] = False  # its loss reads hidden states of the LSTM or MLP
    uses_updates_only: ClassVar[bool] = False  # the server: their mean; not inherited
    adds_numbers: ClassVar[bool] = False  # the server adds what is sent, so that masks can hide it
    only_task: ClassVar[str | None] = None  # the only task for which it is defined; None: any
    only_model: ClassVar[str | None] = None  # the only model that it can train; None: any network
    # Why something is impossible with it; None: it is possible.
    no_proximal: ClassVar[str | None] = None  # a proximal ClientOpt
    no_buffers: ClassVar[str | None] = None  # buffers that training changes, as of BatchNorm
    no_codec: ClassVar[str | None] = None  # codecs (`channel`)
    no_coded_update: ClassVar[str | None] = None  # codecs of updates (`channel.up`)
    no_server_average: ClassVar[str | None] = None  # an average over rounds (`server_ema`)
    simulation_only: ClassVar[str | None] = None  # to deploy it

    # Optional: what a study with it must not ask for.
    def reasons_against_optimizers(self, client_opt: ClientOpt, server_opt: ServerOpt) -> Reasons:
        """Why it does not work with these optimisers, if the facts do not say it."""
        return iter(())

    def reasons_against_sharing(self, shared_mask: Mask, layout: ParameterLayout) -> Reasons:
        """Why it does not work with a sharing scheme of this mask (P,), which is not empty."""
        return iter(())

    def reasons_against_settings(
        self, model: Model, task: Task, federation: FederationSettings
    ) -> Reasons:
        """Why it cannot train this model, or with these settings, if the facts do not say it."""
        return iter(())

    def reasons_against_sums(self, task: Task, federation: FederationSettings) -> Reasons:
        """Why a server that sees sums over clients only (`channel.secure`) does not suffice."""
        return iter(())

    def in_rounds(self) -> Method:
        """The method without its fine-tuning: cells whose methods are equal so train together."""
        return self

    def reasons_against_deployment(self) -> Reasons:
        """Why the method with these hyperparameters cannot be deployed."""
        return iter([self.simulation_only] if self.simulation_only else [])

    # Optional: before round 1.
    def shared_mask(self, study_mask: Tensor, layout: ParameterLayout) -> Tensor:
        """Mask (P,) of the parameters that go through the channel, given that of the study."""
        return study_mask

    def init(self, f: Federation) -> MethodState:
        """Prepare `f` for round 1, and return the initial state."""
        return MethodState()

    # Optional: who trains in a round, and in which order.
    def strata(self, f: Federation, state: Any) -> Tensor | None:
        """Strata (N,) from each of which a fraction of clients is drawn; None: from all clients."""

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
        their own state before they send. Not called if all clients of a group have dropped out."""

    def without_server(self, f: Federation, clients: Tensor) -> TrainInstructions | None:
        """Optional: what `clients` do where nothing is shared; None: their local steps."""

    # Optional: the models that are scored.
    def global_parameters(self, f: Federation, state: Any) -> Tensor:
        """Shared parameters (N, d_s) that each client would receive from the server now."""
        return f.server.send(f.everyone)

    def scored_models(self, f: Federation, state: Any) -> Tensor:
        """Models (N, P) that the clients forecast with, which are scored as `local`."""
        return f.average.rows if f.average else f.local

    def adapt(self, f: Federation, state: Any, rows: Tensor) -> Tensor | None:
        """Models (N, P) that clients make on their training windows from `rows` (N, P), the models
        [x; p_i] if they received x now, for their scores alone. None: `scored_models`."""

    def mix_outputs(
        self, f: Federation, state: Any, rows: Tensor, starts: list[Tensor]
    ) -> list[Tensor] | None:
        """Outputs of clients i for windows `starts[i]`, given their models; None: the models'."""
