"""How libraries deviate from the papers; README.md says what they do, and where in their code.

Each deviation comes with a variant of the reference that has this one change. A deviation counts as
explained if the variant gives the library's numbers.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from benchmarks.conformance.probes import Result, fedamp, of, per_fedavg, pfedme
from tests.helpers import personalised as reference
from tests.helpers.personalised import Array, Mask, Problem, Seen, descend

Variant = Callable[..., Result]


@dataclass(frozen=True)
class Deviation:
    """A way in which a library deviates."""

    library: str
    probes: tuple[str, ...]
    """The probes that show it."""
    variant: Variant
    """The reference with this change, with the arguments of the probe."""


def local_ditto(problem: Problem, own_steps: float) -> Result:
    """λ = 0."""
    return of(problem, reference.ditto(problem, 0, int(own_steps)))


def trained_twice(problem: Problem, alpha: float) -> Result:
    """Twice the local steps."""
    return per_fedavg(replace(problem, steps=2 * problem.steps), alpha)


def replaced_by_mixture(problem: Problem, alpha: float, adaptive: bool = False) -> Result:
    """v steps on its own gradient, and becomes the mixture after every round."""
    x, rows, own = problem.x0, problem.rows0, problem.rows0
    share, lr = np.full(len(rows), alpha), problem.optimiser.lr
    seen = [Seen(x, own.copy(), rows.copy())]
    for present in problem.present:
        updates = {}
        for i in present:
            w, v = problem.received(x, rows[i]), own[i]
            for _ in range(problem.steps):
                gw, gv = problem.gradient(i, w), problem.gradient(i, v)
                w, v = w - lr * gw, v - lr * gv
                if adaptive:
                    slope = (v - w) @ (share[i] * gv + (1 - share[i]) * gw) + 0.02 * share[i]
                    share[i] = np.clip(share[i] - lr * slope, 0, 1)
            own[i] = (1 - share[i]) * w + share[i] * v
            updates[i] = problem.upload(w, x)
        x = x + problem.mean(updates)
        seen.append(Seen(x, own.copy(), rows.copy()))
    return of(problem, seen)


def decayed_pfedme(
    problem: Problem, lam: float, outer_steps: float, eta: float, beta: float = 0
) -> Result:
    """Inner steps with a weight decay of 0.001; the server's model is scored; β is 0 by default.

    θ of a client's first round starts from the initial model, not from the one received.
    """
    trained: set[int] = set()
    x = problem.x0
    seen = [Seen(x, problem.rows0, problem.rows0)]
    for present in problem.present:
        updates = {}
        for i in present:
            w, theta = x.copy(), x.copy() if i in trained else problem.x0
            trained.add(i)
            for _ in range(int(outer_steps)):
                for _ in range(problem.steps):
                    g = problem.gradient(i, theta) + lam * (theta - w) + 0.001 * theta
                    theta = theta - problem.optimiser.lr * g
                w = w - eta * lam * (w - theta)
            updates[i] = w - x
        x = x + beta * problem.mean(updates)
        seen.append(Seen(x, problem.rows0, problem.rows0))
    return of(problem, seen, np.stack([x] * len(problem.a)))


def unattended(problem: Problem, sigma: float, alpha_k: float, lam: float) -> Result:
    """λ = 0."""
    return fedamp(problem, sigma, alpha_k, 0)


def mixture(
    problem: Problem, i: int, base: Array, received: Array, least: float = 1e-5
) -> tuple[Array, Array]:
    """FedFomo's weights of received models against `base`, and their mean with these weights.

    The mean is NaN if no weight is positive. `least` is added to distances.
    """
    gains = [problem.loss(i, base) - problem.loss(i, model) for model in received]
    worth = np.array(gains) / (np.linalg.norm(received - base, axis=1) + least)
    positive = np.maximum(worth, 0)
    if not positive.sum() > 0:
        return worth, np.full_like(base, np.nan)
    return worth, np.average(received, axis=0, weights=positive)


def judged_from_the_start(problem: Problem) -> Result:
    """Gains and distances are against the start of the client's last training, and as many models
    are sent as were uploaded in the round before, the client's own among them."""
    rows, starts = problem.rows0, problem.rows0
    affinity, uploaded = np.eye(len(rows)), 0
    seen = [Seen(problem.x0, rows.copy(), rows.copy())]
    for present in problem.present:
        models = rows.copy()
        for i in present:
            sent = np.argsort(-affinity[i], kind="stable")[:uploaded]
            worth, mixed = mixture(problem, i, starts[i], models[sent])
            affinity[i, sent] += worth
            starts[i] = models[i] if np.isnan(mixed).any() else mixed
            rows[i] = descend(problem, i, starts[i], problem.steps)
        uploaded = len(present)
        seen.append(Seen(problem.x0, rows.copy(), rows.copy()))
    return Result(np.empty((len(seen), 0)), rows)


