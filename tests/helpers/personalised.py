"""An independent NumPy reference of personalised methods on clients with quadratic losses.

Written from the papers, in float64, one function per method and one loop per client; nothing here
comes from plfl. Client i minimises ½ a_i (mix · y − c_i)², and every minibatch is the full batch.

Each function returns a list of `Seen`: the state before round 1 and after every round. Clients that
a round leaves out keep everything that they hold. x is the server's vector; `shared` marks the
coordinates that it owns, all others are personal. An upload is the displacement of the shared part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Sgd:
    """y ← y − η g."""

    lr: float

    def fresh(self) -> Callable[[Array], Array]:
        """The displacement of one gradient after another."""
        return lambda g: -self.lr * g


@dataclass(frozen=True)
class Adam:
    """Adam (Kingma & Ba 2015) with bias correction."""

    lr: float
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8

    def fresh(self) -> Callable[[Array], Array]:
        """The displacement of one gradient after another, from empty moments."""
        m: Any = 0.0
        v: Any = 0.0
        k = 0

        def step(g: Array) -> Array:
            nonlocal m, v, k
            k += 1
            m = self.beta1 * m + (1 - self.beta1) * g
            v = self.beta2 * v + (1 - self.beta2) * g * g
            corrected = np.sqrt(v / (1 - self.beta2**k))
            displacement: Array = -self.lr * (m / (1 - self.beta1**k)) / (corrected + self.eps)
            return displacement

        return step


@dataclass(frozen=True)
class Problem:
    """Clients with quadratic losses, and the rounds in which they take part."""

    a: Sequence[float]
    """Curvatures a_i."""
    c: Sequence[float]
    """Minima c_i."""
    mix: Sequence[float] = (1.0,)
    """What the coordinates of a row add up to."""
    start: Sequence[float] = (2.0,)
    """Initial parameters (P,), or a row for each client (N, P)."""
    shared: Sequence[bool] = (True,)
    present: Sequence[Sequence[int]] = ((0, 1),) * 3
    """The participants of every round."""
    weights: Sequence[float] | None = None
    """Weights of the clients in the server's mean; None: equal ones."""
    steps: int = 2
    """Local steps K."""
    optimiser: Sgd | Adam = field(default_factory=lambda: Sgd(0.1))
    server_lr: float = 1.0
    """The server steps along its mean update at this rate."""

    @property
    def mask(self) -> Mask:
        return np.array(self.shared, dtype=bool)

    @property
    def x0(self) -> Array:
        """Initial parameters (P,) of the server."""
        first: Array = self.rows0[0].copy()
        return first

    @property
    def rows0(self) -> Array:
        """Initial rows (N, P)."""
        start = np.array(self.start, dtype=np.float64)
        rows: Array = np.broadcast_to(start, (len(self.a), start.shape[-1])).copy()
        return rows

    def gradient(self, i: int, y: Array) -> Array:
        """Gradient of client i's loss at y."""
        mix = np.array(self.mix, dtype=np.float64)
        return self.a[i] * (float(mix @ y) - self.c[i]) * mix

    def loss(self, i: int, y: Array) -> float:
        """Client i's loss at y."""
        mix = np.array(self.mix, dtype=np.float64)
        return float(self.a[i] / 2 * (mix @ y - self.c[i]) ** 2)

    def mean(self, updates: dict[int, Array]) -> Array:
        """The server's weighted mean of the updates of those who sent one."""
        weights = np.ones(len(self.a)) if self.weights is None else np.array(self.weights)
        total = sum(weights[i] for i in updates)
        return sum((weights[i] / total * D for i, D in updates.items()), np.zeros_like(self.x0))

    def received(self, x: Array, row: Array) -> Array:
        """[x; p]: the server's shared part and a row's own personal one."""
        return np.where(self.mask, x, row)

    def upload(self, y: Array, x: Array) -> Array:
        """D = y − x on the shared coordinates."""
        return np.where(self.mask, y - x, 0.0)


@dataclass(frozen=True)
class Seen:
    """What a round left behind."""

    x: Array
    """The server's vector (P,); its personal coordinates mean nothing."""
    local: Array
    """Rows (N, P) of the models that each client forecasts with."""
    rows: Array
    """Rows (N, P) as the clients' own steps left them."""


def descend(
    problem: Problem,
    i: int,
    y: Array,
    steps: int,
    *,
    free: Mask | None = None,
    pull: float = 0.0,
    anchor: Array | None = None,
    optimiser: Sgd | Adam | None = None,
) -> Array:
    """`steps` of client i from y, with fresh moments, of the coordinates that are `free`.

    `pull` · (y − anchor) is added to the gradient on the shared coordinates.
    """
    step, y = (optimiser or problem.optimiser).fresh(), y.copy()
    for _ in range(steps):
        g = problem.gradient(i, y)
        if anchor is not None:
            g = g + np.where(problem.mask, pull * (y - anchor), 0.0)
        moved = step(g if free is None else np.where(free, g, 0.0))
        y = y + (moved if free is None else np.where(free, moved, 0.0))
    return y


