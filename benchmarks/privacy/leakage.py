"""Measures what single updates of clients reveal, in rounds of a study's own federation.

python -m benchmarks.privacy.leakage STUDY.yaml [--cell CELL] [--clip C --noise Z] [--seeds N]

README.md describes the attacker, the questions and what was found.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from torch import Tensor
from tqdm import tqdm

from benchmarks.privacy import attacks
from benchmarks.privacy.attacks import Kinds, Numbers
from plfl.base.errors import ConfigError, PlflError
from plfl.base.spreadsheets import write_csv
from plfl.base.text import print_table
from plfl.config.federation import FederationSettings
from plfl.data.dataset import Dataset
from plfl.data.sources import check_loads, load_dataset
from plfl.experiments.training_setup import TrainingSetup
from plfl.federated.channel import Channel
from plfl.federated.codecs.coder import Direction
from plfl.federated.federation import Federation
from plfl.federated.privacy.mechanism import clip_updates
from plfl.federated.round import run_rounds
from plfl.interfaces.terms import Objective
from plfl.optimizers.client import ClientOpt
from plfl.optimizers.client.sgd import Sgd
from plfl.study import Cell, Study
from plfl.study.checks.privacy import sends_only_updates
from plfl.training.batches import stream
from plfl.training.work import STANDING_OPTIMISER, LocalWork, Minibatches, TrackedRows

CODEC = "ef21+q3"
"""A codec of updates, in addition to none and the study's own."""
WARM, ROUNDS = 3, 8
"""Rounds before the first attack, and of each attack."""
STEP = "a window was used (one step of SGD, personal parameters"
OWN, OTHER = f"{STEP} known)", f"{STEP} unknown)"
STUDY = "a window was used (the study's training)"
SENDER = "who sent the update"
Times = pd.DatetimeIndex
OCCUPANCY: dict[str, tuple[Callable[[Times], NDArray[np.bool_]], ...]] = {
    "weekend or weekday": (lambda at: at.day_of_week < 5, lambda at: at.day_of_week >= 5),
    "night (22–5) or day (9–17)": (
        lambda at: (at.hour >= 9) & (at.hour < 17),
        lambda at: (at.hour >= 22) | (at.hour < 5),
    ),
}
"""Two kinds of windows, by the time at which the first target begins."""


@dataclass(frozen=True)
class Seen:
    """What arrived in a round from n clients, as rows."""

    t: int
    clients: Kinds
    start: Tensor
    """Models (n, P) that they started from."""
    updates: Numbers
    """(n, d_s)."""
    noisy: Numbers
    """The updates with the noise of `federation.privacy`."""


class _Overheard(Channel):
    """A channel that keeps the last message of each direction, as it arrived."""

    def __init__(self, like: Channel):
        super().__init__(like.shared_count, like.client_count, like.coder)
        self.last: dict[Direction, tuple[Tensor, Tensor]] = {}

    def send(
        self,
        direction: Direction,
        clients: Tensor,
        parameters: Tensor,
        extras: Sequence[Tensor | float] = (),
    ) -> tuple[Tensor, list[Tensor]]:
        arrived, others = super().send(direction, clients, parameters, extras)
        self.last[direction] = clients, arrived
        return arrived, others


