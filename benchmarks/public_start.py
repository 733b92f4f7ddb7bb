"""Whether a federation gains by starting from a public model: docs/public.md.

    python -m benchmarks.public_start DATA OUT [--sites zonnedael] [--ahead hour day]

DATA is as for `benchmarks.public`. OUT gets networks of public meters of other places for each
horizon, and `start-SITE-AHEAD.csv`: test MASE of federations that start from it or from
random parameters, and of trees that grow on a public model or start from nothing, by client and
origin. Prints the verdicts, 95 % intervals over meters and origins, and writes them to `start.csv`.
"""

import argparse
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks import starter
from benchmarks.public import AHEADS, LEAD_HOURS, TABLES, LeadTime, kind_of
from benchmarks.public_tables import interval
from plfl.data import sources
from plfl.data.windows import build
from plfl.experiments.baselines import evaluate
from plfl.experiments.train import train
from plfl.forecast.contents import describe
from plfl.results.records import write_models
from plfl.study import Study

SITES: dict[str, dict[str, Any]] = {
    "zonnedael": {"origins": ["2013-04-29", "2013-06-01"], "timezone": "Etc/GMT-1"},
    "sydney": {"origins": ["2012-07-15", "2013-01-13"], "timezone": "UTC", "stamp": "end"},
    "cambridge": {"origins": ["2019-07-14", "2019-12-01"], "timezone": "Etc/GMT"},
    "fox": {"origins": ["2017-07-16", "2017-12-03"], "timezone": "Etc/GMT+7"},
    "london": {"origins": ["2013-08-28", "2013-12-04"], "timezone": "Etc/GMT"},
    "panther": {"origins": ["2017-07-16", "2017-12-03"], "timezone": "Etc/GMT+5"},
    "bear": {"origins": ["2017-07-16", "2017-12-03"], "timezone": "Etc/GMT+8"},
}
"""When the tests of a site begin, and how its meters are read."""
NETWORKS = {"homes": ("london", "sydney"), "buildings": ("panther", "fox")}
"""The place whose public meters train the network of a kind, and the one that trains it for this
place."""
NETWORK_SINCE = {"panther": "2017-01-01", "fox": "2017-01-01"}
"""When the readings begin on which a network is trained, if not all are used."""
METERS = {"sydney": 30, "fox": 38, "bear": 14}
"""All meters of places that may have fewer than are asked for."""
CLIENTS = 24
"""Meters of a site, of which half trains what the other half receives."""
WEEKS = [1, 4]
LEFT_OUT = [
    *("naive_mean", "naive_weeks", "linear", "ridge", "ridge_lags"),
    *("lightgbm", "lightgbm_lags", "lightgbm_covariates", "lightgbm_pooled"),
]
"""Baselines about which nothing is claimed."""


def read_keys(site: str, data: Path, clients: int) -> dict[str, Any]:
    """The section `data` of a study of a site."""
    keys = dict(SITES[site])
    origins = keys.pop("origins")
    meters = {"exports": [str(data / TABLES[site])], "interval": 60, "stamp": "start"} | keys
    clients = min(clients, METERS.get(site, clients))
    sizes = {"source": "meters", "states": [site], "clients": clients, "features": ["load"]}
    return sizes | {"origins": origins, "meters": meters}


def network_keys(ahead: LeadTime) -> dict[str, Any]:
    """What all these studies have in common: the recipe's inputs and network (docs/inputs.md)."""
    covariates: list[dict[str, Any]] = [{"name": "lags", "days": [1, 2, 7], "around": 2}]
    covariates += [{"name": "level"}, {"name": "calendar", "harmonics": 4}]
    windows = {"look_back": 12, "look_ahead": 1, "horizons": LEAD_HOURS[ahead], "target": "change"}
    windows |= {"scaling": "per_client", "covariates": covariates}
    tuning = {"fine_tuning": {"head_epochs": 0, "epochs": 1, "most_steps": 50}}
    return {
        "windows": windows,
        "model": {"name": "mlp", "hidden": [32, 32]},
        "hyperparameters": {"client_opt": {"adamw": {"weight_decay": 0.0001}}, "method": tuning},
    }


def network_place(site: str) -> str:
    """The place whose public meters train the network for a site."""
    return next(place for place in NETWORKS[kind_of(site)] if place != site)


def network_study(place: str, ahead: LeadTime, data: Path) -> dict[str, Any]:
    """The study whose network is the public one of a place."""
    keys = read_keys(place, data, 60)
    del keys["origins"]  # all readings train
    if place in NETWORK_SINCE:
        keys["meters"]["since"] = NETWORK_SINCE[place]
    return network_keys(ahead) | {
        "name": f"public-{place}-{ahead}",
        "data": keys,
        "grid": grid(["P1"], [1]),
        "federation": {"rounds": 40, "local_steps": 25, "batch_size": 64, "loss": "mae"},
    }


def grid(sharing: list[str], seeds: list[int]) -> dict[str, Any]:
    """The cells of a study."""
    algorithms = {"method": ["fine_tuning"], "client_opt": ["adamw"], "server_opt": ["fedavg"]}
    return {"sharing": sharing, "seeds": seeds, **algorithms}


