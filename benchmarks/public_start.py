"""Whether a federation gains by starting from a public model: docs/public.md.

    python -m benchmarks.public_start DATA OUT [--sites zonnedael] [--ahead hour day]

DATA is as for `benchmarks.public`. Writes and runs two kinds of studies in OUT: `public-KIND-AHEAD`
trains a network on public meters of other places, and `start-SITE-AHEAD` compares federations that
start from it with those that start from random parameters, and trees that start from a public
model with those that start from nothing. Its claims were written before the runs.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from benchmarks import starter
from benchmarks.public import AHEADS, LEADS, TABLES, LeadTime, kind_of

SITES: dict[str, dict[str, Any]] = {
    "zonnedael": {"origins": ["2013-04-29", "2013-06-01"], "timezone": "Etc/GMT-1"},
    "sydney": {"origins": ["2012-07-15", "2013-01-13"], "timezone": "UTC", "stamp": "end"},
    "cambridge": {"origins": ["2019-07-14", "2019-12-01"], "timezone": "Etc/GMT"},
    "fox": {"origins": ["2017-07-16", "2017-12-03"], "timezone": "Etc/GMT+7"},
    "london": {"timezone": "Etc/GMT"},
    "panther": {"timezone": "Etc/GMT+5", "since": "2017-01-01"},
}
"""When the tests of a site begin, and how its meters are read."""
NETWORKS = {"homes": "london", "buildings": "panther"}
"""The public meters on which the network of a kind is trained."""
CLIENTS = 24
"""Meters of a site, of which half trains what the other half receives."""
WEEKS = [1, 4]
LEFT_OUT = [
    *("naive_mean", "naive_weeks", "linear", "ridge", "ridge_lags"),
    *("lightgbm", "lightgbm_lags", "lightgbm_covariates", "lightgbm_pooled"),
]
"""Baselines about which nothing is claimed."""
CELL = "P1-fine_tuning-adamw-fedavg-1"


def read_keys(site: str, data: Path, clients: int) -> dict[str, Any]:
    """The section `data` of a study of a site."""
    keys = dict(SITES[site])
    origins = {"origins": keys.pop("origins")} if "origins" in keys else {}
    meters = {"exports": [str(data / TABLES[site])], "interval": 60, "stamp": "start"} | keys
    sizes = {"source": "meters", "states": [site], "clients": clients, "features": ["load"]}
    return sizes | origins | {"meters": meters}


def network_keys(ahead: LeadTime) -> dict[str, Any]:
    """What all these studies have in common: the recipe's inputs and network (docs/inputs.md)."""
    covariates: list[dict[str, Any]] = [{"name": "lags", "days": [1, 2, 7], "around": 2}]
    covariates += [{"name": "level"}, {"name": "calendar", "harmonics": 4}]
    windows = {"look_back": 12, "look_ahead": 1, "horizons": LEADS[ahead], "target": "change"}
    windows |= {"scaling": "per_client", "covariates": covariates}
    tuning = {"fine_tuning": {"head_epochs": 0, "epochs": 1, "most_steps": 50}}
    return {
        "windows": windows,
        "model": {"name": "mlp", "hidden": [32, 32]},
        "hyperparameters": {"client_opt": {"adamw": {"weight_decay": 0.0001}}, "method": tuning},
    }


def network_study(kind: str, ahead: LeadTime, data: Path) -> dict[str, Any]:
    """The study whose network is the public one of a kind."""
    return network_keys(ahead) | {
        "name": f"public-{kind}-{ahead}",
        "data": read_keys(NETWORKS[kind], data, 60),
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
        "claims": claims(),
    }


def claims() -> list[dict[str, Any]]:
    """S1 to S4 of docs/public.md, each with one and with four weeks."""
    pairs = [(f"start=public/{name}", f"start=nothing/{name}") for name in ("P1", "unseen-global")]
    pairs.append(("baseline-lightgbm_on_public", "baseline-lightgbm_federated"))
    pairs.append(("baseline-lightgbm_on_public", "baseline-public"))
    return [
        {"better": better, "than": than, "where": {"windows.history": weeks}}
        for better, than in pairs
        for weeks in WEEKS
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the studies and run them; what is there stays."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--sites", nargs="+", default=["zonnedael", "sydney", "cambridge", "fox"])
    parser.add_argument("--ahead", nargs="+", choices=AHEADS, default=AHEADS)
    options = parser.parse_args(arguments)
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)

    def run_plfl(*words: str) -> None:
        subprocess.run([sys.executable, "-m", "plfl", *words], check=True, cwd=out)

    def write_study(keys: dict[str, Any]) -> str:
        path = out / f"{keys['name']}.yaml"
        path.write_text(yaml.safe_dump(keys, sort_keys=False))
        return path.name

    for site in options.sites:
        trees = out / f"without-{site}.xz"
        if not trees.exists():
            starter.main([str(options.data), str(out), "--without", site])
        for ahead in options.ahead:
            kind = kind_of(site)
            network = out / f"public-{kind}-{ahead}.safetensors"
            if not network.exists():
                file = write_study(network_study(kind, ahead, options.data.resolve()))
                cell = f"{NETWORKS[kind]}-{CELL}"
                run_plfl("run", file, cell, "--models", network.name)
            keys = start_study(site, ahead, options.data.resolve(), network, trees)
            run_plfl("study", write_study(keys), "--cores", "1")


if __name__ == "__main__":
    main()
