"""Methods: what an algorithm adds to the round.

The round of `plfl.federation` asks a method what goes down, lets the clients train, and hands it
what comes up. A method keeps its state in `federation.memory`: tensors, a row for each client or
one vector for the server, so that it survives absence and resume. What it does to the clients'
local steps it says in a `Local`, in terms that every engine knows.

What goes through `f.channel` is where the two sides meet, and each side may use its own memory and
what arrived alone: in `plfl.deploy` they are different machines, which both run the method.

Everything acts on the shared parameters alone: with an empty mask (P3) no method is ever called.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal

from plfl import registry

if TYPE_CHECKING:
    from torch import Tensor

    from plfl.clients import ClientOpt
    from plfl.federation import Federation
    from plfl.servers import ServerOpt
    from plfl.training import Contrast, Recursion

Retarget = Callable[["Tensor", "Tensor", "Tensor"], "Tensor"]
"""(forecasts of the teachers, targets, clients) → targets to train on; the first two (n, K, B)."""


@dataclass
class Local:
    """What a method asks of n clients in a round; all but `start` is optional.

    Each local step goes along *gradient + pull · (y − start) + constant* through the ClientOpt, and
    then by `displacement`; these act on the d_s shared parameters. A pull towards another anchor is
    one towards `start` with the constant pull · (start − anchor).
    """

    start: "Tensor"
    """Shared parameters (n, d_s) that the clients start from, as they arrived."""
    pull: "float | Tensor" = 0.0
    """a, or a (d_s,), of the term a · (y − start)."""
    constant: "Tensor | None" = None
    """(n, d_s), added to every gradient."""
    displacement: "Tensor | None" = None
    """(n, d_s), added to the parameters after every step."""
    displaced_first: bool = False
    """Displace before the step, so that the gradient is taken at the displaced point; `pull` and a
    proximal term of the ClientOpt still draw to `start`."""
    steps: "Tensor | None" = None
    """Local steps (n,) of each client, instead of `federation.local_steps`."""
    skip: int = 0
    """First minibatches of the round that are left out, because the method has used them."""
    teacher: "Tensor | None" = None
    """Shared parameters (n, d_s) of a teacher, which forecasts with the client's own personal part
    as it is at the start of the round; its forecasts go to `retarget`."""
    retarget: "Retarget | None" = None
    """What the clients train on instead of the targets."""
    loss_scale: float = 1.0
    """Factor of the loss."""
    contrast: "Contrast | None" = None
    """Term in the loss between the features of the models at `start` and of `previous`."""
    previous: "Tensor | None" = None
    """Shared parameters (n, d_s) of the models from whose features `contrast` pushes away; they
    too have the client's own personal part as it is at the start of the round."""
    recursion: "Recursion | None" = None
    """Steps of the shared parameters in the ClientOpt's place; its tensors are (n, d_s)."""
    gradients: Literal["none", "steps", "start"] = "none"
    """Which `Done.gradients` are wanted: those of the local steps, or those at the start."""


@dataclass
class Done:
    """What n clients did in a round; their models are in `federation.local`."""

    local: Local
    """What they were asked for."""
    steps: "Tensor"
    """Local steps (n,) taken."""
    displacement: "Tensor"
    """D (n, d_s): what the clients added to the shared parameters they started from."""
    gradients: "Tensor | None"
    """Mean over the steps (n, d_s) of the minibatch gradients, without any terms of the method: on
    the way of the local steps, or all of them at the start."""
    recursion: "Recursion | None" = None
    """What the steps have made of `local.recursion`."""


class Method(registry.Method):
    """An algorithm; subclasses hold its hyperparameters and what it does in a round."""

    ignores_split: ClassVar[bool] = False
    """Whether it acts even where the split shares nothing."""

    def refuses(self, client_opt: "ClientOpt", server_opt: "ServerOpt") -> str | None:
        """Why the method makes no sense with these optimisers; None where it does."""
        return None

    @property
    def simulation_only(self) -> str | None:
        """Why it cannot run among real machines (`plfl.deploy`); None where it can."""
        return None

    def crosses(self, split: "Tensor") -> "Tensor":
        """Mask (P,) of the parameters that go through the channel, given what is shared."""
        return split

    def begin(self, f: "Federation") -> None:
        """Make what there has to be before round 1."""

    def present(self, f: "Federation", t: int, drawn: "Tensor") -> "Tensor":
        """Clients (indices, ascending) that train in round `t`; `drawn` were drawn by share."""
        return drawn

    def cycles(self, f: "Federation", t: int, present: "Tensor") -> "list[Tensor]":
        """The clients `present` in the groups that take their turn one after the other."""
        return [present]

    def down(self, f: "Federation", t: int, clients: "Tensor") -> Local:
        """Send `clients` through `f.channel` what they need, and say what they are to do."""
        raise NotImplementedError

    def up(self, f: "Federation", t: int, clients: "Tensor", done: Done) -> None:
        """Receive through `f.channel` what `clients` send, and let the server step.

        Whatever the clients remember of the round they do before they send.
        """
        raise NotImplementedError

    def held(self, f: "Federation") -> "Tensor":
        """Shared parameters (N, d_s) that each client would get if it asked the server now."""
        raise NotImplementedError


available = partial(registry.methods, sys.modules[__name__])
