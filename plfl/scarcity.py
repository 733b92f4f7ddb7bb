"""When does sharing pay? The study's splits against the weeks of training history per client.

Every history ends where the validation part begins and the test part is always the same, so the
only thing that changes is how much a client has to learn from. All models take as many steps at
every history, and the last round is scored: a meter with a week of history has no validation part
that could stop it earlier.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator
from numpy.typing import NDArray

from plfl import federation
from plfl.audit import Load, Progress, spread
from plfl.calibration import calibrate, head_mask
from plfl.data.windows import WEEK, Dataset
from plfl.errors import ConfigError, DataError
from plfl.experiment import federation_of, train
from plfl.figures.style import (
    COLUMN,
    PAGE,
    colour,
    fit,
    log_if_wide,
    mark_sample,
    panels,
    save,
    style,
)
from plfl.files import atomic
from plfl.fleet import Fleet
from plfl.forecaster import Forecaster
from plfl.methods.fedopt import FedOpt
from plfl.results import scores
from plfl.results.collect import SEASONS, describe_clients
from plfl.results.statistics import interval
from plfl.study import Candidate, Cell, Study, Tuning
from plfl.training import Engine, LocalTask, batches, engine

WEEKS = (1, 2, 4, 8, 16, 40)
"""Histories of the study; 40 weeks are nearly all of the training part of a year."""
CENTRALISED = "centralised"
"""One model trained on the windows of all clients together."""
CALIBRATED = "calibrated"
"""A client that joined late: the head of the others' last global model, trained on its history."""
PERSISTENCE = "persistence"

_BASELINES = {
    PERSISTENCE: {"color": "0.55", "linewidth": 0.8, "linestyle": ":"},
    "naive_day": {"color": "0.55", "linewidth": 0.8, "linestyle": "--"},
    "naive_week": {"color": "0.55", "linewidth": 0.8, "linestyle": "-."},
}
CAPTION = (
    "Test MASE against weeks of training history per client, always on the same test part. Error"
    " bars are 95 % bootstrap intervals over clients, each the mean of its seeds."
)
_LABELS = {
    CALIBRATED: "calibrated (head only)",
    "naive_day": "seasonal naive, day",
    "naive_week": "seasonal naive, week",
}


def measure(
    study: Study, load: Load, progress: Progress = lambda what, done, total: None
) -> pd.DataFrame:
    """Train the study's splits, and one model for all clients, at every history there is data for.

    Args:
        study: names one method, ClientOpt and ServerOpt; its splits and seeds are compared.
        load: makes the dataset of a state as a study's `data` and `windows` want it.
        progress: is told what is trained, how many rounds are done, and how many there are.

    Returns:
        Test MASE at the last round, one row a state, history, forecaster, model, seed and client:
        `state`, `weeks`, `forecaster` (a split, `centralised` or `calibrated`), `model` (`local`,
        `global`), `seed`, `client`, `mase`. Of `calibrated` the global model is the one that the
        client received, the local one that with a head of its own. The baselines `persistence`,
        `naive_day` and `naive_week` depend on neither history nor seed: there `weeks` and `seed`
        are empty and `model` is "baseline".

    Raises:
        ConfigError: the grid has more than one method, ClientOpt or ServerOpt, or there are late
            clients and scaling is pooled.
        DataError: the training part is shorter than the shortest history, no client can have a
            MASE, or see `load`.
    """
    study = _checked(study)
    rounds = study.federation.rounds
    states, seeds = study.data.states, study.grid.seeds
    full = {state: load(study, state) for state in states}
    histories = {state: _histories(state, dataset) for state, dataset in full.items()}
    groups = {state: _late(study, dataset) for state, dataset in full.items()}
    of_others = len(seeds) * sum(map(len, groups.values()))
    total = rounds * ((1 + len(seeds)) * sum(map(len, histories.values())) + of_others)
    done = 0
    tables = [_baselines(state, dataset) for state, dataset in full.items()]
    for state in states:
        datasets = {}
        cells = [cell for cell in study.cells if cell.state == state]
        for weeks in histories[state]:
            what = f"{state}, {_weeks([weeks])}"
            windows = study.windows.model_copy(update={"history": weeks})
            of_history = study.model_copy(update={"windows": windows})
            dataset = datasets[weeks] = load(of_history, state)
            trainings = [
                partial(_federated, of_history, cells, dataset),
                *(partial(_centralised, of_history, cells[0], s, dataset) for s in seeds),
            ]
            for training in trainings:
                found = training(partial(_tell, progress, what, done, total))
                tables.append(found.assign(state=state, weeks=weeks))
                done += rounds
        for late, seed in itertools.product(groups[state], seeds):
            cell = replace(cells[0], seed=seed)
            others = np.delete(np.arange(len(full[state].clients)), late)
            tell = partial(_tell, progress, f"{state}, late clients", done, total)
            model = _last_global(study, cell, _part(full[state], others), tell)
            joined = {weeks: _part(dataset, late) for weeks, dataset in datasets.items()}
            tables.append(_calibrated(study, cell, model, joined).assign(state=state))
            done += rounds
    columns = ["state", "weeks", "forecaster", "model", "seed", "client", "mase"]
    return pd.concat(tables, ignore_index=True)[columns]


