"""What a study can say about the privacy of its clients: ε of each cell, and what ε leaves out."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from plfl.base.extras import install_command
from plfl.base.lazy import torch
from plfl.config.federation import FederationSettings
from plfl.federated.privacy.accounting import (
    Bound,
    Draw,
    Rounds,
    bounds,
    has_accountant,
    unamplified_bound,
)
from plfl.federated.secure.neighbours import COLLUDING, DROPPING
from plfl.interfaces.method import Method
from plfl.interfaces.terms import AddsNoise
from plfl.layout import Mask, ParameterLayout
from plfl.study import Cell, Study
from plfl.study.checks.federation import pools_targets

THREAT = (
    "Who sees only the server's parameters learns little about whether a client took part. The "
    "server is trusted: without secure aggregation it sees every clipped update."
)
"""Against whom ε protects without `channel.secure`."""
DRAWS: dict[str, Draw] = {"uniform": "fixed", "poisson": "poisson", "allocation": "allocation"}
"""The draws of `federation.selection`."""


def _find_noise(study: Study, cell: Cell) -> tuple[float, int] | None:
    """What `AddsNoise.noise_on_sums` says of a cell; None: its method adds no noise of its own."""
    method = study.hyperparameters.find_method(cell.method)
    if not isinstance(method, AddsNoise):
        return None
    layout = study.plan.layout
    return method.noise_on_sums(layout, layout.mask(study.plan.schemes.patterns[cell.sharing]))


def threat(study: Study) -> str:
    """Against whom ε protects."""
    block = study.federation.privacy
    if not study.channel.secure or block.clip is None:
        return THREAT
    bound = bound_of_known_draws(study)
    return (
        "Who sees the server's parameters learns little about the data of a client. That it took "
        "part is no secret: the noise tells how many clients add it. Nor learns the server much, "
        f"which sees sums with the clients' noise: for it ε = {bound.epsilon:.3g} at "
        f"δ = {block.delta:g}, since it knows the draws, if it follows the protocol, at most "
        f"{COLLUDING:.0%} of the clients of a round tell it their noise, and at most "
        f"{DROPPING:.0%} drop out."
    )


def rounds_of(settings: FederationSettings, client_count: int) -> Rounds:
    """The rounds to account for with this many clients, or with those the noise is set for."""
    share = settings.participation
    return Rounds(
        settings.privacy.noise,
        settings.rounds,
        settings.privacy.noise_as_of or client_count,
        "all" if share == 1 else DRAWS[settings.selection],
        share,
    )


def least_bound(study: Study, delta: float, repeated_times: tuple[int, ...] = ()) -> Bound:
    """The least valid bound of ε at δ that holds for every federation of the study.
    `repeated_times`: how often each round was released that was released more than once."""
    rounds = (rounds_of(study.federation, size) for size in study.data.federation_sizes)
    return max(
        bounds(replace(size_rounds, repeated_releases=repeated_times), delta)[0]
        for size_rounds in rounds
    )


def bound_of_known_draws(study: Study) -> Bound:
    """The bound of ε that holds for every federation of the study and for whoever knows who took
    part in which round."""
    delta = study.federation.privacy.delta
    return max(
        unamplified_bound(rounds_of(study.federation, size), delta)
        for size in study.data.federation_sizes
    )


def statements(study: Study, *, has_known_draws: bool = False) -> pd.DataFrame:
    """One row per cell. Trees with noise have the ε of a window, in one training.
    `has_known_draws`: ε for whoever knows who took part in which round.

    Columns: `cell`; `epsilon`, the least valid bound, infinite without `federation.privacy` and 0
    where nothing is sent; `delta`; `accountant`; `relation`, between the clients that ε
    compares; `noise`, the norm of the noise on the mean update as a multiple of C; `clients`, the
    number of clients that the noise is set for.
    """
    settings, clients = (
        study.federation,
        study.data.federation_sizes[0],
    )  # the smallest has the most noise
    block, layout, rows = settings.privacy, study.plan.layout, []
    if block.clip is not None:
        rounds = rounds_of(settings, clients)
        bound = bound_of_known_draws(study) if has_known_draws else least_bound(study, block.delta)
    for cell in study.cells:
        method = study.hyperparameters.find_method(cell.method)
        row = {"cell": str(cell), "epsilon": math.inf, "delta": block.delta}
        shared_mask = layout.mask(study.plan.schemes.patterns[cell.sharing])
        noise_on_sums = _find_noise(study, cell)
        if study.plan.trains_alone(cell) or not shared_mask.any():
            row |= {"epsilon": 0.0, "accountant": "nothing is sent"}
        elif noise_on_sums is not None:
            window_bound = unamplified_bound(Rounds(*noise_on_sums), block.delta)
            row |= {"epsilon": window_bound.epsilon, "accountant": window_bound.accountant}
            row |= {"relation": "add or remove one window"}
        elif block.clip is None:
            row |= {"accountant": "no federation.privacy"}
        else:
            row |= {"epsilon": bound.epsilon, "accountant": bound.accountant}
            row |= {"relation": _relate(study, rounds), "clients": rounds.clients}
            expected = settings.expected_participants(rounds.clients)
            width = _count_noisy(method, layout, shared_mask)
            row |= {"noise": math.sqrt(width) * settings.update_noise(clients) / expected}
        rows.append(row)
    columns = ["cell", "epsilon", "delta", "accountant", "relation", "noise", "clients"]
    return pd.DataFrame(rows, columns=columns)


def _relate(study: Study, rounds: Rounds) -> str:
    """What ε compares: with masks the noise tells how many clients take part."""
    masks_all = study.channel.secure and rounds.draw == "all"
    return "replace one client's data by none" if masks_all else rounds.relation


def _count_noisy(method: Method, layout: ParameterLayout, shared_mask: Mask) -> int:
    """The number of parameters that get noise: those of the mask `shared_mask` (P,) that the method
    sends."""
    return int(method.shared_mask(torch.from_numpy(shared_mask), layout).sum())


def remarks_outside(study: Study) -> Iterator[str]:
    """What a study reveals, or could reveal, of its clients beyond what its ε counts."""
    settings, block = study.federation, study.federation.privacy
    private = [cell for cell in study.cells if not study.plan.trains_alone(cell)]
    has_trees = any(_find_noise(study, cell) is not None for cell in private)
    if not has_trees and (block.clip is None or not private):
        return
    if has_trees:
        yield (
            "Trees: ε is that of one window of a client; each reading is in many windows. It holds "
            "against those who see sums over clients: for whoever sees what one client sends, such "
            "as a server without secure aggregation, ε = ∞. A tree that is grown again because a "
            "client failed counts twice."
        )
    if block.noise_as_of is not None:
        yield (
            f"EXTRAPOLATION: the noise is that of {block.noise_as_of:,} clients "
            f"(federation.privacy.noise_as_of). These {study.data.federation_sizes[-1]:,} do not "
            "have this ε."
        )
    is_drawn = settings.participation < 1 and block.clip is not None
    if is_drawn and not has_accountant(DRAWS[settings.selection]):
        command = install_command("privacy")
        yield f"Draws make ε smaller; the accountants for this are not installed ({command})."
    if (most_cells := max(Counter(cell.state for cell in private).values())) > 1:
        cells = f"up to {most_cells} cells have the same clients"
        yield f"ε is that of one cell, but {cells}: they add up."
    if study.plan.chooses_in_history:
        yield (
            "windows.history, data.origins or windows.split: each cell trains once to choose and "
            "once more for its results. ε is that of one training; they add up."
        )
    if study.windows.scaling == "pooled":
        yield (
            "windows.scaling: pooled tells all clients the limits of all loads; set it to "
            "per_client."
        )
    if pools_targets(settings, study.task):
        yield (
            "federation.calibration.variant: kd tells all clients quantiles of all loads; set it "
            "to plain or prox."
        )
    if study.tuning.search or study.tuning.alone:
        yield "tuning: values are chosen by clients' validation scores; each trial is a release."
    if is_drawn:
        yield (
            "ε below that of known draws assumes that nobody learns who took part in which round. "
            "Whoever does, such as a reader of cells/*.parquet, faces "
            f"ε = {bound_of_known_draws(study).epsilon:.3g}."
        )
    yield "What was chosen after looking at results, such as the bound C, z or a learning rate."
    yield (
        "Losses, scores, numbers of steps and windows, and facts about the series: they are "
        "recorded without noise, and a deployed client sends them to its server."
    )
    yield (
        "Personal parameters and local models stay with their clients; who publishes those of "
        "models/ publishes what their data taught them. Baselines read the data themselves."
    )
    yield "In a simulation, draws and noise come from the seed; cells of one seed have the same."


def state_for_readers(studies: Sequence[Study], *, is_simulated: bool) -> str:
    """What the readers of published results have to know: ε of the variants of a study, for whoever
    knows the draws. Empty without noise.

    Results tell who took part, even without lists of participants: personal parameters and local
    models, and so their errors, change in the rounds of a client only.
    """
    tables = [statements(study, has_known_draws=True) for study in studies]
    table = pd.concat(tables, ignore_index=True)
    table = table[(table["epsilon"] > 0) & np.isfinite(table["epsilon"])]
    if table.empty:
        return ""
    ends = sorted({f"{table['epsilon'].agg(end):.3g}" for end in ("min", "max")}, key=float)
    deltas = ", ".join(f"{delta:g}" for delta in sorted(set(table["delta"])))
    text = (
        "Differential privacy: the tables tell who took part in which round, so for their readers "
        f"ε is that of known draws, {' to '.join(ends)} at δ = {deltas} in each cell "
        f"({', '.join(sorted(set(table['relation'])))}); cells of the same clients add up. It "
        "counts neither scores nor personal parameters and local models."
    )
    if is_simulated:
        text += (
            " Draws and noise of this simulation follow from the seeds in study.yaml, so its "
            "readers can remove the noise: ε is what a deployment with these settings promises."
        )
    return text
