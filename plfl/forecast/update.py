"""Takes new readings behind the old ones, and brings the kept forecasters up to date.

Every forecaster starts where the study left it and trains on all readings since (see
`plfl.forecast.fitting`), so that two updates train what one with all the readings would train.
Whether the result is kept is measured first: a forecaster that was trained without the last
readings forecasts these, and replaces the present one of a meter only where its error is smaller.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd

from plfl.base.errors import DataError
from plfl.base.files import sha256
from plfl.config.named import STANDARD
from plfl.data.checks import counted
from plfl.data.dataset import WEEK
from plfl.forecast.backtest import drift, pairs, scored, weekly
from plfl.forecast.choice import INDEX, MEASURED, READINGS, WEEKS, Forecasters
from plfl.forecast.fitting import alone, together
from plfl.forecast.model import ForecastModel
from plfl.results.records import write_csv, write_table

HELD = pd.Timedelta(weeks=2)
"""The last readings on which forecasters are compared, or the half of what is new, if shorter."""
CLOSE = 1e-5
"""Relative difference below which two readings are equal; inputs are in single precision."""


def backtest(
    forecasters: Forecasters, client: str, new: pd.DataFrame, wanted: str = ""
) -> tuple[dict[str, object], pd.Series[float], pd.Series[float]]:
    """The errors of a client's forecaster for readings that are new, or, if none are, for those of
    the study that it was neither trained nor chosen on.

    Returns a row of a table, see `plfl.forecast.backtest`, with the past MASE and its `drift`; the
    weekly MASE until now, and that of the new readings. Errors: see `Forecasters.of` and `pairs`.
    """
    choice = forecasters.of(client, wanted)
    model = forecasters.model(choice.file)
    known = forecasters.readings[client]
    joined = forecasters.with_earlier(client, new, len(known))
    after = None
    if joined.index[-1] > known.index[-1]:
        after = max(pd.Timestamp(model.scalings[client].known), known.index[-1])
    table = pairs(model, client, joined, after)
    past, now = forecasters.past_weeks(client, choice), weekly(table)
    if after is None:
        past = past[:0]  # the same weeks
    row = {"client": client, "forecaster": choice.name, **scored(table)}
    return row | {"past_mase": past.mean(), **drift(past, now)}, past, now


def joined(
    client: str, known: pd.DataFrame, new: pd.DataFrame, interval: int
) -> tuple[pd.DataFrame, str]:
    """Readings with new ones, which count where both are known, and what has changed in words;
    empty if nothing has. DataError: most of the readings that both have are different."""
    new = new[known.columns]
    # Not before: windows would begin with readings that were left out, as by `since`.
    new = new[new.index >= known.index[0]]
    common = known.index.intersection(new.index)
    old, again = known.loc[common].to_numpy(float), new.loc[common].to_numpy(float)
    both = np.isfinite(old) & np.isfinite(again)
    differs = (both & ~np.isclose(old, again, rtol=CLOSE, atol=0)).any(axis=1)
    overlap = int(both.any(axis=1).sum())
    if differs.sum() > overlap / 2:
        raise DataError(
            f"{client}: {differs.sum()} of the {overlap} readings that are known already are now "
            "different: another meter, unit or time zone? Nothing of it is used"
        )
    filled = int(((np.isnan(old) & np.isfinite(again)).any(axis=1)).sum())
    later = new[new.index > known.index[-1]].dropna(how="all")
    changes = []
    if len(later):
        changes.append(f"{counted(len(later), 'new reading')} until {later.index[-1]}")
        gap = int((later.index[0] - known.index[-1]) / pd.Timedelta(minutes=interval)) - 1
        if gap:
            changes.append(f"a gap of {counted(gap, 'reading')} before them")
    if differs.any():
        first = common[int(differs.argmax())]
        changes.append(f"{differs.sum()} corrected, the first at {first}")
    if filled:
        changes.append(f"{filled} that were missing")
    # Equal readings stay as they were, to the bit.
    corrections = new.drop(common[~differs & np.isfinite(old).all(axis=1)])
    whole = corrections.combine_first(known)[known.columns].asfreq(f"{interval}min")
    return whole.rename_axis("timestamp")[: whole.last_valid_index()], ", ".join(changes)


@dataclass
class Update:
    """What an update has found out so far."""

    forecasters: Forecasters
    readings: dict[str, pd.DataFrame] = field(default_factory=dict)
    """All readings of the clients that have new ones."""
    changed: dict[str, dict[str, ForecastModel]] = field(default_factory=dict)
    """By file and client, the models that replace others."""
    measured: list[dict[str, object]] = field(default_factory=list)
    """The rows of `MEASURED`."""
    errors: list[dict[str, object]] = field(default_factory=list)
    """The rows of `errors.csv`: how good the forecasts for the new readings were."""
    weeks: dict[str, tuple[pd.Series[float], pd.Series[float]]] = field(default_factory=dict)
    """The weekly MASE of each client until now, and of its new readings."""

    def add(self, client: str, new: pd.DataFrame) -> str:
        """Take the new readings of a client, train with them and measure; what has changed in
        words. ResultsError: the client did not take part; DataError: the readings cannot be used,
        or contradict those that are known."""
        forecasters = self.forecasters
        forecasters.of(client)  # it took part
        files = forecasters.index[forecasters.index["state"] == forecasters.clients[client]]
        reader = forecasters.any_model
        reader.check_unit(new["load"], client)
        known = forecasters.readings[client]
        readings, changes = joined(client, known, new, reader.interval)
        if not changes:
            return "nothing new"
        if (end := readings.index[-1]) > known.index[-1]:
            row, past, now = backtest(forecasters, client, readings)
            self.errors.append(row)
            self.weeks[client] = past, now
            models = [forecasters.model(forecasters.folder / file) for file in files["file"]]
            seen = max(pd.Timestamp(model.scalings[client].known) for model in models)
            cut = end - min(HELD, (end - seen) / 2)
            for model, file, name in zip(models, files["file"], files["name"], strict=True):
                row, model = self._measured(model, file, client, readings, cut)
                self.measured.append({"client": client, "forecaster": name, **row})
                self.changed.setdefault(file, {})[client] = model
        self.readings[client] = readings
        return changes

    def _measured(
        self,
        model: ForecastModel,
        file: str,
        client: str,
        readings: pd.DataFrame,
        cut: pd.Timestamp,
    ) -> tuple[dict[str, object], ForecastModel]:
        """The errors of a forecaster for the readings after `cut`, as it is and trained with the
        readings until then, and the better model of this client alone, trained with all."""
        begun = self.forecasters.model(self.forecasters.results / "models" / file)
        is_naive = bool(model.baseline) and STANDARD[model.baseline].module == "naive"
        anew = model.baseline or model.study.model.only_method
        training = "anew" if anew else "own steps"
        row: dict[str, object] = {"training": "none" if is_naive else training}
        errors = {"before": np.nan, "after": np.nan}
        try:
            tail = readings[
                cut - pd.Timedelta(minutes=model.look_back * model.interval + 2 * WEEK) :
            ]
            table = pairs(model, client, tail, cut)
            row |= {"first": table.index[0], "last": table.index[-1], "forecasts": len(table)}
            errors["before"] = scored(table)["mase"]
            if not is_naive:
                tried = begun.updated(readings[:cut], client)
                errors["after"] = scored(pairs(tried, client, tail, cut))["mase"]
        except DataError as error:
            row["training"] = f"none: {error}"
        is_better = errors["after"] < errors["before"]
        row |= {f"mase_{when}": error for when, error in errors.items()}
        row["kept"] = "new" if is_better else "old"
        if is_better:
            return row, begun.updated(readings, client)
        # It was chosen on these readings, so that no later score may count them.
        changed, until = alone(model, client), readings.index.to_numpy("datetime64[s]")[-1]
        scaling = replace(changed.scalings[client], known=until)
        return row, replace(changed, scalings={client: scaling})

    def outcome(self) -> pd.DataFrame:
        """A row for each client with new readings: the forecaster so far and the best one now, with
        their MASE for the last readings."""
        rows = []
        for client, scores in pd.DataFrame(self.measured).groupby("client", sort=False):
            scores = scores.set_index("forecaster")
            so_far = self.forecasters.of(str(client)).name
            now = scores[["mase_before", "mase_after"]].min(axis=1)
            best = str(now.idxmin())
            rows.append(
                {
                    "client": client,
                    "from": scores["first"][so_far],
                    "so_far": so_far,
                    "mase_so_far": scores["mase_before"][so_far],
                    "now": best,
                    "mase_now": now[best],
                    "trained": scores["training"][best] if scores["kept"][best] == "new" else "no",
                }
            )
        return pd.DataFrame(rows)

    @property
    def _all_readings(self) -> dict[str, pd.DataFrame]:
        return self.forecasters.readings | self.readings

    @property
    def last(self) -> str:
        """The date of the last reading."""
        return f"{max(table.index[-1] for table in self._all_readings.values()):%Y-%m-%d}"

    def write(self, page: Callable[[Update, Path], None]) -> Path:
        """Write the folder of the update, which is complete or absent, with its `page`."""
        forecasters, readings = self.forecasters, self._all_readings
        folder = forecasters.results / "updates" / self.last
        number = 1
        while folder.exists():
            number += 1
            folder = folder.with_name(f"{self.last}-{number:02}")
        # What a killed update has left.
        for left in folder.parent.glob(".*"):
            shutil.rmtree(left)
        unfinished = folder.with_name(f".{folder.name}")
        index = forecasters.index.drop(columns="name")
        for file in index["file"]:
            source, target = forecasters.folder / file, unfinished / "models" / file
            target.parent.mkdir(parents=True, exist_ok=True)
            if file in self.changed:
                together(forecasters.model(source), self.changed[file]).save(target)
            else:
                shutil.copyfile(source, target)
        digests = [sha256(forecasters.results / "models" / file) for file in index["file"]]
        write_csv(index.assign(begun=digests), unfinished / "models" / INDEX)
        tables = [table.assign(client=client).reset_index() for client, table in readings.items()]
        write_table(pd.concat(tables, ignore_index=True), unfinished / READINGS)
        measured, earlier = pd.DataFrame(self.measured), forecasters.measured
        if len(measured):
            earlier = earlier[~earlier["client"].isin(measured["client"])]
        every = pd.concat([earlier, measured], ignore_index=True)
        write_table(every, unfinished / MEASURED)
        for name, table in {"update": every, "errors": pd.DataFrame(self.errors)}.items():
            # Names of meters stay as they are, `=a` included.
            table.to_csv(unfinished / f"{name}.csv", index=False, float_format="%.6g")
        write_table(self._all_weeks(), unfinished / WEEKS)
        page(self, unfinished / "index.html")
        unfinished.rename(folder)
        return folder

    def _all_weeks(self) -> pd.DataFrame:
        """The weekly MASE of all clients: `client`, `week`, `mase`."""
        rows = []
        for client in self.forecasters.readings:
            if client in self.weeks:
                past, now = self.weeks[client]
                weeks = pd.concat([past, now[~now.index.isin(past.index)]])
            else:
                weeks = self.forecasters.past_weeks(client, self.forecasters.of(client))
            rows += [(client, week, mase) for week, mase in weeks.items()]
        return pd.DataFrame(rows, columns=["client", "week", "mase"])