def rounds(
    problem: Problem,
    client: Callable[[int, Array, Array], tuple[Array, Array]],
    models: Array | None = None,
) -> list[Seen]:
    """Rounds in which `client(i, x, row)` returns its row after training and what it uploads of.

    `models` (N, P), which `client` changes, are those to forecast with; None: the rows.
    """
    x, rows = problem.x0, problem.rows0
    models = rows if models is None else models
    seen = [Seen(x, models.copy(), rows.copy())]
    for present in problem.present:
        updates = {}
        for i in present:
            rows[i], end = client(i, x, rows[i])
            updates[i] = problem.upload(end, x)
        x = x + problem.server_lr * problem.mean(updates)
        seen.append(Seen(x, models.copy(), rows.copy()))
    return seen


def fedavg(problem: Problem, free: Mask | None = None) -> list[Seen]:
    """FedAvg; with personal coordinates FedPer or LG-FedAvg. Only `free` coordinates train."""

    def client(i: int, x: Array, row: Array) -> tuple[Array, Array]:
        y = descend(problem, i, problem.received(x, row), problem.steps, free=free)
        return y, y

    return rounds(problem, client)


def global_models(problem: Problem, seen: Seen) -> Array:
    """[x; p_i] (N, P) after a round."""
    return np.stack([problem.received(seen.x, row) for row in seen.rows])


def fine_tuned(
    problem: Problem, models: Array, steps: int, head: Mask | None = None, head_steps: int = 0
) -> Array:
    """FT: `steps` on all coordinates. LP-FT: before them, `head_steps` on the head alone."""
    tuned = models.copy()
    for i, row in enumerate(models):
        y = row if head is None else descend(problem, i, row, head_steps, free=head)
        tuned[i] = descend(problem, i, y, steps)
    return tuned


def ditto(problem: Problem, lam: float, own_steps: int) -> list[Seen]:
    """Ditto: besides w, a model v of each client's own is pulled towards the x received."""
    v = problem.rows0

    def client(i: int, x: Array, row: Array) -> tuple[Array, Array]:
        v[i] = descend(problem, i, v[i], own_steps, pull=lam, anchor=x)
        y = descend(problem, i, problem.received(x, row), problem.steps)
        return y, y

    return rounds(problem, client, v)


def fedrep(problem: Problem, head_steps: int, body_steps: int) -> list[Seen]:
    """FedRep: steps on the personal part, then on the shared one."""

    def client(i: int, x: Array, row: Array) -> tuple[Array, Array]:
        y = descend(problem, i, problem.received(x, row), head_steps, free=~problem.mask)
        y = descend(problem, i, y, body_steps, free=problem.mask)
        return y, y

    return rounds(problem, client)


def fedbabu(problem: Problem, head: Mask) -> list[Seen]:
    """FedBABU: the head keeps its common initial value; all else trains."""
    return fedavg(problem, free=~head)


def per_fedavg(problem: Problem, alpha: float, delta: float | None = None) -> list[Seen]:
    """Per-FedAvg: the gradient after a step of α. FO; with `delta` HF, by central differences."""

    def client(i: int, x: Array, row: Array) -> tuple[Array, Array]:
        y, step = problem.received(x, row), problem.optimiser.fresh()
        for _ in range(problem.steps):
            d = problem.gradient(i, y - alpha * problem.gradient(i, y))
            if delta is not None:
                above = problem.gradient(i, y + delta * d)
                below = problem.gradient(i, y - delta * d)
                d = d - alpha * (above - below) / (2 * delta)
            y = y + step(d)
        return y, y

    return rounds(problem, client)


def adapted(problem: Problem, models: Array, alpha: float, steps: int = 1) -> Array:
    """Per-FedAvg's models after `steps` of plain SGD at the rate α."""
    rows = enumerate(models)
    return np.stack([descend(problem, i, y, steps, optimiser=Sgd(alpha)) for i, y in rows])


def apfl(
    problem: Problem, alpha: float, adapt: str | None = None, alpha_lr: float | None = None
) -> list[Seen]:
    """APFL: the model is α v + (1 − α) w. `adapt`: α learns at the first `step` or at every one.

    `adapt` is None, "round" or "step". All of a step is taken from the points before it.
    """
    v, mixture = problem.rows0, problem.rows0
    share = np.full(len(v), float(alpha))
    rate = problem.optimiser.lr if alpha_lr is None else alpha_lr

    def client(i: int, x: Array, row: Array) -> tuple[Array, Array]:
        w, own = problem.received(x, row), v[i].copy()
        step_w, step_v = problem.optimiser.fresh(), problem.optimiser.fresh()
        for k in range(problem.steps):
            old = float(share[i])
            g = problem.gradient(i, old * own + (1 - old) * w)
            if adapt == "step" or (adapt == "round" and k == 0):
                share[i] = np.clip(old - rate * float((own - w) @ g), 0, 1)
            w, own = w + step_w(problem.gradient(i, w)), own + step_v(old * g)
        v[i], mixture[i] = own, share[i] * own + (1 - share[i]) * w
        return w, w

    return rounds(problem, client, mixture)