def judged_from_the_latest(problem: Problem) -> Result:
    """Gains and distances are against the client's latest model, so that this has no weight; only
    clients of the round before are asked."""
    rows, asked = problem.rows0, ()
    seen = [Seen(problem.x0, rows.copy(), rows.copy())]
    for present in problem.present:
        models = rows.copy()
        for i in present:
            _, mixed = mixture(problem, i, models[i], models[sorted({*asked, i})])
            start = models[i] if np.isnan(mixed).any() else mixed
            rows[i] = descend(problem, i, start, problem.steps)
        asked = present
        seen.append(Seen(problem.x0, rows.copy(), rows.copy()))
    return Result(np.empty((len(seen), 0)), rows)


def learned_by_all(problem: Problem, weight_lr: float, first: float) -> Result:
    """Absent clients, too, learn W in every round, and go on from the start that it gives."""
    x, rows = problem.x0, problem.rows0
    W, learned = np.ones_like(rows), [False] * len(rows)
    seen = [Seen(x, rows.copy(), rows.copy())]
    for present in problem.present:
        updates = {}
        for i in range(len(rows)):
            gap = x - rows[i]
            if gap[0] == 0:
                continue
            for _ in range(1 if learned[i] else int(first)):
                W[i] = np.clip(
                    W[i] - weight_lr * problem.gradient(i, rows[i] + gap * W[i]) * gap, 0, 1
                )
            rows[i], learned[i] = rows[i] + gap * W[i], True
        for i in present:
            rows[i] = descend(problem, i, rows[i], problem.steps)
            updates[i] = problem.upload(rows[i], x)
        x = x + problem.mean(updates)
        seen.append(Seen(x, rows.copy(), rows.copy()))
    return of(problem, seen)


def tuned_from_own_body(problem: Problem, finetune: float) -> Result:
    """Fine-tuning starts from what a client holds: its own body of the last round."""
    seen = reference.fedbabu(problem, ~problem.mask)
    before = reference.global_models(problem, seen[-2])
    rows = [seen[-1].rows[i] if i in problem.present[-1] else before[i] for i in range(len(before))]
    return of(problem, seen, reference.fine_tuned(problem, np.stack(rows), int(finetune)))


def averaged_personal_part(
    problem: Problem, phases: list[tuple[int, Mask | None]], mask: Mask | None = None
) -> Result:
    """All parameters are averaged. A client's first round starts from the mean personal part."""
    mask = problem.mask if mask is None else mask
    x = problem.x0
    own: dict[int, Array] = {}
    seen = [Seen(x, problem.rows0, problem.rows0)]
    for present in problem.present:
        updates = {}
        for i in present:
            y = np.where(mask, x, own.get(i, x))
            for steps, free in phases:
                y = descend(problem, i, y, steps, free=free)
            own[i], updates[i] = y, y - x
        x = x + problem.mean(updates)
        seen.append(Seen(x, problem.rows0, problem.rows0))
    clients = range(len(problem.a))
    return of(problem, seen, np.stack([np.where(mask, x, own.get(i, x)) for i in clients]))


def averaged_head(problem: Problem) -> Result:
    return averaged_personal_part(problem, [(problem.steps, None)])


def averaged_head_in_phases(problem: Problem, head_steps: float, body_steps: float) -> Result:
    phases = [(int(head_steps), ~problem.mask), (int(body_steps), problem.mask)]
    return averaged_personal_part(problem, phases)


def body_for_head(problem: Problem) -> Result:
    """The body is shared and the head stays, as in FedPer."""
    return averaged_personal_part(problem, [(problem.steps, None)], ~problem.mask)