def _tell(progress: Progress, what: str, before: int, total: int, t: int) -> None:
    progress(what, before + t, total)


def _checked(study: Study) -> Study:
    grid = study.grid
    axes = {"method": grid.method, "client_opt": grid.client_opt, "server_opt": grid.server_opt}
    if problems := [
        f"grid.{axis}: {values} are {len(values)}, but the scarcity study takes a single one"
        for axis, values in axes.items()
        if len(values) > 1
    ]:
        raise ConfigError(study.name, problems)
    if study.scarcity.late and study.windows.scaling == "pooled":
        problem = (
            "windows.scaling: 'pooled' would tell a federation of the limits of clients that join "
            "after it; set per_client, or scarcity.late to 0"
        )
        raise ConfigError(study.name, [problem])
    last_only = study.federation.model_copy(update={"evaluate_every": study.federation.rounds})
    return study.model_copy(update={"federation": last_only, "tuning": Tuning()})


def _histories(state: str, dataset: Dataset) -> list[int]:
    """The `WEEKS` that every client has."""
    rows = int((dataset.bounds[:, 1] - dataset.bounds[:, 0]).min())
    available = rows * dataset.interval / WEEK
    if found := [weeks for weeks in WEEKS if weeks <= available]:
        return found
    raise DataError(
        f"{state}: the training part has {available:.1f} weeks, less than the shortest history of "
        f"the scarcity study ({WEEKS[0]}); give longer series or a larger share in windows.split"
    )


def _baselines(state: str, dataset: Dataset) -> pd.DataFrame:
    clients = describe_clients(state, dataset)
    has_mase = clients["persistence_mae_test"] > 0
    if not has_mase.any():
        raise DataError(
            f"{state}: the load of no client ever changes in its test part, so there is no MASE; "
            "give longer series or a larger share of test in windows.split"
        )
    columns = {PERSISTENCE: has_mase.astype(float).where(has_mase)}
    columns |= {naive: clients[f"{naive}_mase_test"] for naive in SEASONS}
    table = pd.DataFrame(columns).assign(client=clients["client"], state=state)
    table = table.melt(["state", "client"], var_name="forecaster", value_name="mase")
    return table.assign(model="baseline", weeks=np.nan, seed=np.nan)


def _federated(
    study: Study, cells: list[Cell], dataset: Dataset, tell: Callable[[int], None]
) -> pd.DataFrame:
    results = train(study, cells, dataset, tell)
    records = pd.concat([result.records for result in results.values()], ignore_index=True)
    test = records[(records["split"] == "test") & (records["round"] == study.federation.rounds)]
    return test.rename(columns={"personalization": "forecaster"})[
        ["forecaster", "model", "seed", "client", "mase"]
    ]


