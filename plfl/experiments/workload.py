"""The cost of a study before it runs: client-steps, bytes, and an estimate of the time."""

import time
from collections.abc import Mapping
from dataclasses import replace

import pandas as pd
import torch

from plfl.base.minutes import MINUTES_PER_WEEK, MINUTES_PER_YEAR
from plfl.base.rounding import count_participants
from plfl.baselines.features import further_of
from plfl.baselines.lightgbm_federated import LightgbmFederated
from plfl.baselines.trees import MOST_ROWS, TreeBaseline
from plfl.config.windows import Calendar, Lags, Level
from plfl.data import sources
from plfl.experiments.job_sizes import all_history, cost_of_step, local_steps, side_by_side
from plfl.experiments.training_setup import TrainingSetup
from plfl.federated.codecs.coder import blocks_of, most_bytes
from plfl.federated.collectives.masked import most_bytes as most_tree_bytes
from plfl.federated.secure.updates import sum_bytes
from plfl.interfaces.baseline import Baseline
from plfl.methods.boosting import Boosting
from plfl.models.trees import Trees
from plfl.public.making import MOST_WINDOWS
from plfl.study import Study
from plfl.tasks.loads import LoadTask
from plfl.training.work import LocalWork, Minibatches

FEDERATED = LightgbmFederated.name
LEAST_MEASURED_SECONDS = 0.3
"""Least seconds of the measurement."""
MOST_STEPS = 4**6
"""Number of local steps after which it ends in any case."""
SECONDS_OF_TREE, SECONDS_OF_SCORE, SECONDS_OF_RIDGE = 2.5e-7, 2.8e-8, 2e-6
"""Seconds that a core needs for a row of a tree in training, for one in a forecast, and for a row
of ridge regression."""
SECONDS_OF_PUBLIC = 3.75e-4
"""Seconds that a core needs for a window of a file of public models."""
SECONDS_OF_CLIENT = 0.5
"""Seconds that a core needs for all other baselines of a client."""
LIKELY_TREES = 150
"""Trees after which the error on validation has mostly stopped to fall."""
LATER_TREE = 0.5
"""The bytes of a federated tree, over the most that a masked one can have: counts of former trees
are known. Without masks they are about as many."""
SECONDS_AROUND = 20.0
"""Seconds that a core needs for the rest of a study or variant, with the start of its jobs: reading
the data, tables, figures, models and page."""
UNCERTAINTY_FACTOR = 2
"""The factor by which an estimate may be wrong in either direction."""


def workload(study: Study) -> pd.DataFrame:
    """One row for each state and sharing scheme: `state`, `sharing`, `cells`; `trainings`, fewer
    than cells if the ServerOpt has no effect, more if rates are tuned; `client_steps`: local steps
    of all clients of all trainings; `megabytes`: what clients and servers exchange if shared
    parameters cross once each way per round, not range-coded, or each tree once, and of masked sums
    about the most; with `join: raw`, a year of readings, or the history, for the parameters;
    `evaluations`: client models that are scored on all their evaluation windows. The baseline
    `lightgbm_federated` has a row with its bytes."""
    settings = study.federation
    layout = study.plan.layout
    rows = []
    for state in study.data.states:
        client_count = study.data.clients_of(state)
        for scheme in study.grid.sharing:
            joins = study.plan.schemes.joins(scheme)
            clients = (
                client_count
                if joins == "raw"
                else count_participants(client_count, settings.participation)
            )
            cells = [c for c in study.cells if (c.state, c.sharing) == (state, scheme)]
            distinct = {study.plan.fingerprint(cell): cell for cell in cells}
            # One training tries all numbers of rounds; the best is trained again.
            trial_counts = [len(study.plan.candidates(cell)) for cell in distinct.values()]
            evaluation_count = sum(trial_counts) * sum(
                map(settings.evaluates, range(1, settings.rounds + 1))
            )
            trial_counts = [trials + study.plan.retrains for trials in trial_counts]
            rounds = sum(trial_counts) * settings.rounds
            if joins == "unseen":  # a client trains in all parts except its own
                rounds *= study.plan.schemes.joining_schemes[scheme].turns - 1
            shared_mask = layout.mask(study.plan.schemes.patterns[scheme])
            lengths = [int(shared_mask[columns].sum()) for columns in layout.slices.values()]
            sent_lengths = tuple(filter(None, lengths))  # of each tensor, its shared numbers
            bytes_up, bytes_down = (
                most_bytes(c, blocks_of(study.channel.scales, sent_lengths))
                if c and sent_lengths
                else 4 * sum(sent_lengths)
                for c in study.channel.chains
            )
            both_ways: float = bytes_up + bytes_down
            if study.channel.secure and sent_lengths and not study.model.grows_trees:
                numbers = sum(sent_lengths)
                both_ways += sum(sum_bytes(clients, numbers)) - 4 * numbers
            if study.model.grows_trees:  # each tree crosses once, and more than its numbers
                both_ways /= settings.rounds
                if study.channel.secure and sent_lengths:
                    both_ways = _masked_tree(study, clients)
            exchanged_bytes = clients * rounds * both_ways
            if joins == "raw":  # readings and the parameters cross once for each cell
                exchanged_bytes = clients * len(distinct) * (_raw_bytes(study) + bytes_down)
            models = 1 if study.plan.schemes.shares_nothing(scheme) else 2
            evaluations = models * evaluation_count * client_count
            if study.task.has_common_windows:  # the server's, and last those of the clients
                evaluations = evaluation_count + sum(trial_counts) * client_count
            rows.append(
                {
                    "state": state,
                    "sharing": scheme,
                    "cells": len(cells),
                    "trainings": sum(trial_counts),
                    "client_steps": clients * rounds * local_steps(study, scheme),
                    "megabytes": 1e-6 * exchanged_bytes,
                    "evaluations": evaluations,
                }
            )
        if FEDERATED in study.baselines.names:
            tree_costs = {"megabytes": 1e-6 * client_count * _federated_trees(study, client_count)}
            counts = dict.fromkeys(("cells", "trainings", "client_steps", "evaluations"), 0)
            rows.append({"state": state, "sharing": FEDERATED, **counts, **tree_costs})
    return pd.DataFrame(rows)