def stepped_twice(problem: Problem, alpha: float, adaptive: bool = False) -> Result:
    """w takes every step twice with one gradient; v sees w after the first of the two."""
    x, own = problem.x0, problem.rows0
    share, lr = np.full(len(own), alpha), problem.optimiser.lr
    seen = [Seen(x, own.copy(), own.copy())]
    for present in problem.present:
        updates = {}
        for i in present:
            w, v = x, own[i]
            for k in range(problem.steps):
                gw = problem.gradient(i, w)
                gv = share[i] * problem.gradient(i, share[i] * v + (1 - share[i]) * (w - lr * gw))
                w, v = w - 2 * lr * gw, v - lr * gv
                if adaptive and k == 0:
                    slope = (v - w) @ (share[i] * gv + (1 - share[i]) * gw) + 0.02 * share[i]
                    share[i] = np.clip(share[i] - lr * slope, 0, 1)
            own[i], updates[i] = v, w - x
        x = x + problem.mean(updates)
        seen.append(Seen(x, own.copy(), own.copy()))
    mixed = [a * v + (1 - a) * x for a, v in zip(share, own, strict=True)]
    return of(problem, seen, np.stack(mixed))


def initial_scored(
    problem: Problem, lam: float, outer_steps: float, eta: float, beta: float = 1
) -> Result:
    """The initial model is scored."""
    return replace(pfedme(problem, lam, outer_steps, eta, beta), personal=problem.rows0)


def one_client_for_all(problem: Problem, weight_lr: float, first: float) -> Result:
    """W, its first passes and the last model belong to whichever client trained before."""
    x, row = problem.x0, problem.x0
    W, learned = np.ones_like(row), False
    trained = problem.rows0
    seen = [Seen(x, trained.copy(), trained.copy())]
    for present in problem.present:
        updates = {}
        for i in present:
            gap = x - row
            for _ in range(1 if learned else int(first)):
                W = np.clip(W - weight_lr * problem.gradient(i, row + gap * W) * gap, 0, 1)
            learned = True
            row = descend(problem, i, row + gap * W, problem.steps)
            trained[i], updates[i] = row, row - x
        x = x + problem.mean(updates)
        seen.append(Seen(x, trained.copy(), trained.copy()))
    return of(problem, seen)


DEVIATIONS: tuple[Deviation, ...] = (
    Deviation("PFLlib", ("ditto, library's λ",), local_ditto),
    Deviation("PFLlib", ("fedbabu", "fedbabu, alternating"), tuned_from_own_body),
    Deviation("PFLlib", ("per-fedavg (FO)", "per-fedavg (FO), alternating"), trained_twice),
    Deviation("PFLlib", ("apfl", "apfl, alternating"), replaced_by_mixture),
    Deviation("PFLlib", ("apfl, adaptive",), partial(replaced_by_mixture, adaptive=True)),
    Deviation("PFLlib", ("pfedme", "pfedme, alternating"), decayed_pfedme),
    Deviation("PFLlib", ("pfedme, library's β",), decayed_pfedme),
    Deviation("PFLlib", ("fedala, some absent",), learned_by_all),
    Deviation("PFLlib", ("fedamp", "fedamp, alternating"), unattended),
    Deviation("PFLlib", ("fedfomo", "fedfomo, alternating"), judged_from_the_start),
    Deviation("FL-bench", ("fedper, alternating",), averaged_head),
    Deviation("FL-bench", ("fedrep, alternating",), averaged_head_in_phases),
    Deviation("FL-bench", ("lg-fedavg", "lg-fedavg, alternating"), body_for_head),
    Deviation("FL-bench", ("apfl", "apfl, alternating"), stepped_twice),
    Deviation("FL-bench", ("apfl, adaptive",), partial(stepped_twice, adaptive=True)),
    Deviation("FL-bench", ("pfedme", "pfedme, library's β", "pfedme, alternating"), initial_scored),
    Deviation("FL-bench", ("fedala", "fedala, some absent"), one_client_for_all),
    Deviation("FL-bench", ("fedfomo", "fedfomo, alternating"), judged_from_the_latest),
)
"""As README.md numbers and explains them."""
