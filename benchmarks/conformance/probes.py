"""Probes: small federations of two clients, and what the reference makes of each.

A probe is a method on a problem with two coordinates, s and p, with its hyperparameters; one that
is left out has the library's default. Its result is the server's vector before round 1 and after
every round, and the clients' personalised models after the last round. What a client's personalised
model is depends on the method:

- FedAvg: the server's model; with fine-tuning, that model fine-tuned.
- Ditto, APFL, pFedMe, FedAMP: the model that the paper calls personalised.
- FedPer, LG-FedAvg, FedRep: the server's part and the client's own part, [x; p_i].
- FedBABU, Per-FedAvg: [x; p_i] after steps on the client's data.
- FedALA, FedFomo: the client's model after its own steps.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from tests.helpers import personalised as reference
from tests.helpers.personalised import Array, Problem, Seen

ONE = Problem((1, 4), (0, 1), (1.0, 0.0), (2.0, 2.0), (True, True))
"""f₁ = ½ s², f₂ = 2 (s − 1)²; p stays where it is."""
BODY = Problem((1, 4), (0, 1), (1.0, 0.5), (2.0, 2.0), (True, False))
"""f_i = ½ a_i (s + ½ p − c_i)²: the server owns s, each client its own p."""
HEAD = replace(BODY, shared=(False, True))
ALTERNATING = ((0,), (1,), (0,))
"""One client takes part in each round."""


@dataclass(frozen=True)
class Result:
    """What a probe left behind."""

    x: Array
    """The server's coordinates (T + 1, d_s) before round 1 and after every round."""
    personal: Array
    """The clients' personalised models (N, 2)."""


@dataclass(frozen=True)
class Probe:
    """A method on a problem."""

    method: str
    problem: Problem
    arguments: Mapping[str, float] = field(default_factory=dict)

    def expected(self) -> Result:
        """What the reference computes. A hyperparameter left out has the value of the paper."""
        return METHODS[self.method](self.problem, **self.arguments)


def of(problem: Problem, seen: list[Seen], personal: Array | None = None) -> Result:
    """The result of rounds; `personal` models by default as the method has them."""
    x = np.stack([s.x[problem.mask] for s in seen])
    return Result(x, seen[-1].local if personal is None else personal)


def fedavg(problem: Problem, finetune: float = 0) -> Result:
    seen = reference.fedavg(problem)
    models = reference.global_models(problem, seen[-1])
    return of(problem, seen, reference.fine_tuned(problem, models, int(finetune)))


def partly_shared(problem: Problem) -> Result:
    seen = reference.fedavg(problem)
    return of(problem, seen, reference.global_models(problem, seen[-1]))


def ditto(problem: Problem, own_steps: float, lam: float = 1) -> Result:
    return of(problem, reference.ditto(problem, lam, int(own_steps)))


def fedrep(problem: Problem, head_steps: float, body_steps: float) -> Result:
    seen = reference.fedrep(problem, int(head_steps), int(body_steps))
    return of(problem, seen, reference.global_models(problem, seen[-1]))


def fedbabu(problem: Problem, finetune: float) -> Result:
    seen = reference.fedbabu(problem, ~problem.mask)
    models = reference.global_models(problem, seen[-1])
    return of(problem, seen, reference.fine_tuned(problem, models, int(finetune)))


def per_fedavg(problem: Problem, alpha: float, delta: float | None = None) -> Result:
    seen = reference.per_fedavg(problem, alpha, delta)
    models = reference.global_models(problem, seen[-1])
    return of(problem, seen, reference.adapted(problem, models, alpha))


def apfl(problem: Problem, alpha: float) -> Result:
    return of(problem, reference.apfl(problem, alpha))


def apfl_adaptive(problem: Problem, alpha: float) -> Result:
    return of(problem, reference.apfl(problem, alpha, "round"))


def pfedme(problem: Problem, lam: float, outer_steps: float, eta: float, beta: float = 1) -> Result:
    problem = replace(problem, server_lr=beta)
    return of(problem, reference.pfedme(problem, lam, int(outer_steps), eta))


def fedala(problem: Problem, weight_lr: float, first: float) -> Result:
    return of(problem, reference.fedala(problem, weight_lr, int(first)))


def fedamp(problem: Problem, sigma: float, alpha_k: float, lam: float) -> Result:
    """FedAMP has no server model: x is empty."""
    seen = reference.fedamp(problem, sigma, alpha_k, lam)
    return Result(np.empty((len(seen), 0)), seen[-1].local)


