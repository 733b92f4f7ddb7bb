"""The error of the first weeks of homes that have 1 to 7 days of readings: docs/map.md.

    python -m benchmarks.first_days london_2013_halfhourly_kwh.parquet

A study of half of the homes, with the settings of config/map-homes.yaml, trains a network (P1).
The other half are new on 4 December 2013 and have readings of 1 to 7 days. Shown are the errors of
the four weeks after it, one hour ahead, over those of repeating the last reading. *least so far* is
the forecaster with the least error on these days.
"""

import argparse
import subprocess
import sys
from pathlib import Path

import pandas as pd
import yaml

from plfl.forecast.choice import Forecasters

CONFIG = Path(__file__).parents[1] / "config" / "map-homes.yaml"
ORIGIN = pd.Timestamp("2013-12-04")
DAYS = (1, 2, 3, 5, 7)
FORECASTERS = ("P1", "naive_day", "persistence")


def study(readings: Path, trained: int) -> dict[str, object]:
    """The study of the first `trained` homes, all of their readings before the origin."""
    settings = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    for key in ("sharing", "claims", "tuning"):
        del settings[key]
    meters = settings["data"]["meters"] | {"exports": [str(readings)]}
    settings["data"] |= {"meters": meters, "clients": trained, "origins": [str(ORIGIN.date())]}
    del settings["baselines"]["further"]
    settings["baselines"]["leave_out"] += ["ridge"]
    settings["grid"] |= {"sharing": ["P1"], "seeds": [1]}
    del settings["grid"]["windows.history"]
    return settings | {"name": "first-days"}


def errors(results: Path, readings: Path) -> pd.DataFrame:
    """The mean absolute error (kWh) of each new home's four weeks after the origin: a row per home
    and number of days, a column per forecaster, and the name of the best until then."""
    kept = Forecasters(results)
    tables, _ = kept.any_model.meter_files.read_all([readings])
    rows = []
    for home in [name for name in tables if name not in kept.clients]:
        load = tables[home]["load"]
        for days in DAYS:
            known = tables[home][ORIGIN - pd.Timedelta(days=days, hours=-1) : ORIGIN]
            until = tables[home][known.index[0] : ORIGIN + pd.Timedelta(weeks=4)]
            before, row = {}, dict[str, object]({"home": home, "days": days})
            for name in FORECASTERS:
                _, model = kept.choose_for_new(home, known, name, epochs=0)
                forecasts = model.predict(until, home, early=True)
                is_later = forecasts["made_at"] >= ORIGIN
                wrong = (forecasts["forecast"] - load.reindex(forecasts.index)).abs()
                row[name] = wrong[is_later].mean()
                before[name] = wrong[~is_later]
            so_far = pd.DataFrame(before).dropna(axis=1, how="all").dropna().mean()
            rows.append(row | {"least so far": row[str(so_far.idxmin())]})
    return pd.DataFrame(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("readings", type=Path, help="the table of the 200 homes")
    parser.add_argument("--trained", type=int, default=100, help="homes that train")
    arguments = parser.parse_args()
    readings = arguments.readings.resolve()
    settings = study(readings, arguments.trained)
    Path("first-days.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    program = Path(sys.executable).with_name("plfl")
    subprocess.run([program, "study", "first-days.yaml"], check=True)
    table = errors(Path("results/first-days"), readings)
    shown = table.drop(columns=["home", "days"]).div(table["persistence"], axis=0)
    print(shown.groupby(table["days"]).mean().round(3).to_string())
    print(f"{table['home'].nunique()} homes")


if __name__ == "__main__":
    main()