def attacked(
    study: Study, cell: Cell, privacy: Mapping[str, float], seeds: int
) -> list[tuple[Study, Cell]]:
    """A cell without protection and with several protections, each with `seeds` seeds that begin at
    its own.

    Everybody takes part in every round. The study's own hyperparameters are used, untuned.

    Args:
        study: the study.
        cell: one of its cells.
        privacy: `clip` and `noise`, if not those of `federation.privacy`.
        seeds: the number of seeds.

    Raises:
        ConfigError: the cell does not send updates only, or a protection is impossible.
    """
    check_loads(study)
    problem = ""
    if study.plan.trains_alone(cell):
        problem = "sends no update; choose a cell that shares parameters"
    elif study.plan.schemes.joins(cell.sharing) or not sends_only_updates(
        study.hyperparameters.find_method(cell.method)
    ):
        problem = "sends more than updates, so these alone tell too little; choose another cell"
    if problem:
        raise ConfigError(study.name, [f"{cell}: {problem} (`plfl cells --list`)"])
    raw = study.model_dump(mode="json", exclude_unset=True, exclude={"claims", "tuning"})
    kinds = ("sharing", "method", "client_opt", "server_opt")
    raw["grid"] = {kind: [getattr(cell, kind)] for kind in kinds}
    rounds = max(study.federation.rounds, WARM + (1 + len(OCCUPANCY)) * ROUNDS)
    always = {"rounds": rounds, "participation": 1, "selection": "uniform", "simulation": {}}
    federation, channel = raw.get("federation", {}) | always, raw.get("channel", {})
    own, block = study.channel.up, federation.pop("privacy", {}) | privacy
    tried: list[tuple[str, dict[str, object]]] = [
        (up, {}) for up in dict.fromkeys(["none", CODEC, own])
    ]
    if block.get("clip") or privacy:
        tried.append((own, {"privacy": block}))
    protected = [
        Study.parse(
            raw | {"federation": federation | changed, "channel": channel | {"up": up}},
            "benchmarks.privacy.leakage",
        )
        for up, changed in tried
    ]
    every = [replace(cell, seed=cell.seed + n) for n in range(seeds)]
    return [(one, seeded) for one in protected for seeded in every]


def leakage(
    cells: Sequence[tuple[Study, Cell]],
    examples: Dataset,
    progress: Callable[[int], None] = lambda done: None,
) -> pd.DataFrame:
    """How often an attacker guesses right.

    Args:
        cells: those of `attacked`.
        examples: the series of their state.
        progress: called with the number of finished cells.

    Returns:
        A row per question, protection and seed: `question`; `chance`, the value of a guess without
        the update; `protection`; `seed`; `value`, NaN where clients have too few windows.
    """
    first, _ = cells[0]
    setup = TrainingSetup.for_study(first, examples.select(examples.clients_of_federations()[0]))
    rows: list[tuple[str, float, str, int, float]] = []
    with threadpool_limits(first.compute.threads):  # more are slower for small matrices
        for done, (study, cell) in enumerate(cells, 1):
            attack = _Attack(replace(setup, study=study), cell)
            rows += [(*found[:3], cell.seed, found[3]) for found in attack.values()]
            progress(done)
    return pd.DataFrame(rows, columns=["question", "chance", "protection", "seed", "value"])


def _views(study: Study) -> dict[str, bool]:
    """The name of the protection, and whether it contains noise, for each view of the updates."""
    up, block = study.channel.up, study.federation.privacy
    stages = [] if up == "none" else [up]
    if block.clip is None:
        return {"".join(stages) or "nothing": False}
    label = ", ".join([*stages, f"clip {block.clip:g}"])
    return {label: False} | ({f"{label}, noise {block.noise:g}": True} if block.noise else {})