def _federated_trees(study: Study, client_count: int) -> float:
    """About the bytes that a client sends for the trees of the baseline `lightgbm_federated`."""
    settings, windows = study.baselines.fit_settings, study.windows
    baseline = study.baselines.find(FEDERATED)
    assert isinstance(baseline, LightgbmFederated)
    grouped_clients = (
        client_count - client_count // baseline.turns if baseline.turns else client_count
    )
    inputs = windows.look_back + 1 + (windows.horizons > 1)
    inputs += sum(
        c.width(1) for c in (Lags(name="lags"), Level(name="level"), Calendar(name="calendar"))
    )
    largest_tree_bytes = most_tree_bytes(
        grouped_clients, _tree_rows(study, baseline), inputs, settings.max_bin, settings.leaves[0]
    )
    return LATER_TREE * largest_tree_bytes * _trees_tried(study)


def _trees_tried(study: Study) -> int:
    """How many trees a model of a baseline tries, of all settings."""
    settings = study.baselines.fit_settings
    pairs = len(settings.leaves) * len(settings.learning_rate)
    assert isinstance(study.task, LoadTask)
    levels = max(1, len(study.task.quantile_levels))
    return pairs * min(settings.trees, LIKELY_TREES) * levels


def _tree_rows(study: Study, baseline: Baseline) -> int:
    """On how many rows of a client the trees of a baseline are trained."""
    is_for_others = isinstance(baseline, TreeBaseline) and baseline.is_for_others
    windows = all_history(study.windows) if is_for_others else study.windows
    row_count = sources.source_of(study.data).counts(study.data, windows).train
    return (
        row_count
        if study.windows.horizons == 1
        else min(row_count * study.windows.horizons, MOST_ROWS)
    )


def seconds_of_baselines(study: Study, client_count: int) -> float:
    """About the seconds that a core needs to fit and to score the baselines of so many clients.
    Models of all clients together take about as long as one of each."""
    counts = sources.source_of(study.data).counts(study.data, study.windows)
    horizons, names = study.windows.horizons, study.baselines.names
    scored_rows = counts.held_out * horizons * min(study.baselines.trees, LIKELY_TREES)
    of_client = SECONDS_OF_CLIENT
    for baseline in map(study.baselines.find, names):
        if model_count := baseline.count_trees():
            of_model = SECONDS_OF_TREE * _trees_tried(study) * _tree_rows(study, baseline)
            of_client += model_count * (of_model + SECONDS_OF_SCORE * scored_rows)
        elif baseline.fits_regression:
            of_client += SECONDS_OF_RIDGE * counts.train * horizons
    return client_count * of_client


