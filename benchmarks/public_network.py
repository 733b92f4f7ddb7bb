"""A small network of long context beside the public trees: docs/public.md.

    python -m benchmarks.public_network DATA OUT [--sites zonnedael] [--ahead hour day]

DATA and OUT are as for `benchmarks.public`, whose trees in OUT/models are used or made. A network
reads four weeks of hourly loads and the inputs of the trees. Writes `OUT/network.csv`, the error of
each meter, origin and number of weeks, and `OUT/network_verdicts.csv`, the verdicts of N1 to N3. No
network is judged on meters of a site that trained it or that told when to stop.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from benchmarks import public
from benchmarks.public import AHEADS, KINDS, TABLES, PublicModel, public_of, tested
from benchmarks.public_tables import interval
from plfl.public.inputs import (
    CONTEXT,
    HOURS_PER_DAY,
    Floats,
    HourlyLoads,
    Inputs,
    Integers,
    LeadTime,
    inputs_of,
)
from plfl.public.making import MOST_WINDOWS
from plfl.public.training import drawn_windows

WIDTH, DAY_WIDTH, BLOCKS, DROPOUT = 64, 24, 2, 0.1
TURNS, BATCH, RATE = 4, 512, 2e-3
MOST = 8.0
"""Relative loads and standardised inputs beyond this are cut."""
CALENDAR = 5
"""Inputs of the trees that tell the calendar, an hour ahead; a day ahead two more."""
HELD_OUT = slice(4, None, 5)
"""Meters of a place that tell when to stop; the others train."""
MEANS = {"network + trees": ("network", "trees"), "trees twice": ("trees", "other trees")}
"""Plain means and their members; `other trees` are as many trees of another seed."""
CLAIMS = {
    "N1": ("network", "trees", 0.01),
    "N2": ("network + trees", "trees", 0.0),
    "N3": ("network + trees", "trees twice", 0.0),
}
"""The forecaster that has the lower error, the other one, and by how much it may be worse."""


@dataclass(frozen=True)
class Rows:
    """What a network reads of windows."""

    features: NDArray[np.float32]
    """The inputs of the trees (W, K)."""
    context: NDArray[np.float32]
    """Loads (W, 672) of the four weeks before the target, over the meter's mean, the latest
    last; 1 where they are not known."""


def rows_of(
    loads: HourlyLoads, inputs: Inputs, last: Integers, lead: Integers, first: Integers | int
) -> Rows:
    """What a network reads of windows of a meter, given the inputs of the trees."""
    rows = (last + lead)[:, None] - np.arange(CONTEXT, 0, -1)
    is_known = (rows >= np.reshape(first, (-1, 1))) & (rows <= last[:, None]) & (rows >= 0)
    load = loads.load[np.clip(rows, 0, None).clip(max=len(loads.load) - 1)]
    relative = np.where(is_known, load, np.nan) / inputs.scale[:, None]
    return Rows(inputs.features, np.nan_to_num(relative, nan=1.0).astype(np.float32))


def gather(
    places: Sequence[Sequence[HourlyLoads]],
    ahead: LeadTime,
    turn: int = 0,
    most: int = MOST_WINDOWS,
) -> tuple[Rows, NDArray[np.float32]]:
    """Windows of the meters of places, and their targets: in the first turn those on which public
    trees of these meters are trained, in each other turn as many others."""
    parts: list[Rows] = []
    targets: list[Floats] = []
    for number, meters in enumerate(places):
        random = np.random.default_rng(1 + number + 100 * turn)
        for loads in meters:
            count = most // len(places) // len(meters)
            last, lead, first = drawn_windows(loads, ahead, count, random)
            inputs = inputs_of(loads, ahead, last, lead, first)
            wanted = inputs.outputs_of_loads(loads.load[last + lead])
            parts.append(rows_of(loads, inputs, last, lead, first))
            targets.append(wanted)
    wanted = np.concatenate(targets).astype(np.float32)
    usable = np.isfinite(wanted)
    features = np.concatenate([part.features for part in parts])[usable]
    context = np.concatenate([part.context for part in parts])[usable]
    return Rows(features, context), wanted[usable]


class Network(nn.Module):
    """Layers over each day of the context, over all days and the inputs of the trees, and residual
    blocks."""

    def __init__(self, ahead: LeadTime, features: NDArray[np.float32]):
        super().__init__()
        kinds = (HOURS_PER_DAY, 7, *([HOURS_PER_DAY + 1, HOURS_PER_DAY] if ahead == "day" else ()))
        columns = features.shape[1]
        # ... count, hour, weekday, is weekend, was weekend[, lead, hour of the last reading]
        hour = columns - CALENDAR - (2 if ahead == "day" else 0) + 1
        self.named = [hour, hour + 1, *([columns - 2, columns - 1] if ahead == "day" else ())]
        self.embeddings = nn.ModuleList(nn.Embedding(kind, WIDTH) for kind in kinds)
        with np.errstate(all="ignore"):
            low, middle, high = np.nanquantile(features, (0.1, 0.5, 0.9), axis=0)
        spread = np.maximum(high - low, 0.1)
        self.register_buffer("middle", torch.tensor(middle, dtype=torch.float32))
        self.register_buffer("spread", torch.tensor(spread, dtype=torch.float32))
        self.day = nn.Linear(HOURS_PER_DAY, DAY_WIDTH)
        self.days = nn.Linear(DAY_WIDTH * CONTEXT // HOURS_PER_DAY, WIDTH)
        self.inputs = nn.Linear(2 * columns, WIDTH)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(),
                nn.Dropout(DROPOUT), nn.Linear(2 * WIDTH, WIDTH),
            )
            for _ in range(BLOCKS)
        )  # fmt: skip
        self.head = nn.Linear(WIDTH, 1)
        self.line = nn.Linear(2 * columns, 1)
        for layer in (self.head, self.line):  # the naive forecast at first
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, features: Tensor, context: Tensor) -> Tensor:
        """Outputs (B,), as those of the trees."""
        is_known = features.isfinite()
        scaled = ((features - self.middle) / self.spread).nan_to_num(0.0).clamp(-MOST, MOST)
        read = torch.cat([scaled, is_known.to(scaled.dtype)], 1)
        days = (context.clamp(-MOST, MOST) - 1).unflatten(1, (-1, HOURS_PER_DAY))
        shapes = nn.functional.gelu(self.day(days)).flatten(1)
        z = self.inputs(read) + self.days(nn.functional.dropout(shapes, DROPOUT, self.training))
        for column, embedding in zip(self.named, self.embeddings, strict=True):
            z = z + embedding(features[:, column].long())
        for block in self.blocks:
            z = z + block(z)
        return (self.head(nn.functional.gelu(z)) + self.line(read))[:, 0]


def fit_network(places: Sequence[Sequence[HourlyLoads]], ahead: LeadTime) -> Network:
    """A network that minimises the mean absolute error of four of five meters of each place; of
    its turns the one that is best for the others. The rate falls to zero."""
    torch.manual_seed(1)
    held_out = [meters[HELD_OUT] for meters in places]
    held_rows, held_targets = gather(held_out, ahead, TURNS, 20_000)
    best = np.inf
    for turn in range(TURNS):
        kept = [
            [m for i, m in enumerate(meters) if i % HELD_OUT.step != HELD_OUT.start]
            for meters in places
        ]
        rows, targets = gather(kept, ahead, turn)
        features, context, wanted = map(torch.from_numpy, (rows.features, rows.context, targets))
        if not turn:
            network = Network(ahead, rows.features)
            optimizer = torch.optim.AdamW(network.parameters(), RATE, weight_decay=0.01)
            steps = TURNS * (1 + len(targets) // BATCH)
            schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.01, steps)
        for some in torch.randperm(len(targets)).split(BATCH):
            optimizer.zero_grad()
            loss = (network(features[some], context[some]) - wanted[some]).abs().mean()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            schedule.step()
        network.eval()
        error = float(np.abs(outputs_of(network, held_rows) - held_targets).mean())
        print(f"turn {turn + 1}: {error:.4f} held out", flush=True)
        if error < best:
            best, state = error, {k: v.clone() for k, v in network.state_dict().items()}
        network.train()
    network.load_state_dict(state)
    return network.eval()


def outputs_of(network: Network, rows: Rows) -> Floats:
    """What a network says of windows."""
    with torch.no_grad():
        parts = [
            network(torch.from_numpy(features), torch.from_numpy(context))
            for features, context in zip(
                np.array_split(rows.features, 1 + len(rows.features) // 4096),
                np.array_split(rows.context, 1 + len(rows.features) // 4096),
                strict=True,
            )
        ]
    return torch.cat(parts).double().numpy()


def judge(
    site: str, ahead: LeadTime, network: Network, trees: dict[str, Any]
) -> list[dict[str, Any]]:
    """The errors of the network, of trees and of means, by meter, origin and number of weeks."""
    rows = []
    for test in tested(site, ahead):
        found = {name: public.outputs(model, test.inputs) for name, model in trees.items()}
        found["network"] = outputs_of(network, rows_of(test.loads, test.inputs, *test.windows))
        found |= {name: (found[one] + found[other]) / 2 for name, (one, other) in MEANS.items()}
        errors = {name: test.error_of(outputs) for name, outputs in found.items()}
        rows.append({"site": site, "ahead": ahead} | test.keys | errors)
    return rows


def public_network(model: PublicModel) -> Network:
    """The network of the meters on which trees are trained, which is kept beside them."""
    file = model.file.with_suffix(".pt")
    if not file.exists():
        started = time.process_time()
        network = fit_network([model.loads(site) for site in model.sites], model.ahead)
        torch.save(network.state_dict(), file)
        numbers = sum(parameter.numel() for parameter in network.parameters())
        print(f"{file.name}: {numbers} numbers, {time.process_time() - started:.0f} s", flush=True)
    state = torch.load(file)
    network = Network(model.ahead, np.zeros((1, len(state["middle"])), np.float32))
    network.load_state_dict(state)
    return network.eval()


def judge_site(site: str, ahead: LeadTime) -> list[dict[str, Any]]:
    """The errors at a site of models of the other sites of its kind."""
    model = public_of(site, ahead)
    models = {"trees": model, "other trees": replace(model, seed=2)}
    trees = {name: public.booster(one.train()) for name, one in models.items()}
    return judge(site, ahead, public_network(model), trees)


def judge_claims(errors: pd.DataFrame) -> pd.DataFrame:
    """The verdicts of N1 to N3 at each site: `gain` is by how much the error is lower."""
    rows = []
    for (ahead, site, weeks), some in errors.groupby(["ahead", "site", "weeks"], sort=False):
        for name, (better, than, margin) in CLAIMS.items():
            gains = some.assign(gain=some[than] - some[better])
            gains = gains.pivot(index="meter", columns="origin", values="gain")
            mean, low, high = interval(gains)
            said = "holds" if low > -margin else "does not hold" if high < -margin else "undecided"
            keys = {"ahead": ahead, "site": site, "claim": name, "weeks": weeks}
            means = {"error": some[better].mean(), "than": some[than].mean()}
            rows.append(keys | means | {"gain": mean, "low": low, "high": high, "verdict": said})
    return pd.DataFrame(rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train and judge; models that are there stay."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    judged = ["zonnedael", "fontana", *KINDS["buildings"]]
    parser.add_argument("--sites", nargs="+", choices=[*TABLES], default=judged)
    parser.add_argument("--ahead", nargs="+", choices=AHEADS, default=AHEADS)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    public.prepare(options.data, options.out / "models")
    rows: list[dict[str, Any]] = []
    for ahead in options.ahead:
        for site in options.sites:
            rows += judge_site(site, ahead)
            pd.DataFrame(rows).to_csv(options.out / "network.csv", index=False, float_format="%.6g")
    verdicts = judge_claims(pd.DataFrame(rows))
    verdicts.to_csv(options.out / "network_verdicts.csv", index=False, float_format="%.4f")
    print(verdicts.round(3).to_string())


if __name__ == "__main__":
    main()