def _centralised(
    study: Study, cell: Cell, seed: int, dataset: Dataset, tell: Callable[[int], None]
) -> pd.DataFrame:
    """One model on the windows of all clients, which sees as many of them as all clients together.

    Its optimiser is never reset, as is usual where nobody has to send anything.
    """
    forecaster = Forecaster.of(study.model, len(dataset.columns), dataset.look_back)
    machine = engine(study.compute, forecaster, dataset)
    settings, optimiser = study.federation, study.client_optimiser(cell)
    clients = len(dataset.clients)
    pooled = np.concatenate([dataset.starts(i, "train") for i in range(clients)])
    row = forecaster.initial(seed).to(machine.device, machine.dtype)[None].clone()
    state = optimiser.init(row)
    steps = clients * settings.local_steps
    for t in range(1, settings.rounds + 1):
        drawn = pooled[
            batches.draw(seed, "/centralised", t, len(pooled), steps, settings.batch_size)
        ]
        behind = torch.full((1, 1), (t - 1) * steps, dtype=torch.float64, device=machine.device)
        machine.train(
            LocalTask(
                optimiser=optimiser,
                rows=row,
                batches=torch.from_numpy(drawn)[None].to(machine.device),
                # Nothing is shared, so that no proximal term acts.
                shared=torch.zeros(row.shape[1], dtype=torch.bool, device=machine.device),
                state=state,
                steps_taken=behind,
            )
        )
        tell(t)
    table = _test_scores(machine, dataset, row.expand(clients, -1).contiguous())
    return table.assign(forecaster=CENTRALISED, model="global", seed=seed)


