"""The errors of forecasts for later readings."""

from __future__ import annotations

import numpy as np
import pandas as pd

from plfl.base.errors import DataError
from plfl.data.dataset import WEEK
from plfl.forecast.model import ForecastModel


def scored(model: ForecastModel, client: str, readings: pd.DataFrame) -> dict[str, object]:
    """The mean absolute errors of the forecasts for readings that neither training nor validation
    has seen, and of the load a day and a week before.

    All are errors of the same forecasts: those for which every one of them is known.

    Returns:
        `first` and `last` time, `forecasts`, `mae` (kWh per interval), `naive_day` and `naive_week`
        (the same), `percent_of_load` (WAPE: the sum of the errors over that of the loads) and
        `mase` (over the error of the last reading).

    Raises:
        DataError: there are no such readings.
    """
    after = pd.Timestamp(model.scalings[client].known)
    forecasts = model.predict(readings, client)
    load = readings["load"]
    at = pd.DatetimeIndex(forecasts.index)
    made_at = pd.DatetimeIndex(forecasts["made_at"])
    known = {
        "truth": at,
        "last": made_at,
        "naive_day": at - pd.Timedelta(days=1),
        "naive_week": at - pd.Timedelta(minutes=WEEK),
    }
    table = pd.DataFrame({name: load.reindex(stamps).to_numpy() for name, stamps in known.items()})
    table["forecast"] = forecasts["forecast"].to_numpy()
    # A lag of a day is not known if the forecast is made more than a day ahead.
    lead = at - made_at
    for name, days in (("naive_day", 1), ("naive_week", 7)):
        table.loc[np.asarray(lead > pd.Timedelta(days=days)), name] = np.nan
    complete = table.notna().all(axis=1).to_numpy() & np.asarray(at > after)
    if not complete.any():
        raise DataError(
            f"{client}: no reading after {after}, until when {model.name} was trained and chosen, "
            "with a week of readings before it; give later readings, with the week before them"
        )
    table, times = table[complete], at[complete]
    errors = table.sub(table["truth"], axis=0).abs().mean()
    size = float(table["truth"].abs().mean())
    return {
        "first": times.min(),
        "last": times.max(),
        "forecasts": len(table),
        "mae": float(errors["forecast"]),
        "naive_day": float(errors["naive_day"]),
        "naive_week": float(errors["naive_week"]),
        "percent_of_load": 100 * float(errors["forecast"]) / size if size else np.nan,
        "mase": float(errors["forecast"] / errors["last"]) if errors["last"] else np.nan,
    }
