"""What a method is to the round: its hooks, and what it keeps from one round to the next.

The configuration imports every method and must not wait for torch. Therefore only type checkers
import torch here.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from plfl.config.rules import MethodRules

if TYPE_CHECKING:
    from torch import Tensor

    from plfl.federated.federation import Federation
    from plfl.federated.instructions import TrainInstructions, TrainResult
    from plfl.layout import ParameterLayout


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


class Hooks(MethodRules):
    """What a method does in a round, before it and when its models are scored. Every function after
    `init` gets the federation `f` and, as `state`, what `init` returned."""

    @classmethod
    def __pydantic_init_subclass__(cls, **options: Any) -> None:
        super().__pydantic_init_subclass__(**options)
        # The hooks of a method say what it does.
        cls.selects = cls.strata is not Hooks.strata or cls.select is not Hooks.select
        cls.has_own_model = cls.scored is not Hooks.scored
        cls.adapts = cls.adapt is not Hooks.adapt
        cls.mixes = cls.mixed is not Hooks.mixed

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

    # Optional: if nothing is shared.

    def without_server(self, f: Federation, clients: Tensor) -> TrainInstructions:
        """What `clients` do in a round where nothing is shared."""
        from plfl.federated.instructions import TrainInstructions

        return TrainInstructions(f.x0[None])

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

    def mixed(
        self, f: Federation, state: Any, rows: Tensor, starts: list[Tensor]
    ) -> list[Tensor] | None:
        """Outputs of each client i for the windows `starts[i]`, if a model alone does not give
        them. `rows` are the models of `adapt`. None: the outputs are those of the models of `adapt`
        or `scored`."""
        return None
