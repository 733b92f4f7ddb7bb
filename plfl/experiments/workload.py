"""The cost of a study before it runs: client-steps, bytes, and an estimate of the time."""

import itertools
import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
import torch

from plfl.base.files import digest
from plfl.base.rounding import drawn_of
from plfl.config.named import Chain
from plfl.data import sources
from plfl.data.dataset import SPLITS
from plfl.experiments.effort import cost_of_step, local_steps, side_by_side
from plfl.experiments.trainer import Trainer
from plfl.federated.codecs.coder import blocks_of, most
from plfl.optimizers.client import ClientOpt
from plfl.study import Study
from plfl.training.task import LocalTask, Minibatches

SCORED = 500
"""Windows on which models are measured."""
TRIAL = 0.15
"""Least seconds of each measurement."""
SLOW = 5.0
"""If preparing an amount of work takes longer than this, in seconds, no larger amount is tried."""


def workload(study: Study) -> pd.DataFrame:
    """One row for each state and sharing scheme.

    Columns: `state`, `sharing`, `cells`; `trainings`, fewer than cells if the ServerOpt has no
    effect, more if rates are tuned; `client_steps`: local steps of all clients of all trainings;
    `megabytes`: what clients and servers exchange if shared parameters cross once each way per
    round, not range-coded;
    `evaluations`: client models that are scored on all their evaluation windows.
    """
    f = study.federation
    layout = study.layout
    rows = []
    for state in study.data.states:
        clients = drawn_of(study.data.clients_of(state), f.participation)
        for scheme in study.grid.sharing:
            cells = [c for c in study.cells if (c.state, c.sharing) == (state, scheme)]
            distinct = {digest(study.settings(cell)): cell for cell in cells}
            # One training tries all numbers of rounds; the best is trained again.
            tried = [len(study.candidates(cell)) for cell in distinct.values()]
            rounds, scored = np.sum([_rounds(study, trials) for trials in tried], axis=0).tolist()
            if study.retrains:
                tried = [trials + 1 for trials in tried]
                rounds += study.federation.rounds * len(tried)
            if study.joins(scheme) == "late":  # a client trains in all parts except its own
                rounds *= study.schemes[scheme].turns - 1
            shared = layout.mask(study.shared[scheme])
            lengths = [int(shared[some].sum()) for some in layout.slices.values()]
            both_ways = sum(_message(study, chain, lengths) for chain in study.channel.chains)
            models = 1 if study.combinations.shares_nothing(scheme) else 2
            evaluations = models * scored * study.data.clients_of(state)
            if study.task.common_windows:  # the server's, and last those of the clients
                evaluations = scored + sum(tried) * study.data.clients_of(state)
            rows.append(
                {
                    "state": state,
                    "sharing": scheme,
                    "cells": len(cells),
                    "trainings": sum(tried),
                    "client_steps": clients * rounds * local_steps(study),
                    "megabytes": 1e-6 * clients * rounds * both_ways,
                    "evaluations": evaluations,
                }
            )
    return pd.DataFrame(rows)


def _message(study: Study, chain: Chain | None, lengths: list[int]) -> int:
    """Bytes of one message of shared parameters, given the length of each tensor."""
    if chain is None or not any(lengths):
        return 4 * sum(lengths)
    return most(chain, blocks_of(study.channel.scales, tuple(filter(None, lengths))))


