"""The rounds: the server sends, clients train and reply, the server steps."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plfl.federated import participation
from plfl.federated.channel import Traffic
from plfl.federated.clock import Times
from plfl.federated.federation import Federation
from plfl.federated.local_training import Cohort, train_cohorts
from plfl.optimizers.client import ClientOpt
from plfl.training.task import Engine


@dataclass(frozen=True)
class Round:
    """What the records keep of a finished round."""

    t: int
    present: list[NDArray[np.int64]]
    """Numbers (n,) of the participants of each federation."""
    losses: list[NDArray[np.float64]]
    """Mean minibatch loss (n,) of the participants of each federation."""
    steps: list[NDArray[np.float64]]
    """Local steps (n,) of the participants; a fraction of them if a client dropped out."""
    traffic: list[Traffic]
    """The bytes that each federation exchanged."""
    times: list[Times]
    """Simulated seconds of each federation."""


def run(
    federations: list[Federation],
    engine: Engine,
    rounds: range,
    report: Callable[[Round], None],
) -> None:
    """Run `rounds` of `federations`, side by side; `report` gets each finished round."""
    alike = _alike(federations)
    for t in rounds:
        present = [participants_of(f, t) for f in federations]
        groups = [groups_of(f, t, p) for f, p in zip(federations, present, strict=True)]
        losses = {f: torch.zeros(len(f.local), dtype=torch.float64) for f in federations}
        steps = {f: np.zeros(len(f.local)) for f in federations}
        for cycle, indices in itertools.product(range(max(map(len, groups))), alike):
            cells = [i for i in indices if cycle < len(groups[i])]
            for i in cells:
                federations[i].cycle = cycle
            begun = (
                Cohort(federations[i], t, clients, stay)
                for i in cells
                for clients, stay in _outcomes(federations[i], t, groups[i][cycle])
            )
            for cohort in train_cohorts(begun, engine):
                cohort.close()
                losses[cohort.f][cohort.clients.cpu()] = cohort.losses.cpu()
                steps[cohort.f][cohort.clients.cpu().numpy()] = cohort.taken
            for i in cells:
                if federations[i].channel.shared and len(groups[i][cycle]):
                    federations[i].method.end_cycle(federations[i], t)
        for f in federations:
            f.average_server(t)
        traffic = [f.channel.close_round() for f in federations]
        times = [
            f.clock.close_round(crossed, [clients.cpu().numpy() for clients in own])
            for f, crossed, own in zip(federations, traffic, groups, strict=True)
        ]
        report(
            Round(
                t,
                [p.cpu().numpy() for p in present],
                [losses[f][p.cpu()].numpy() for f, p in zip(federations, present, strict=True)],
                [steps[f][p.cpu().numpy()] for f, p in zip(federations, present, strict=True)],
                traffic,
                times,
            )
        )


def _alike(federations: list[Federation]) -> list[list[int]]:
    """Numbers of the federations whose models may train as one stack."""
    kinds: dict[tuple[ClientOpt, bytes], list[int]] = {}
    for i, f in enumerate(federations):
        kinds.setdefault((f.client_opt, f.shared.cpu().numpy().tobytes()), []).append(i)
    return list(kinds.values())


def participants_of(f: Federation, t: int) -> Tensor:
    """Clients (n,) that take part in round `t`."""
    groups, settings = f.method.strata(f) if f.channel.shared else None, f.settings
    numbers = None if groups is None else groups.cpu().numpy()
    # Without a server nobody selects.
    rule = participation.RULES[settings.selection if f.channel.shared else "uniform"]
    drawn = participation.participants(
        f.seed, t, f.client_data.names, settings.participation, numbers, rule, f.held
    )
    reached = drawn[f.clock.available(t)[drawn]]
    clients = torch.from_numpy(reached).to(f.local.device)
    return f.method.select(f, t, clients) if f.channel.shared else clients


def groups_of(f: Federation, t: int, present: Tensor) -> list[Tensor]:
    """The participants `present` in groups that train one after another in round `t`."""
    grouped = f.channel.shared and len(present)
    return f.method.groups(f, t, present) if grouped else [present]


def _outcomes(f: Federation, t: int, clients: Tensor) -> list[tuple[Tensor, bool]]:
    """The `clients` that drop out of round `t`, then those that stay to its end (True)."""
    stays = torch.from_numpy(f.clock.progress(t) == 1).to(clients.device)[clients]
    parts = [(clients[~stays], False), (clients[stays], True)]
    return [(some, stay) for some, stay in parts if len(some)]
