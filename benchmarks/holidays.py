"""What public holidays as a covariate are worth a day ahead: LightGBM on the covariates of a study,
with and without them, on 38 buildings with 40 weeks of readings.

    python -m benchmarks.holidays DATA

DATA is a folder with bdg2_sites/fox_2016_2017_hourly_kwh.parquet (docs/measured-meters.md). Each of
the two tests of four weeks has a public holiday. Prints the MASE on holidays and on other days.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

from plfl.baselines.lightgbm_covariates import LightgbmCovariates
from plfl.config.windows import Holidays
from plfl.outside.clients import datasets
from plfl.study import Study

COVARIATES = [
    {"name": "lags", "days": [1, 2, 7], "around": 2},
    *({"name": "level"}, {"name": "calendar", "harmonics": 4}, {"name": "encoding", "bins": 16}),
]
HOLIDAYS = {"name": "holidays", "country": "US"}


def study_of(data: Path, covariates: list[dict[str, object]]) -> Study:
    """The study of the buildings."""
    file = data / "bdg2_sites" / "fox_2016_2017_hourly_kwh.parquet"
    meters = {"exports": [str(file)], "timezone": "Etc/GMT+7", "interval": 60, "stamp": "start"}
    source = {"source": "meters", "states": ["fox"], "clients": 38, "features": ["load"]}
    windows = {"look_back": 12, "look_ahead": 1, "horizons": 24, "history": 40}
    windows |= {"scaling": "per_client", "target": "change", "covariates": covariates}
    raw = {
        "name": "holidays",
        "data": source | {"origins": ["2017-11-12", "2017-06-18"], "meters": meters},
        "windows": windows,
        "model": {"name": "mlp"},
        "baselines": {"trees": 60, "learning_rate": 0.3, "leaves": 31, "max_bin": 31},
    }
    return Study.parse(raw, "benchmarks.holidays")


def errors(study: Study) -> pd.DataFrame:
    """The MASE of each building at each origin, on holidays and on other days."""
    free = np.array(Holidays.model_validate(HOLIDAYS).dates([2017]), "datetime64[D]")
    rows = []
    for (origin, _), dataset in datasets(study).items():
        fitted = LightgbmCovariates().fit(dataset, study.baselines.fit_settings, {})
        for i, client in enumerate(dataset.clients.tolist()):
            starts = dataset.starts(i, "test")
            truth = dataset.truth(starts)
            stamps = dataset.stamps[dataset.target_rows(starts)] - np.timedelta64(1, "s")
            on_holiday = np.isin(stamps.astype("datetime64[D]"), free)
            error = np.abs(fitted.predict(i, starts) - truth)
            unit = np.abs(dataset.persistence(starts)[:, None] - truth).mean()
            parts = {"holiday": on_holiday, "other day": ~on_holiday, "all": on_holiday | True}
            for days, part in parts.items():
                rows.append((origin, client, days, error[part].mean() / unit))
    return pd.DataFrame(rows, columns=["origin", "client", "days", "mase"])


def main(data: Path) -> None:
    """Print both columns."""
    columns = {"without": COVARIATES, "with holidays": [*COVARIATES, HOLIDAYS]}
    tables = {name: errors(study_of(data, covariates)) for name, covariates in columns.items()}
    means = {name: table.groupby("days")["mase"].mean() for name, table in tables.items()}
    print(pd.DataFrame(means).round(3).to_string())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