def _late(study: Study, dataset: Dataset) -> list[NDArray[np.int64]]:
    """Groups of clients that join late by turns: each client is in one of them.

    Raises:
        DataError: there is only one client.
    """
    clients, share = len(dataset.clients), study.scarcity.late
    if not share:
        return []
    if clients < 2:
        raise DataError(
            "scarcity.late: a client joins the federation of others, but there is only one; set it "
            "to 0, or raise data.clients"
        )
    turns = -(-clients // max(1, round(share * clients)))
    return [np.arange(first, clients, turns) for first in range(turns)]


def _part(dataset: Dataset, clients: NDArray[np.int64]) -> Dataset:
    """Some clients of a dataset, which are scaled by themselves; the rows of others stay unused."""
    fields = ("clients", "bounds", "load_offset", "load_scale")
    return replace(dataset, **{name: getattr(dataset, name)[clients] for name in fields})


def _last_global(
    study: Study, cell: Cell, members: Dataset, tell: Callable[[int], None]
) -> torch.Tensor:
    """Parameters (P,) that the server has after the last round of a federation that shares all.

    It is the plain round of the study's ClientOpt and ServerOpt on all the members' history; of a
    server that has a model for each member it is their mean.
    """
    forecaster = Forecaster.of(study.model, len(members.columns), members.look_back)
    machine = engine(study.compute, forecaster, members)
    fleet = Fleet(members, machine, study.federation, cell.seed)
    everything = study.model_copy(update={"personalization": {cell.personalization: ["*"]}})
    options = study.client_optimiser(cell), study.server_optimiser(cell)
    one = federation_of(everything, cell, Candidate(*options, FedOpt()), forecaster, fleet)
    rounds = range(1, study.federation.rounds + 1)
    federation.run([one], machine, study.federation, rounds, lambda finished: tell(finished.t))
    return one.global_models.mean(dim=0)


def _calibrated(
    study: Study, cell: Cell, model: torch.Tensor, histories: Mapping[int, Dataset]
) -> pd.DataFrame:
    """Scores of clients that got `model`, before and after they trained its head, by history."""
    tables = []
    for weeks, dataset in histories.items():
        forecaster = Forecaster.of(study.model, len(dataset.columns), dataset.look_back)
        machine = engine(study.compute, forecaster, dataset)
        fleet = Fleet(dataset, machine, study.federation, cell.seed)
        given = model.expand(len(dataset.clients), -1).contiguous()
        head = torch.from_numpy(head_mask(forecaster, study.scarcity.head)).to(machine.device)
        trained = calibrate(
            given,
            fleet,
            head,
            study.client_optimiser(cell),
            epochs=study.scarcity.epochs,
            most_steps=study.federation.rounds * study.federation.local_steps,
        )
        tables += [
            _test_scores(machine, dataset, rows).assign(model=kind, weeks=weeks)
            for kind, rows in (("local", trained), ("global", given))
        ]
    return pd.concat(tables, ignore_index=True).assign(forecaster=CALIBRATED, seed=cell.seed)


def _test_scores(machine: Engine, dataset: Dataset, rows: torch.Tensor) -> pd.DataFrame:
    """Test MASE of each client with its model of `rows` (N, P)."""
    starts = [dataset.starts(i, "test") for i in range(len(dataset.clients))]
    forecasts = machine.predict(rows, [torch.from_numpy(s).to(machine.device) for s in starts])
    mase = [
        scores.mase(
            dataset.load[dataset.target_rows(starts[i])],
            dataset.load_offset[i] + dataset.load_scale[i] * forecast.double().cpu().numpy(),
            dataset.load[dataset.persistence_rows(starts[i])],
        )
        for i, forecast in enumerate(forecasts)
    ]
    return pd.DataFrame({"client": dataset.clients.tolist(), "mase": mase})


def summarise(table: pd.DataFrame) -> pd.DataFrame:
    """Means over clients and seeds of what `measure` gave, with intervals.

    One row a state, forecaster, model and history: `mase`; `std` over seeds of the mean over
    clients; `low` and `high`, the bootstrap interval over clients of their means over seeds;
    `clients`, those that have a MASE; `seeds`. A mean with a diverged client is NaN.
    """
    rows = []
    keys = ["state", "forecaster", "model", "weeks"]
    for values, part in _scored(table).groupby(keys, sort=False, dropna=False):
        wide = _by_client(part)
        by_client = wide.mean(axis=1)
        finite = bool(np.isfinite(by_client).all())
        low, high = interval([by_client]) if finite else (np.nan, np.nan)
        means = wide.mean(axis=0)
        rows.append(
            dict(zip(keys, values, strict=True))
            | {
                "mase": by_client.mean(),
                "std": means.std(ddof=1) if len(means) > 1 else np.nan,
                "low": low,
                "high": high,
                "clients": len(by_client),
                "seeds": len(means),
            }
        )
    return pd.DataFrame(rows)


def _scored(table: pd.DataFrame) -> pd.DataFrame:
    """Without the clients whose persistence errs nowhere, which have no MASE."""
    base = table[table["forecaster"] == PERSISTENCE].set_index(["state", "client"])["mase"]
    return table[table.set_index(["state", "client"]).index.isin(base.index[base.notna()])]


def _by_client(part: pd.DataFrame) -> NDArray[np.float64]:
    """MASE (clients, seeds) of one forecaster at one history; clients in the order of names."""
    wide = part.assign(seed=part["seed"].fillna(-1)).pivot_table(
        index="client", columns="seed", values="mase", dropna=False
    )
    return wide.to_numpy(float)


def crossings(table: pd.DataFrame) -> list[str]:
    """In words: which forecaster is better at which histories, for every two that are compared.

    Compared are the local models of the splits, and of clients that joined late, with each other,
    with the centralised model and with persistence, client by client. Between two histories the
    crossing is put where a straight line over log weeks between the mean differences is 0. A
    difference is clear where its bootstrap interval over clients leaves out 0.
    """
    lines = []
    for state, of_state in _scored(table).groupby("state", sort=False):
        shown = of_state[(of_state["model"] == "local") | (of_state["forecaster"] == CENTRALISED)]
        names = shown["forecaster"].unique().tolist()
        grouped = shown.groupby(["forecaster", "weeks"], sort=False)
        by_client = {key: _by_client(part).mean(axis=1) for key, part in grouped}
        weeks = sorted(shown["weeks"].unique().tolist())
        for a, b in (*itertools.combinations(names, 2), *((n, PERSISTENCE) for n in names)):
            # Persistence has a MASE of one by definition.
            differences = [by_client[a, w] - by_client.get((b, w), 1.0) for w in weeks]
            lines.append(f"{state}: {_sentence(a, b, weeks, differences)}")
    return lines


def _sentence(a: str, b: str, weeks: list[float], differences: list[NDArray[np.float64]]) -> str:
    means = np.array([d.mean() for d in differences])
    if not np.isfinite(means).all():
        return f"{a} and {b} cannot be compared: one of them diverged."
    if all((d == 0).all() for d in differences):
        return f"{a} and {b} are the same at every history."
    better = [a if mean < 0 else b for mean in means]
    turns = [
        (better[i], _crossing(*np.log(weeks[i : i + 2]), *means[i : i + 2]))
        for i in range(len(weeks) - 1)
        if better[i] != better[i + 1]
    ]
    clear = [_excludes_zero(d) for d in differences]
    if not any(clear):
        near = f" (the means cross near {_weeks(at for _, at in turns)})" if turns else ""
        return f"{a} and {b} cannot be told apart at any history{near}."
    (first, at), *others = turns or [(better[0], np.nan)]
    text = f"{first} is better than {b if first == a else a}"
    if not turns:
        return f"{text} at every history; clearly so at {_weeks(itertools.compress(weeks, clear))}."
    text += f" up to about {_weeks([at])}"
    text += "".join(f", {name} up to about {_weeks([at])}" for name, at in others)
    surely = "; ".join(
        f"{name} at {_weeks(itertools.compress(weeks, sure))}"
        for name in (a, b)
        if any(sure := [c and n == name for c, n in zip(clear, better, strict=True)])
    )
    return f"{text}, {better[-1]} beyond; clearly so: {surely}."


def _weeks(values: Iterable[float]) -> str:
    *others, last = (f"{value:.2g}" for value in values)
    return (
        f"{', '.join(others)} and {last} weeks" if others else f"{last} week{'s' * (last != '1')}"
    )


def _excludes_zero(difference: NDArray[np.float64]) -> bool:
    low, high = interval([difference])
    return bool(low > 0 or high < 0)


def _crossing(x0: float, x1: float, y0: float, y1: float) -> float:
    """Weeks at which the line through (log weeks, difference) is 0."""
    return float(np.exp(x0 + (x1 - x0) * y0 / (y0 - y1)))


def as_text(study: Study, table: pd.DataFrame) -> str:
    """The scores as tables, and the crossing points in words."""
    sample = " (sample data)" if study.is_sample else ""
    lines = [
        f"{study.name}{sample}: test MASE by weeks of history, mean over clients{spread(study)}"
    ]
    summary = summarise(table)
    for state, part in summary.groupby("state", sort=False):
        baselines = part[part["model"] == "baseline"].set_index("forecaster")
        # Where nothing is shared the global models are the local ones.
        alone = part["forecaster"].map(
            lambda name: name in study.personalization and study.shares_nothing(name)
        )
        trained = part[(part["model"] != "baseline") & ~(alone & (part["model"] == "global"))]
        trained = trained.assign(
            forecaster=trained["forecaster"].map(label),
            text=[_text(m, s) for m, s in zip(trained["mase"], trained["std"], strict=True)],
        )
        wide = trained.pivot_table(
            index=["forecaster", "model"],
            columns="weeks",
            values="text",
            aggfunc="first",
            sort=False,
        )
        wide.columns = [f"{weeks:g} wk" for weeks in wide.columns]
        lines += ["", f"{state}{sample}", wide.to_string()]
        lines += [
            f"{label(name)}: {baselines['mase'].get(name, np.nan):.3f}" for name in _BASELINES
        ]
    return "\n".join([*lines, "", *(f"- {line}" for line in crossings(table))])


def label(forecaster: str) -> str:
    """A forecaster in print."""
    return _LABELS.get(forecaster, forecaster)


def _text(mase: float, std: float) -> str:
    return f"{mase:.3f} ± {std:.3f}" if np.isfinite(std) else f"{mase:.3f}"


def draw(study: Study, table: pd.DataFrame) -> Figure:
    """MASE of what the clients hold against weeks of history: a panel a state, a line a split.

    Error bars are the intervals of `summarise`, set apart a little so that all can be seen.
    """
    summary = summarise(table)
    states = study.data.states
    wide = len(states) > 1
    figure, axes = panels(1, len(states), (PAGE if wide else COLUMN, 2.8))
    lines = [(split, "local") for split in study.grid.personalization] + [(CENTRALISED, "global")]
    if CALIBRATED in set(summary["forecaster"]):
        lines.append((CALIBRATED, "local"))
    shown = []
    for axis, state in zip(axes[0], states, strict=True):
        part = summary[summary["state"] == state].set_index(["forecaster", "model"])
        for k, key in enumerate(lines):
            # The grey among the colours is that of the baselines.
            look = colour(5 if key[0] == CALIBRATED else k)
            line = part.loc[[key]]
            ends = line[["low", "mase", "high"]].to_numpy(float)
            axis.errorbar(
                line["weeks"] * 1.05 ** (k - (len(lines) - 1) / 2),
                line["mase"],
                yerr=np.diff(ends, axis=1).T,
                label=label(key[0])
                if key[0] in (CENTRALISED, CALIBRATED)
                else f"{key[0]}, local model",
                elinewidth=0.6,
                capsize=1.5,
                **look,
            )
            shown.append(ends)
        for name, look in _BASELINES.items():
            level = part["mase"].loc[[(name, "baseline")]].iloc[0]
            if np.isfinite(level):
                axis.axhline(level, label=label(name), zorder=1, **look)
        axis.set_xscale("log")
        axis.xaxis.set_major_locator(FixedLocator(sorted(part["weeks"].dropna().unique())))
        axis.xaxis.set_minor_locator(NullLocator())
        axis.xaxis.set_major_formatter("{x:g}")
        axis.grid(axis="y")
        axis.set_xlabel("Weeks of training history per client")
        axis.set_title(fit(state, 40))
    log_if_wide(axes[0], np.concatenate(shown), 4, ticks=(1, 1.5, 2, 3, 5, 7))
    axes[0, 0].set_ylabel("Test MASE")
    # A panel may lack a naive forecast that has no week of data before its test part.
    handles = {
        label: handle
        for axis in axes[0]
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    # matplotlib lists error bars last.
    naive = [label(name) for name in _BASELINES]
    order = sorted(handles, key=lambda label: label in naive)
    figure.legend(
        handles=[handles[label] for label in order],
        loc="outside lower center",
        ncols=4 if wide else 2,
    )
    if study.is_sample:
        mark_sample(figure)
    return figure


def write(study: Study, table: pd.DataFrame) -> list[Path]:
    """Write scarcity.csv beside the study's results, and the figure; return the paths.

    Raises:
        PlflError: the disk is full or a folder cannot be written.
    """
    path = study.results / "scarcity.csv"
    with atomic(path) as temporary:
        named = table.assign(data=study.data.source)
        named.to_csv(temporary, index=False, float_format="%.6g", lineterminator="\n")
    with style():
        figure = draw(study, table)
    return [path, *save(figure, study.figures / "scarcity")]
