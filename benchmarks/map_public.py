"""The public model at the tests of the map: docs/map_public.csv.

    python -m benchmarks.map_public MODELS [map-homes …] --data data    # as `make map` does first
    python -m benchmarks.map_public MODELS --task home-1-week --predictions FILE.parquet

For each study of the map, the windows, tests and scores are those of the study. The model of a site
is trained on the other sites of its kind, so it has seen nothing of it; with `--data`, the folder
of the tables (`benchmarks.public`), models that MODELS lacks are trained first. The studies read
the same files. It reads up to four weeks, so that longer histories give the same numbers. A mean
over meters and origins is a row. With `--task` the forecasts are written for `plfl score`.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks import starter
from benchmarks.public import TABLES
from plfl.baselines.public import Public, PublicFit
from plfl.data import sources
from plfl.data.windows import build
from plfl.outside.frozen import open_task
from plfl.public.models import MeterKind, load_file
from plfl.study import Study
from plfl.tasks.quantiles import Quantiles

ROOT = Path(__file__).parents[1]
STUDIES = (
    *("map-homes", "map-homes-40", "map-cambridge", "map"),
    *("map-homes-day-ahead", "map-cambridge-day-ahead", "map-day-ahead"),
    *("map-homes-size", "map-size"),
)
"""Studies whose tables have a row of the public model."""
LONGEST = 4
"""Weeks of history from which on the forecasts are the same."""
SCORES = ("mase", "wape")


def train_models(sites: Sequence[str], data: Path, models: Path) -> list[str]:
    """Train the models for these sites that are not there; tables that are missing for that."""
    missing = [site for site in sites if not (models / f"without-{site}.xz").exists()]
    tables = {data / TABLES[source] for site in missing for source in starter.left_out(site)}
    absent = sorted(str(table) for table in tables if not table.exists())
    if missing and not absent:
        starter.main([str(data), str(models), "--without", *missing])
    return absent


def scores(study: Study, models: Path) -> pd.DataFrame:
    """The scores of each meter in each variant of a study."""
    rows = []
    kind: MeterKind = "homes" if "homes" in study.name else "buildings"
    longest = min((w for w in study_weeks(study) if w >= LONGEST), default=LONGEST)
    # Variants that differ in the number of others alone have the same forecasts.
    tests = {(v.windows.history, v.data.origin_date): v for v in study.variants.values()}
    for state in study.data.states:
        model = load_file(kind, models / f"without-{state}.xz")
        tables = sources.source_of(study.data).load(study.data, state)
        for (weeks, _), variant in tests.items():
            if weeks is None or weeks > longest:
                continue
            data = build(tables, variant.windows, origin=variant.data.origin_date)
            fitted = PublicFit(data, model)
            for client, name in enumerate(data.clients.tolist()):
                forecasts = fitted.predict(client, data.starts(client, "test"))
                found = variant.task.scores(data, client, "test", forecasts)
                keys = {"study": study.name, "state": state, "weeks": weeks, "client": name}
                rows.append(
                    keys | {"origin": variant.data.origin_date} | {s: found[s] for s in SCORES}
                )
            print(f"{variant.name}, {state}: {np.mean([r['mase'] for r in rows]):.3f}", flush=True)
    return pd.DataFrame(rows)


def predictions(study: Study, models: Path, kind: MeterKind) -> pd.DataFrame:
    """The forecasts of the test sets of a task, as `plfl score` reads them."""
    parts = []
    for state in study.data.states:
        model = load_file(kind, models / f"without-{state}.xz")
        tables = sources.source_of(study.data).load(study.data, state)
        for variant in study.variants.values():
            data = build(tables, variant.windows, origin=variant.data.origin_date)
            levels = study.task.levels if isinstance(study.task, Quantiles) else ()
            fitted = PublicFit(data, model, levels)
            for client, name in enumerate(data.clients.tolist()):
                starts = data.starts(client, "test")
                forecasts = fitted.predict(client, starts).reshape(-1, max(1, len(levels)))
                targets, made_at = data.target_rows(starts), data.persistence_rows(starts)
                columns = {
                    "client": f"{state}/{name}" if len(study.data.states) > 1 else name,
                    "origin": str(variant.data.origin_date),
                    "made_at": np.repeat(data.stamps[made_at], data.horizons),
                    "stamp": data.stamps[targets].ravel(),
                    "forecast": forecasts[:, levels.index(0.5) if levels else 0],
                }
                columns |= {f"forecast_{100 * q:g}": forecasts[:, k] for k, q in enumerate(levels)}
                parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


def study_weeks(study: Study) -> list[int]:
    """The lengths of history in a study."""
    return [variant.windows.history or 0 for variant in study.variants.values()]


def table(found: pd.DataFrame, study: Study) -> pd.DataFrame:
    """The means of a study, of all sites and of each, for every length of its history."""
    parts = [found.assign(site="all")]
    if len(study.data.states) > 1:
        parts.append(found.assign(site=found["state"]))
    means = pd.concat(parts).groupby(["site", "study", "weeks"])[list(SCORES)].mean().reset_index()
    last = means[means["weeks"] == means["weeks"].max()]
    longer = {w for w in study_weeks(study) if w > means["weeks"].max()}
    return pd.concat([means, *(last.assign(weeks=weeks) for weeks in sorted(longer))])


def main() -> None:
    """Add the studies that were asked for to the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("models", type=Path)
    parser.add_argument("studies", nargs="*", default=STUDIES)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("docs/map_public.csv"))
    parser.add_argument("--task", type=Path)
    parser.add_argument("--predictions", type=Path, default=Path("predictions.parquet"))
    options = parser.parse_args()
    if options.task:
        study, _ = open_task(options.task)
        kind: MeterKind = "homes" if "home" in study.name else "buildings"
        rows = predictions(study, options.models, kind)
        numbers = {name: "float32" for name in rows if name.startswith("forecast")}
        rounded = rows.round(dict.fromkeys(numbers, 3)).astype(numbers)
        rounded.to_parquet(options.predictions, compression="zstd")
        return
    models = options.models
    options.out.parent.mkdir(parents=True, exist_ok=True)  # now, and not after minutes of work
    whole = pd.read_csv(options.out) if options.out.exists() else pd.DataFrame({"study": []})
    for name in options.studies:
        study = Study.load(ROOT / "config" / f"{name}.yaml")
        if Public.name not in {baseline.name for baseline in study.baselines.further}:
            continue
        if options.data and (absent := train_models(study.data.states, options.data, models)):
            print(f"{name}: its row of the public model stays, which needs {', '.join(absent)}")
            continue
        if name not in STUDIES:
            continue
        rows = table(scores(study, models), study)
        whole = pd.concat([whole[whole["study"] != name], rows])
        whole = whole.astype({"weeks": int}).sort_values(["study", "site", "weeks"])
        whole.to_csv(options.out, index=False, float_format="%.4f")


if __name__ == "__main__":
    main()