def start_study(
    site: str, ahead: LeadTime, data: Path, network: Path, trees: Path
) -> dict[str, Any]:
    """The study of a site; `network` and `trees`: the public models."""
    starts = {"nothing": None, "public": str(network)}
    public = {"kind": kind_of(site), "file": str(trees)}
    further = [
        {"name": "public"} | public,
        {"name": "lightgbm_federated", "turns": 2},
        {"name": "lightgbm_on_public", "turns": 2} | public,
    ]
    return network_keys(ahead) | {
        "name": f"start-{site}-{ahead}",
        "data": read_keys(site, data, CLIENTS),
        "sharing": {"P3": [], "P1": ["*"], "unseen": {"join": "unseen", "turns": 2}},
        "grid": grid(["P3", "P1", "unseen"], [1, 2, 3])
        | {"federation.start": starts, "windows.history": WEEKS},
        "federation": {"rounds": 8, "local_steps": 25, "batch_size": 64, "loss": "mae"},
        "tuning": {"search": {"federation.rounds": [1, 2, 4, 8]}},
        "baselines": {
            "trees": 60,
            "search": {"leaves": [7, 31], "learning_rate": [0.1]},
            "max_bin": 31,
            "leave_out": LEFT_OUT,
            "further": further,
        },
    }


def pairs_of(scores: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """For each claim its name, and the differences of errors (meters × origins) of a site, horizon
    and number of weeks, positive where they support it. `scores`: test MASE by client and origin,
    mean over seeds, a column for each forecaster."""
    for name, (better, than) in CLAIMS.items():
        if {better, than} <= {*scores}:
            gains = scores.assign(gain=scores[than] - scores[better])
            yield name, gains.pivot(index="client", columns="origin", values="gain")


CLAIMS = {
    "S1": ("P1 from public", "P1 from nothing"),
    "S2": ("unseen-global from public", "unseen-global from nothing"),
    "S3": ("lightgbm_on_public", "lightgbm_federated"),
    "S4": ("lightgbm_on_public", "public"),
}
"""The forecasters that have the lower error, and the other ones (docs/public.md)."""


def scored(study: Study) -> pd.DataFrame:
    """The test MASE of each client in each variant, with a column for each forecaster."""
    (site,) = study.data.states
    tables = sources.source_of(study.data).load(study.data, site)
    parts = []
    for label, variant in study.variants.items():
        place = dict(part.split("=", 1) for part in label.split(","))
        data = build(tables, variant.windows, origin=variant.data.origin_date)
        rows = []
        if place["start"] == "nothing":
            keys = variant.baselines
            table = evaluate(
                site, data, keys.fit_settings, variant.task, keys.further, keys.leave_out
            ).scores
            rows.append(table.rename(columns={"baseline": "forecaster"}))
        for result in train(variant, variant.cells, data).values():
            last = result.records[result.records["round"] == result.records["round"].max()]
            names = last["sharing"] + last["model"].map({"local": "", "global": "-global"})
            rows.append(last.assign(forecaster=names + f" from {place['start']}"))
        table = pd.concat(rows)
        table = table[table["split"] == "test"].assign(
            weeks=place["history"], origin=place["origins"]
        )
        parts.append(table[["client", "weeks", "origin", "forecaster", "mase"]])
        print(f"{study.name}, {label}", flush=True)
    keys_of_rows = ["weeks", "client", "origin"]
    means = pd.concat(parts).groupby([*keys_of_rows, "forecaster"])["mase"].mean()
    return means.unstack("forecaster").reset_index()


def judge(file: Path) -> pd.DataFrame:
    """Print the errors and the verdicts of a file of scores; a row for each verdict."""
    scores = pd.read_csv(file)
    means = scores.drop(columns=["client", "origin"]).groupby("weeks").mean()
    print(f"{file.stem}\n{means.round(3).T.to_string()}")
    rows = []
    for weeks, part in scores.groupby("weeks"):
        for name, gains in pairs_of(part):
            mean, low, high = interval(gains)
            said = "holds" if low > 0 else "does not hold" if high < 0 else "undecided"
            print(f"{name}, {weeks}: {said}: {mean:+.3f} [{low:+.3f}, {high:+.3f}]", flush=True)
            errors = dict(zip(("error", "than"), means.loc[weeks, [*CLAIMS[name]]], strict=True))
            interval_ends = {"gain": mean, "low": low, "high": high, "verdict": said}
            rows.append({"claim": name, "weeks": weeks} | errors | interval_ends)
    return pd.DataFrame(rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train and judge; what is there stays."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--sites", nargs="+", default=[*SITES])
    parser.add_argument("--ahead", nargs="+", choices=AHEADS, default=AHEADS)
    options = parser.parse_args(arguments)
    data, out = options.data.resolve(), options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    verdicts = []
    for ahead, site in itertools.product(options.ahead, options.sites):
        place, file = network_place(site), out / f"start-{site}-{ahead}.csv"
        network = out / f"public-{place}-{ahead}.safetensors"
        trees = out / f"without-{site}.xz"
        if not trees.exists():
            starter.main([str(data), str(out), "--without", site])
        if not network.exists():
            write_network(Study.parse(network_study(place, ahead, data), place), network)
        if not file.exists():
            study = Study.parse(start_study(site, ahead, data, network, trees), site)
            scored(study).to_csv(file, index=False, float_format="%.6g")
        verdicts.append(judge(file).assign(site=site, ahead=ahead))
    table = pd.concat(verdicts).set_index(["ahead", "site"])
    table.to_csv(out / "start.csv", float_format="%.4f")


def write_network(study: Study, path: Path) -> None:
    """Train the public network and keep it."""
    (cell,) = study.cells
    tables = sources.source_of(study.data).load(study.data, cell.state)
    data = build(tables, study.windows)
    models = train(study, [cell], data)[cell].models
    assert models is not None
    write_models(path, models, describe(study, cell, data, {}))


if __name__ == "__main__":
    main()
