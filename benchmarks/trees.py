r"""Trees on pooled readings, and federated ones, on one site of measured meters.

    python -m benchmarks.trees FOLDER --site fox --weeks 1 4 16   # of the wide tables

    python -m benchmarks.trees FOLDER --study map-homes --site london --origin 2013-12-04 \
        --meters 200 --weeks 1

The windows and the settings are those of a study of `config/`. Half of the meters get what
the other half has trained (`turns: 2`), so that a received model never saw them. Prints the mean
MASE over meters of each baseline, and the mean that a client sends.
"""

import argparse
from pathlib import Path
from typing import Any

import yaml

from plfl.baselines.trees import TreeSettings
from plfl.data import sources
from plfl.experiments.baselines import evaluate
from plfl.study import Study
from plfl.tasks import task_of


def study(arguments: argparse.Namespace, weeks: int) -> Study:
    """A variant of a study of `config/` with one cell."""
    path = Path(__file__).parents[1] / "config" / f"{arguments.study}.yaml"
    raw: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    site, meters = arguments.site, raw["data"]["meters"]
    table = arguments.folder.resolve() / Path(meters["exports"][0].format(state=site)).name
    zones = {k: v for k, v in meters.get("timezones", {}).items() if site in k.lower()}
    raw["data"] |= {"states": [site], "clients": arguments.meters, "origins": [arguments.origin]}
    meters |= {"exports": [str(table)], "timezones": zones}
    raw["windows"]["history"] = weeks
    # With unseen clients, the others have their whole history.
    raw["grid"] = {"sharing": ["P3", "unseen"], "client_opt": ["adamw"], "seeds": [1]}
    del raw["claims"], raw["hyperparameters"]["method"]
    settings = {"trees": arguments.trees, "leaves": arguments.leaves, "max_bin": arguments.bins}
    turns: dict[str, Any] = {"turns": 2}
    further = [{"name": name} | turns for name in ("lightgbm_others", "lightgbm_federated")]
    raw["baselines"] |= settings | {"further": further}
    raw["baselines"]["leave_out"].remove("lightgbm_lags")
    raw["baselines"]["leave_out"] += ["naive_day", "naive_week"]
    return Study.parse(raw, path.name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--study", default="map")
    parser.add_argument("--site", default="fox")
    parser.add_argument("--origin", default="2017-09-24")
    parser.add_argument("--meters", type=int, default=24)
    parser.add_argument("--weeks", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--trees", type=int, default=60)
    parser.add_argument("--leaves", type=int, default=15)
    parser.add_argument("--bins", type=int, default=31)
    arguments = parser.parse_args()
    for weeks in arguments.weeks:
        variant = study(arguments, weeks)
        data = sources.of(variant.data).examples_of(variant, arguments.site)
        settings = variant.baselines
        further, left_out = settings.further, settings.leave_out
        evaluated = evaluate(
            arguments.site, data, TreeSettings.of(settings), task_of(variant), further, left_out
        )
        table = evaluated.scores.query("split == 'test'").groupby("baseline", sort=False)
        means = table[["mase", "bytes"]].mean()
        means["bytes"] /= 1000
        print(f"{weeks} weeks")
        print(means.rename(columns={"bytes": "kB"}).round(3).to_string(), flush=True)


if __name__ == "__main__":
    main()
