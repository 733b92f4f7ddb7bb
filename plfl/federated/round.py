"""The rounds: the server sends, clients train and reply, the server steps."""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plfl.config.channel import FEWEST_MASKED
from plfl.federated.channel import Traffic
from plfl.federated.clock import RoundTimes
from plfl.federated.federation import Federation
from plfl.federated.local_training import Cohort, broadcast, train_cohorts
from plfl.optimizers.client import ClientOpt
from plfl.training.work import Engine

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Round:
    """A finished round of one federation, for the records."""

    t: int
    participants: NDArray[np.int64]
    """Their indices (n,)."""
    training_losses: NDArray[np.float64]
    """Their mean minibatch losses (n,)."""
    local_steps: NDArray[np.float64]
    """Their local steps (n,); of a client that dropped out, the fraction that it took."""
    traffic: Traffic
    """The bytes exchanged."""
    times: RoundTimes
    """Simulated seconds."""


def run_rounds(
    federations: list[Federation],
    engine: Engine,
    rounds: range,
    report: Callable[[list[Round]], None],
    train: Callable[[Iterable[Cohort], Engine], Iterable[Cohort]] = train_cohorts,
) -> None:
    """Run `rounds` of `federations` side by side. `report` is called after every round, with that
    round of each federation. `train` trains cohorts and yields each when it is done; on a deployed
    server, remote clients train."""
    stacks = _stacks(federations)
    for t in rounds:
        running_rounds = {f: _RunningRound(f, t) for f in federations}
        turns = max(len(running_round.groups) for running_round in running_rounds.values())
        for turn in range(turns):
            for stack in stacks:
                cohorts = (cohort for f in stack for cohort in running_rounds[f].cohorts(turn))
                for cohort in train(cohorts, engine):
                    running_rounds[cohort.f].close(cohort)
        report([running_round.finish() for running_round in running_rounds.values()])


def _stacks(federations: list[Federation]) -> list[list[Federation]]:
    """The federations, grouped into those whose models may train as one stack."""
    stacks: dict[tuple[ClientOpt, bytes], list[Federation]] = {}
    for f in federations:
        # Only a proximal term depends on which parameters are shared.
        mask_bytes = f.shared_mask.cpu().numpy().tobytes() if f.client_opt.proximal else b""
        stacks.setdefault((f.client_opt, mask_bytes), []).append(f)
    return list(stacks.values())


def _draw_participants(f: Federation, t: int) -> Tensor:
    """Clients (n,) that take part in round `t`."""
    # If nothing is shared, the method has no say in who trains.
    strata = f.method.strata(f, f.state) if f.channel.shared_count else None
    drawn_clients = f.selection.draw(t, None if strata is None else strata.cpu().numpy())
    reached = drawn_clients[f.clock.available(t)[drawn_clients]]
    clients = torch.from_numpy(reached).to(f.local.device)
    if not f.channel.shared_count:
        return clients
    clients = f.method.select(f, f.state, t, clients)
    if f.adds_masked and 0 < len(clients) < FEWEST_MASKED:
        # Each of two would know the other's update.
        log.info("round %d: fewer than %d clients, none of which takes part", t, FEWEST_MASKED)
        return clients[:0]
    return clients


def _divide(f: Federation, t: int, participants: Tensor) -> list[Tensor]:
    """The participants (n,) in groups that train one after another in round `t`."""
    is_grouped = f.channel.shared_count and len(participants)
    return f.method.groups(f, f.state, t, participants) if is_grouped else [participants]


class _RunningRound:
    """Round `t` of one federation while it runs."""

    def __init__(self, f: Federation, t: int):
        self.f, self.t = f, t
        f.begin_round(t)
        self.participants = _draw_participants(f, t)
        self.groups = _divide(f, t, self.participants)
        self._losses = torch.zeros(len(f.local), dtype=torch.float64)
        self._steps = np.zeros(len(f.local))
        self._aggregated = False

    def cohorts(self, turn: int) -> Iterator[Cohort]:
        """The next clients to train, as two cohorts: those that drop out, and those that stay."""
        clients = self.groups[turn] if turn < len(self.groups) else self.participants[:0]
        is_staying = self.is_staying[clients]
        cohorts = (clients[~is_staying], False), (clients[is_staying], True)
        for cohort_clients, are_staying in cohorts:
            if len(cohort_clients):
                instructions = broadcast(self.f, self.t, cohort_clients)
                yield Cohort(self.f, self.t, cohort_clients, are_staying, instructions)

    @property
    def is_staying(self) -> Tensor:
        """Mask (N,) of the clients that do not drop out."""
        return torch.from_numpy(self.f.clock.share_before_dropout(self.t) == 1).to(
            self.f.local.device
        )

    def close(self, cohort: Cohort) -> None:
        """End the work of a cohort, all of whose clients have trained."""
        cohort.close()
        self._aggregated |= cohort.are_staying
        clients = cohort.clients.cpu()
        self._losses[clients] = cohort.losses.cpu()
        self._steps[clients.numpy()] = cohort.steps_taken

    def finish(self) -> Round:
        """End the round, when all groups have trained."""
        f, participants = self.f, self.participants.cpu().numpy()
        if f.privacy is not None and not self._aggregated and not f.adds_masked:
            f.privacy.step_alone(f.server, self.t)
        f.end_round()
        traffic = f.channel.close_round()
        times = f.clock.close_round(traffic, [group.cpu().numpy() for group in self.groups])
        losses = self._losses.numpy()
        steps = self._steps[participants]
        return Round(self.t, participants, losses[participants], steps, traffic, times)