class _Attack:
    """The attacks on one federation."""

    def __init__(self, setup: TrainingSetup, cell: Cell):
        self.setup, self.cell = setup, cell
        self.views, self.settings = _views(setup.study), setup.study.federation
        self.f = self._federation(self.settings)

    def _federation(
        self, settings: FederationSettings, client_opt: ClientOpt | None = None
    ) -> Federation:
        candidate = self.setup.study.plan.combinations.untuned_candidate(self.cell.combination)
        data = self.setup.client_data(self.cell.seed, settings=settings)
        candidate = replace(candidate, client_opt=client_opt or candidate.client_opt)
        f = self.setup.make_federation(self.cell, candidate, data)
        f.channel = _Overheard(f.channel)
        return f

    def values(self) -> Iterator[tuple[str, float, str, float]]:
        """Rows of question, chance, protection and value."""
        f = self.f
        for t in range(1, WARM + 1):
            self._round(f, t)
        single = self._federation(
            self.settings.model_copy(update={"local_steps": 1, "local_epochs": None}),
            client_opt=Sgd(),
        )
        single.local.copy_(f.local)
        single.server.x = f.server.x.clone()
        seen = [self._round(single, t) for t in range(WARM + 1, WARM + ROUNDS // 2 + 1)]
        yield from self._membership(OWN, single, seen)
        if not f.shared_mask.all():
            yield from self._membership(OTHER, single, seen, away=1)
        seen = [self._round(f, t) for t in range(WARM + 1, WARM + ROUNDS + 1)]
        yield from self._membership(STUDY, f, seen[: ROUNDS // 2])  # gradients take time
        for label, known, observed in self._looked(seen):
            rounds = np.repeat([one.t for one in seen], [len(one.clients) for one in seen])
            value = attacks.sender(known, observed, _clients(seen), rounds)
            yield SENDER, 1 / len(f.local), label, value
        for number, question in enumerate(OCCUPANCY, 1):
            yield from self._occupancy(question, WARM + number * ROUNDS)

    def _round(self, f: Federation, t: int) -> Seen:
        before = f.local.clone()
        bound = None if f.privacy is None else float(f.privacy.clip)
        run_rounds([f], self.setup.engine, range(t, t + 1), lambda r: None)
        assert isinstance(f.channel, _Overheard)
        _, x = f.channel.last["down"]
        clients, updates = f.channel.last["up"]
        start = before[clients]
        start[:, f.columns] = x
        noisy = updates = updates.cpu().double().nan_to_num(0, 0, 0)
        if f.privacy is not None and bound is not None:
            updates = clip_updates(updates, torch.full((len(updates),), bound))
            streams = f.client_data.streams("leakage", clients.tolist(), t)
            noise = np.stack([one.standard_normal(updates.shape[1]) for one in streams])
            noisy = updates + f.privacy.noise * f.privacy.scale * bound * torch.from_numpy(noise)
        return Seen(t, clients.cpu().numpy(), start, updates.numpy(), noisy.numpy())

    def _looked(self, seen: list[Seen]) -> Iterator[tuple[str, Numbers, Numbers]]:
        """For each protection, the updates that the attacker knows and those that he observes."""
        known = np.concatenate([one.updates for one in seen])
        noisy = np.concatenate([one.noisy for one in seen])
        for label, is_noisy in self.views.items():
            yield label, known, noisy if is_noisy else known

    def _membership(
        self, question: str, f: Federation, seen: list[Seen], away: int = 0
    ) -> Iterator[tuple[str, float, str, float]]:
        """`away`: the attacker uses the personal parameters of another client, `away` places
        further on."""
        data, found = f.client_data, {label: list[float]() for label in self.views}
        count = data.settings.batch_size
        for one in seen:
            everyone = torch.from_numpy(one.clients)
            steps = data.steps(everyone)
            drawn = data.minibatch_starts(everyone, one.t, int(steps.max())).cpu().numpy()
            personal = one.start.roll(away, 0)
            personal[:, f.columns] = one.start[:, f.columns]
            for i, client in enumerate(one.clients):
                used = np.unique(drawn[i, : int(steps[i])])
                unused = np.setdiff1d(data.starts(client, "train").numpy(), used)
                (random,) = data.streams("candidates", [client], one.t)
                some = [
                    random.choice(part, min(count, len(used), len(unused)), replace=False)
                    for part in (used, unused)
                ]
                gradients = self._gradients(f, personal[i], np.concatenate(some))
                is_in = np.repeat([True, False], len(some[0]))
                for label, is_noisy in self.views.items():
                    update = (one.noisy if is_noisy else one.updates)[i]
                    found[label].append(attacks.membership(update, gradients, is_in))
        for label, values in found.items():
            yield question, 0.5, label, float(np.mean(values))

    def _gradients(self, f: Federation, model: Tensor, starts: NDArray[np.int64]) -> Numbers:
        """Gradients (m, d_s) of a model (P,) on each of the windows that begin at `starts` (m,)."""
        engine, parts = self.setup.engine, []
        windows = torch.from_numpy(starts).to(model.device)

        def task(some: Tensor) -> LocalWork:
            rows = model.expand(len(some), -1).clone()
            steps = LocalWork.fresh(
                STANDING_OPTIMISER, rows, Minibatches(some[:, None, None]), f.shared_mask
            )
            tracked = TrackedRows(gradients=torch.zeros_like(rows))
            return replace(steps, objective=Objective(f.client_data.loss), tracked_rows=tracked)

        for some in windows.split(engine.most_models(lambda: task(windows[:1]))):
            engine.train(one := task(some))
            assert one.tracked_rows.gradients is not None
            parts.append(one.tracked_rows.gradients[:, f.columns])
        found: Numbers = torch.cat(parts).cpu().double().nan_to_num(0, 0, 0).numpy()
        return found

    def _occupancy(self, question: str, last: int) -> Iterator[tuple[str, float, str, float]]:
        """In each round after `last`, every client trains on one of two kinds of windows."""
        f, whole = self.f, self.setup.series_dataset
        ahead = np.timedelta64((whole.look_ahead - 1) * whole.interval, "m")
        at = pd.DatetimeIndex(whole.stamps + ahead)
        allowed = np.stack([is_kind(at) for is_kind in OCCUPANCY[question]])
        steps = int(f.client_data.steps(f.everyone).min())
        settings = self.settings.model_copy(update={"local_steps": steps, "local_epochs": None})
        names, seed = f.client_data.names, self.cell.seed
        halves = [select_windows(whole, np.tile(rows, (len(names), 1))) for rows in allowed]
        counts = [len(half.starts(i, "train")) for half in halves for i in range(len(names))]
        if min(counts) < settings.batch_size:
            yield from ((question, 0.5, label, np.nan) for label in self.views)
            return
        balanced = np.arange(ROUNDS) % 2
        drawn = [stream(seed, f"/{question}/{name}", 0).permutation(balanced) for name in names]
        kinds = np.stack(drawn)
        seen = []
        for r in range(ROUNDS):
            data = select_windows(whole, allowed[kinds[:, r]])
            f.client_data = self.setup.client_data(seed, data, settings)
            seen.append(self._round(f, last + 1 + r))
        clients = _clients(seen)
        present = np.concatenate([kinds[one.clients, r] for r, one in enumerate(seen)])
        for label, known, observed in self._looked(seen):
            yield question, 0.5, label, attacks.kind(known, observed, present, clients)
        f.client_data = self.setup.client_data(seed, settings=self.settings)


def _clients(seen: list[Seen]) -> Kinds:
    return np.concatenate([one.clients for one in seen])


def select_windows(dataset: Dataset, allowed: NDArray[np.bool_]) -> Dataset:
    """The windows of client i whose last input rows are `allowed[i]`, out of (N, R)."""
    kept = np.zeros(len(dataset.stamps), bool)
    for own, (first, *_, end) in zip(allowed, dataset.view.bounds, strict=True):
        kept[first:end] = own[first:end]
    targets = dataset.targets.copy()
    targets[~kept] = np.nan
    return replace(dataset, targets=targets)


def summary(guesses: pd.DataFrame) -> pd.DataFrame:
    """A row per question and a column per protection: mean over seeds (least to greatest)."""
    rows = []
    for (question, chance), asked in guesses.groupby(["question", "chance"], sort=False):
        row = {"question": question, "chance": f"{chance:.2f}"}
        for name, values in asked.groupby("protection", sort=False)["value"]:
            low, mean, high = values.min(), values.mean(), values.max()
            row[str(name)] = f"{mean:.2f} ({low:.2f}–{high:.2f})" if mean == mean else "–"
        rows.append(row)
    return pd.DataFrame(rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Attack a cell, print how often the guesses are right, and write `leakage.csv`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.privacy.leakage")
    parser.add_argument("config", help="configuration of the study, or FILE.yaml:VARIANT")
    parser.add_argument("--cell", help="default: the first that sends updates")
    for key in ("clip", "noise"):
        parser.add_argument(f"--{key}", type=float, help=f"default: federation.privacy.{key}")
    parser.add_argument("--seeds", type=int, choices=range(1, 100), default=5, metavar="N")
    options = parser.parse_args(arguments)
    study = Study.load(options.config)
    every = [(variant, cell) for variant in study.variants.values() for cell in variant.cells]
    sending = [(variant, cell) for variant, cell in every if not variant.plan.trains_alone(cell)]
    study, cell = study.find(options.cell) if options.cell else (sending or every)[0]
    given = {key: getattr(options, key) for key in ("clip", "noise")}
    privacy = {key: value for key, value in given.items() if value is not None}
    cells = attacked(study, cell, privacy, options.seeds)
    examples = load_dataset(study, cell.state)
    with tqdm(total=len(cells), desc=str(cell), unit="cell", disable=None) as bar:
        guesses = leakage(cells, examples, lambda done: bar.update())
    write_csv(guesses, path := study.paths.results / "leakage.csv")
    print(f"{print_table(summary(guesses))}\n\n{path}")


if __name__ == "__main__":
    try:
        main()
    except PlflError as error:
        sys.exit(str(error))