def seconds_of_public(study: Study) -> float:
    """About the seconds that a core needs to train the public models that a study makes."""
    hour_count, window_count = MINUTES_PER_YEAR // 60, 0
    for states in study.public_files.values():
        for state in states:
            of_state = study.data.clients_of(state) * hour_count
            window_count += min(MOST_WINDOWS // len(states), of_state)
    return SECONDS_OF_PUBLIC * window_count


def _raw_bytes(study: Study) -> int:
    """The most bytes of a client's raw data, as far as they are known before anything is read."""
    weeks = study.windows.history
    minutes = (
        MINUTES_PER_YEAR * (1 - study.windows.split[2])
        if weeks is None
        else weeks * MINUTES_PER_WEEK
    )
    columns = 1 + len(further_of(study.data.inputs))
    return 4 * int(minutes / study.data.interval) * columns


def _masked_tree(study: Study, client_count: int) -> float:
    """About the most bytes of the masked sums of a round of trees."""
    method = study.hyperparameters.find_method(study.cells[0].method)
    shape, model = study.plan.window_shape, study.model
    assert isinstance(method, Boosting) and isinstance(model, Trees)
    inputs = shape.inputs * shape.look_back + shape.covariates
    windows = sources.source_of(study.data).counts(study.data, study.windows).train
    leaves = method.leaves or model.leaves
    return shape.outputs * most_tree_bytes(client_count, windows, inputs, method.bins, leaves)


def measured_speed(study: Study) -> float:
    """Local steps of a client per second in one job on this machine, measured now: a training of
    synthetic numbers with the first ClientOpt, for a fraction of a second."""
    torch.set_num_threads(study.compute.threads)
    dataset = sources.source_of(study.data).noise(study)
    setup = TrainingSetup.for_study(study, dataset)
    engine = setup.engine
    on_gpu = engine.device.type != "cpu"
    first = setup.network.initial(0).to(engine.device)
    if isinstance(method := study.hyperparameters.find_method(study.cells[0].method), Boosting):
        data, layout = setup.client_data(0, dataset), setup.network.layout
        method.own_trees(data, layout, first[None], 1)  # puts the windows into bins
        beginning = time.process_time()
        method.own_trees(data, layout, first[None], 1)
        return 1 / max(time.process_time() - beginning, 1e-9)
    windows = torch.from_numpy(dataset.starts(0, "train"))
    optimiser = study.hyperparameters.find_client_opt(study.grid.client_opt[0])
    objective = setup.task.objective(study.federation.loss)
    all_parameters = torch.ones_like(first, dtype=torch.bool)

    def task(models: int, steps: int, size: int) -> LocalWork:
        start_rows = torch.randint(len(windows), (models, steps, size))
        keys = torch.arange(models * steps).view(models, steps) if engine.is_random else None
        batches = Minibatches(windows[start_rows].to(engine.device), keys=keys)
        fresh = LocalWork.fresh(optimiser, first.repeat(models, 1), batches, all_parameters)
        return replace(fresh, objective=objective)

    batch, steps, models = study.federation.batch_size, 1, 1
    size = batch
    if on_gpu:
        # Each of many models that train together takes less time; on a core it does not.
        room = engine.most_models(lambda: task(1, local_steps(study), batch))
        models = min(side_by_side(study), room)
    elif cost_of_step(study) > 1:  # long: a part of a minibatch
        size = 1
    # Other programs on this machine do not count.
    clock = time.perf_counter if on_gpu else time.process_time
    engine.train(task(models, steps, size)).cpu()  # may include preparation, such as tracing
    while True:
        beginning = clock()
        engine.train(task(models, steps, size)).cpu()
        seconds_passed = (clock() - beginning) / (1 if on_gpu else study.compute.threads)
        if seconds_passed >= LEAST_MEASURED_SECONDS or steps >= MOST_STEPS:
            return models * steps * size / batch / max(seconds_passed, 1e-9)
        steps *= 4


def seconds(study: Study, works: Mapping[str, pd.DataFrame], speed: float) -> tuple[float, float]:
    """The time of a study whose jobs run one after the other, the least and the most that it may
    be, given the `workload` of each variant and the measured speed of the first one. The others
    take as much longer as their steps have more operations. To score a window costs a third of
    training on it."""
    first = next(iter(study.variants.values()))
    total = SECONDS_AROUND * len(study.variants) + seconds_of_public(study)
    for label, variant in study.variants.items():
        counts = sources.source_of(variant.data).counts(variant.data, variant.windows)
        rows_a_step = counts.train if variant.model.grows_trees else variant.federation.batch_size
        evaluations = works[label]["evaluations"].sum() * counts.held_out / 3 / rows_a_step
        steps = works[label]["client_steps"].sum() + evaluations
        total += float(steps) / speed * cost_of_step(variant) / cost_of_step(first)
    if study.task.forecasts:
        datasets = {
            study.plan.data_labels[label]: variant for label, variant in study.variants.items()
        }
        for variant in datasets.values():
            clients = sum(map(variant.data.clients_of, variant.data.states))
            total += seconds_of_baselines(variant, clients)
    return total / UNCERTAINTY_FACTOR, total * UNCERTAINTY_FACTOR
