"""BuildingsBench's transfer learning in plfl: a study of its files, and its table of the results.

    python -m benchmarks.buildingsbench prepare FOLDER [--to buildingsbench]
    plfl study buildingsbench/study.yaml
    python -m benchmarks.buildingsbench table results/buildingsbench

FOLDER is that of the extracted data: `BDG-2/Fox_clean=2016.csv`, `Electricity/…` and, in
`metadata`, the lists of buildings. Definitions are those of arXiv 2307.00142 and of its scripts.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

KINDS = ("commercial", "residential")
LIST = "transfer_learning_{}_buildings.txt"
ROWS = 2 * (180 * 24 + 1)
"""Hours of a building: 180 days to train and 180 to test, each with both ends."""
PUBLISHED = {
    "persistence ensemble": (16.80, 78.54),
    "LightGBM": (16.02, 80.07),
    "best transformer": (12.96, 77.20),
}
"""NRMSE in percent, commercial and residential, as published."""
REPETITIONS = 50_000
KEYS = ["state", "baseline", "client", "split"]


def buildings(folder: Path) -> dict[str, str]:
    """The kind of each building on the lists.

    Raises:
        SystemExit: there is no list.
    """
    found: dict[str, str] = {}
    for kind in KINDS:
        path = folder / "metadata" / LIST.format(kind)
        if path.is_file():
            found |= dict.fromkeys(path.read_text(encoding="utf-8").split(), kind)
    if not found:
        sys.exit(f"{folder / 'metadata'} has no {LIST.format('commercial')}; extract the metadata")
    return found


def readings(folder: Path) -> dict[tuple[str, str], pd.Series]:
    """The hourly loads (kWh) of each building by site, or by data set where its files are those of
    single buildings. What is missing is 0, as it is there."""
    parts: dict[tuple[str, str], list[pd.Series]] = {}
    for path in sorted(folder.glob("*/*_clean=*.csv")):
        table = pd.read_csv(path, index_col=0, parse_dates=True).sort_index()
        name = path.stem.split("_")[0]
        for column in table:
            one = len(table.columns) == 1
            key = (path.parent.name, name) if one else (name, str(column))
            parts.setdefault(key, []).append(table[column])
    return {key: pd.concat(own).asfreq("h").fillna(0) for key, own in parts.items()}


def prepare(folder: Path, to: Path) -> None:
    """Write a wide table for each site and kind, and the study that reads them.

    Raises:
        SystemExit: there is no list, or no file with a building of the lists.
    """
    kinds, short = buildings(folder), []
    found: dict[str, dict[str, pd.Series]] = {}
    for (site, name), series in readings(folder).items():
        if name in kinds and series.iloc[:ROWS].any() and len(series) >= ROWS:
            found.setdefault(f"{site}_{kinds[name]}", {})[name] = series.iloc[:ROWS]
        elif name in kinds:
            short.append(name)
    if not found:
        sys.exit(f"{folder}: no file NAME_clean=YEAR.csv has 360 days of a building of the lists")
    to.mkdir(parents=True, exist_ok=True)
    for state, own in found.items():
        pd.DataFrame(own).rename_axis("timestamp").to_parquet(to / f"{state}.parquet")
    counts = {state: len(own) for state, own in found.items()}
    text = (Path(__file__).parents[1] / "config" / "buildingsbench.yaml").read_text(
        encoding="utf-8"
    )
    study = yaml.safe_load(text)
    study["data"] |= {"states": list(counts), "clients": counts}
    study["data"]["meters"]["exports"] = [str(to / "{state}.parquet")]
    (to / "study.yaml").write_text(yaml.safe_dump(study, sort_keys=False), encoding="utf-8")
    print(f"{to / 'study.yaml'}: {sum(counts.values())} of the {len(kinds)} buildings of the lists")
    if short:
        print(f"left out, without 360 days or any load in them: {', '.join(short)}")


def median(values: np.ndarray, seed: int = 0) -> tuple[float, float, float]:
    """The median of values (N,) of a kind of building, and the ends of its 95 % interval.

    The bootstrap draws from these values; there, too, its strata are the kinds of buildings.
    """
    random, n = np.random.default_rng(seed), len(values)
    drawn = [np.median(values[random.integers(n, size=n)]) for _ in range(REPETITIONS)]
    return float(np.median(values)), *map(float, np.quantile(drawn, [0.025, 0.975]))


def table(results: Path) -> pd.DataFrame:
    """A row per forecaster and kind of building, with the medians over buildings of NRMSE (%) and,
    over buildings and hours, of CRPS (kWh), with their intervals."""
    baselines = pd.read_parquet(results / "baselines.parquet")
    records = pd.read_parquet(results / "records.parquet")
    records = records[records["round"] == records["round"].max()]
    trained = records.assign(baseline=records["sharing"] + ", " + records["model"] + " model")
    both = pd.concat([baselines, trained.groupby(KEYS, as_index=False).mean(numeric_only=True)])
    both = both[(both["split"] == "test") & both["daily_nrmse"].notna()]
    both["kind"] = both["state"].str.rsplit("_", n=1).str[-1]
    hours = [name for name in both if str(name).startswith("daily_crps")]
    rows = []
    for (kind, name), own in both.groupby(["kind", "baseline"], sort=False):
        nrmse = median(100 * own["daily_nrmse"].to_numpy(float))
        crps = median(own[hours].to_numpy(float).ravel())
        rows.append({"buildings": kind, "forecaster": name, "number": str(len(own))})
        rows[-1] |= {"NRMSE %": "{:.2f} [{:.2f}, {:.2f}]".format(*nrmse)}
        rows[-1] |= {"CRPS kWh": "{:.3f} [{:.3f}, {:.3f}]".format(*crps)}
    published = [
        {"buildings": kind, "forecaster": f"{name} (published)", "NRMSE %": f"{values[i]:.2f}"}
        for i, kind in enumerate(KINDS)
        for name, values in PUBLISHED.items()
    ]
    return pd.DataFrame(rows + published).sort_values("buildings", kind="stable")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("prepare", help="write a study of the files")
    one.add_argument("folder", type=Path)
    one.add_argument("--to", type=Path, default=Path("buildingsbench"))
    commands.add_parser("table", help="show the results").add_argument("folder", type=Path)
    given = parser.parse_args(arguments)
    if given.command == "prepare":
        prepare(given.folder, given.to)
    else:
        print(table(given.folder).to_string(index=False, na_rep=""))


if __name__ == "__main__":
    main()