def _rounds(study: Study, trials: int) -> tuple[int, int]:
    """The total number of rounds that the trials of a cell train, and how many of these are
    scored."""
    trained = scored = 0
    for after, end in itertools.pairwise([0, *study.rungs]):
        trained += trials * (end - after)
        evaluated = {t for t in range(after + 1, end) if study.federation.evaluates(t)}
        scored += trials * len(evaluated | {end})
        trials = -(-trials // 2)
    return trained, scored


@dataclass(frozen=True)
class Speed:
    """The speed of one training job on this machine, just measured."""

    client_steps: float
    """Local steps of a client per second, with the ClientOpts of the grid in turn."""
    evaluations: float
    """Client models scored per second, on a year of data."""

    def seconds(self, work: pd.DataFrame) -> float:
        """Time of one job for the whole `work`."""
        steps, evaluations = work["client_steps"].sum(), work["evaluations"].sum()
        return float(steps / self.client_steps + evaluations / self.evaluations)


def speeds(studies: Mapping[str, Study]) -> dict[str, Speed]:
    """The speed of each study, measured once for those that train the same model on windows of the
    same shape with the same loss and equally many clients; on a GPU, side by side with equally many
    models."""
    measured: dict[str, Speed] = {}
    found = {}
    for label, study in studies.items():
        data, f = study.data, study.federation
        objective = study.task.name, f.loss, f.batch_size
        models = side_by_side(study) if torch.cuda.is_available() else data.most_clients
        same = digest(study.model.settings, study.window_shape, models, data.interval, objective)
        if same not in measured:
            measured[same] = measure(study)
        found[label] = measured[same]
    return found


def measure(study: Study) -> Speed:
    """Train with each ClientOpt and evaluate, on synthetic data, for a fraction of a second."""
    torch.set_num_threads(study.compute.threads)
    source = sources.of(study.data)
    dataset = source.noise(study)
    trainer = Trainer.of(study, dataset)
    engine = trainer.engine
    on_gpu = engine.device.type != "cpu"
    # On a GPU, each of many models that train together takes less time; on a core it does not.
    clients = drawn_of(study.data.most_clients, study.federation.participation)
    steps, batch_size = local_steps(study), study.federation.batch_size
    held_out = np.concatenate([dataset.starts(0, split) for split in SPLITS[1:]])
    evaluated = torch.from_numpy(held_out[:SCORED]).to(engine.device)
    share = len(evaluated) / source.counts(study.data, study.windows).held_out
    first = trainer.network.initial(0).to(engine.device)
    windows = torch.from_numpy(dataset.starts(0, "train"))
    optimisers = [study.hyperparameters.of_client_opt(name) for name in study.grid.client_opt]

    objective = trainer.task.objective(study.federation.loss)

    def task(optimiser: ClientOpt, *sizes: int) -> LocalTask:
        batches = Minibatches(windows[torch.randint(len(windows), sizes)].to(engine.device))
        rows, everything = first.repeat(sizes[0], 1), torch.ones_like(first, dtype=torch.bool)
        fresh = LocalTask.fresh(optimiser, rows, batches, everything)
        return replace(fresh, objective=objective)

    if on_gpu:
        room = engine.block(lambda: task(optimisers[0], 1, steps, batch_size))
        clients = min(side_by_side(study), room)
    least_models, least_windows = clients, clients * batch_size
    if not on_gpu and cost_of_step(study) > 1:  # long: one model, and a part of a minibatch
        least_models = least_windows = 1

    def train(optimiser: ClientOpt, some: int) -> float:
        size = min(some, batch_size)
        models = min(some // size, clients)
        rounds = some // (size * models)
        engine.train(task(optimiser, models, rounds, size)).cpu()
        return models * rounds * size / batch_size

    def evaluate(some: int) -> float:
        engine.predict(first.repeat(some, 1), [evaluated] * some)[0].cpu()
        return some * share

    most = clients * steps * batch_size
    clock = time.perf_counter
    if not on_gpu:  # other programs on this machine do not count
        clock = lambda: time.process_time() / study.compute.threads  # noqa: E731
    rates = [_rate(partial(train, each), least_windows, most, clock) for each in optimisers]
    return Speed(statistics.harmonic_mean(rates), _rate(evaluate, least_models, clients, clock))


def _rate(work: Callable[[int], float], least: int, most: int, clock: Callable[[], float]) -> float:
    """Units of work per second of a clock.

    `work` is called with an amount of work: `least` at first, then more, up to `most`, until it
    takes `TRIAL` seconds. The first call with each amount does not count, because it may include
    preparation, such as tracing a user's model. If that takes `SLOW` seconds, no larger amount is
    tried.
    """
    some = least
    while True:
        begun = clock()
        work(some)
        prepared = clock() - begun
        done, passed, begun = 0.0, 0.0, clock()
        while not passed or (some == most and passed < TRIAL):
            done += work(some)
            passed = clock() - begun
        if passed >= TRIAL or prepared > SLOW:
            return done / passed
        some = min(most, some * math.ceil(min(2 * TRIAL / passed, 30)))