def pfedme(problem: Problem, lam: float, outer_steps: int, eta: float) -> list[Seen]:
    """pFedMe: `outer_steps` times K steps of θ towards the prox of w, then w ← w − ηλ(w − θ)."""

    def client(i: int, x: Array, theta: Array) -> tuple[Array, Array]:
        w, y = x.copy(), problem.received(x, theta)
        for _ in range(outer_steps):
            y = descend(problem, i, y, problem.steps, pull=lam, anchor=w)
            w = w - eta * lam * problem.upload(w, y)
        return y, w

    return rounds(problem, client)


def fedala(
    problem: Problem, weight_lr: float, first: int, subset: Mask | None = None
) -> list[Seen]:
    """FedALA: clients start between their last model and x, by weights W that they learn.

    The first participation starts at x, the second takes `first` steps of W, later ones take one.
    """
    chosen = problem.mask if subset is None else subset & problem.mask
    W, turns = np.ones_like(problem.rows0), [0] * len(problem.a)

    def client(i: int, x: Array, row: Array) -> tuple[Array, Array]:
        received = problem.received(x, row)
        gap = received - row
        for _ in range((0, first)[turns[i]] if turns[i] < 2 else 1):
            s = np.where(chosen, row + gap * W[i], received)
            learned = np.clip(W[i] - weight_lr * problem.gradient(i, s) * gap, 0, 1)
            W[i] = np.where(chosen, learned, W[i])
        y = np.where(chosen, row + gap * W[i], received) if turns[i] else received
        turns[i] += 1
        y = descend(problem, i, y, problem.steps)
        return y, y

    return rounds(problem, client)


def attention(models: Array, sigma: float, alpha_k: float, own_share: float | None = None) -> Array:
    """FedAMP's u (N, d) of the models (N, d); with `own_share` ξ_ii its heuristic HeurFedAMP."""
    count = len(models)
    u = np.zeros_like(models)
    for i in range(count):
        others = [j for j in range(count) if j != i]
        if own_share is None:
            squares = np.array([np.sum((models[i] - models[j]) ** 2) for j in others])
            xi = alpha_k * np.exp(-squares / sigma) / sigma
        else:
            size = np.linalg.norm(models, axis=1)
            cosines = [models[i] @ models[j] / (size[i] * size[j]) for j in others]
            raised = np.exp(sigma * np.array(cosines))
            xi = (1 - own_share) * raised / raised.sum()
        u[i] = (1 - xi.sum()) * models[i] + xi @ models[others]
    return u


def fedamp(
    problem: Problem, sigma: float, alpha_k: float, lam: float, own_share: float | None = None
) -> list[Seen]:
    """FedAMP: each client's steps are pulled towards its own u."""
    rows, mask = problem.rows0, problem.mask
    pull, seen = lam / alpha_k, [Seen(problem.x0, problem.rows0, problem.rows0)]
    for present in problem.present:
        u = rows.copy()
        u[:, mask] = attention(rows[:, mask], sigma, alpha_k, own_share)
        for i in present:
            rows[i] = descend(problem, i, rows[i], problem.steps, pull=pull, anchor=u[i])
        seen.append(Seen(problem.x0, rows.copy(), rows.copy()))
    return seen


def fedfomo(problem: Problem) -> list[Seen]:
    """FedFomo where every client receives the models of all others."""
    mask, rows = problem.mask, problem.rows0
    own, before = problem.rows0, problem.rows0
    seen = [Seen(problem.x0, rows.copy(), rows.copy())]
    for present in problem.present:
        models = own.copy()
        for i in present:
            steps, weights = [], []
            base = problem.loss(i, problem.received(before[i], rows[i]))
            for other in models:
                step = np.where(mask, other - before[i], 0.0)
                length = float(np.linalg.norm(step))
                gain = base - problem.loss(i, problem.received(other, rows[i]))
                steps.append(step)
                weights.append(max(gain, 0.0) / length if length > 0 else 0.0)
            start = problem.received(before[i], rows[i])
            if sum(weights) > 0:
                start = start + np.average(steps, axis=0, weights=weights)
            rows[i] = descend(problem, i, start, problem.steps)
            before[i], own[i] = models[i], rows[i]
        seen.append(Seen(problem.x0, rows.copy(), rows.copy()))
    return seen


def neighbours(
    store: Array, targets: Array, query: Array, k: int, scale: float = 1.0, squared: bool = True
) -> float:
    """kNN-Per's forecast from the k nearest of the stored features (n, dim).

    Weights e^(−d² / (dim · scale)), or e^(−d) as in the paper.
    """
    d = np.linalg.norm(store - query, axis=1)
    nearest = np.argsort(d, kind="stable")[:k]
    exponent = d[nearest] ** 2 / (store.shape[1] * scale) if squared else d[nearest]
    weights = np.exp(-exponent)
    return float(weights @ targets[nearest] / weights.sum())