def fedfomo(problem: Problem) -> Result:
    """FedFomo has no server model: x is empty."""
    seen = reference.fedfomo(problem)
    return Result(np.empty((len(seen), 0)), seen[-1].local)


METHODS: dict[str, Callable[..., Result]] = {
    "fedavg": fedavg,
    "fedavg_ft": fedavg,
    "fedper": partly_shared,
    "lg_fedavg": partly_shared,
    "fedrep": fedrep,
    "fedbabu": fedbabu,
    "ditto": ditto,
    "per_fedavg": per_fedavg,
    "per_fedavg_hf": per_fedavg,
    "apfl": apfl,
    "apfl_adaptive": apfl_adaptive,
    "pfedme": pfedme,
    "fedala": fedala,
    "fedamp": fedamp,
    "fedfomo": fedfomo,
}


NO_SERVER_MODEL = ("fedamp", "fedfomo")
"""Methods whose server keeps the clients' models and has none of its own."""


def alternating(problem: Problem) -> Problem:
    """The problem with one client in each round."""
    return replace(problem, present=ALTERNATING)


FIVE = replace(ONE, steps=5)
VALIDATED = replace(ONE, steps=4)
"""Libraries keep a fifth of the data for validation, so an epoch has four steps."""
APART = replace(ONE, start=((2.0, 2.0), (1.0, 2.0)))
FOUR = replace(ONE, present=((0, 1),) * 4)
SOME = replace(ONE, present=((0, 1), (0, 1), (0,), (0, 1)))
TWO_STEPS = {"head_steps": 2, "body_steps": 1}
MOREAU = {"lam": 1, "outer_steps": 2, "eta": 0.1}
LEARNED = {"weight_lr": 1, "first": 10}
ATTENTIVE = {"sigma": 2, "alpha_k": 1, "lam": 1}

PROBES: dict[str, Probe] = {
    "fedavg": Probe("fedavg", ONE),
    "fedavg, alternating": Probe("fedavg", alternating(ONE)),
    "fedavg + fine-tuning": Probe("fedavg_ft", ONE, {"finetune": 2}),
    "fedper": Probe("fedper", BODY),
    "fedper, alternating": Probe("fedper", alternating(BODY)),
    "lg-fedavg": Probe("lg_fedavg", HEAD),
    "lg-fedavg, alternating": Probe("lg_fedavg", alternating(HEAD)),
    "fedrep": Probe("fedrep", BODY, TWO_STEPS),
    "fedrep, two body steps": Probe("fedrep", BODY, {"head_steps": 5, "body_steps": 2}),
    "fedrep, alternating": Probe("fedrep", alternating(BODY), TWO_STEPS),
    "fedbabu": Probe("fedbabu", BODY, {"finetune": 2}),
    "fedbabu, alternating": Probe("fedbabu", alternating(BODY), {"finetune": 2}),
    "ditto": Probe("ditto", ONE, {"lam": 1, "own_steps": 2}),
    "ditto, five own steps": Probe("ditto", ONE, {"lam": 0.1, "own_steps": 5}),
    "ditto, library's λ": Probe("ditto", ONE, {"own_steps": 2}),
    "ditto, alternating": Probe("ditto", alternating(ONE), {"lam": 1, "own_steps": 2}),
    "per-fedavg (FO)": Probe("per_fedavg", ONE, {"alpha": 0.1}),
    "per-fedavg (FO), alternating": Probe("per_fedavg", alternating(ONE), {"alpha": 0.1}),
    "per-fedavg (HF)": Probe("per_fedavg_hf", ONE, {"alpha": 0.1, "delta": 1e-3}),
    "apfl": Probe("apfl", ONE, {"alpha": 0.5}),
    "apfl, alternating": Probe("apfl", alternating(ONE), {"alpha": 0.5}),
    "apfl, adaptive": Probe("apfl_adaptive", ONE, {"alpha": 0.5}),
    "pfedme": Probe("pfedme", FIVE, {**MOREAU, "beta": 1}),
    "pfedme, library's β": Probe("pfedme", FIVE, MOREAU),
    "pfedme, alternating": Probe("pfedme", alternating(FIVE), {**MOREAU, "beta": 1}),
    "fedala": Probe("fedala", FOUR, LEARNED),
    "fedala, some absent": Probe("fedala", SOME, {"weight_lr": 0.5, "first": 2}),
    "fedamp": Probe("fedamp", APART, ATTENTIVE),
    "fedamp, alternating": Probe("fedamp", alternating(APART), ATTENTIVE),
    "fedfomo": Probe("fedfomo", VALIDATED),
    "fedfomo, alternating": Probe("fedfomo", alternating(VALIDATED)),
}
