"""A trained model that forecasts for the clients it was trained with, and for new ones."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plfl import __version__
from plfl.base.errors import DataError, PlflError, Problem, ResultsError, suggest_name
from plfl.base.minutes import MINUTES_PER_WEEK
from plfl.base.text import count_in_words
from plfl.baselines.storage import (
    join_clients,
    restore,
    settings_of,
    split_clients,
    storable_names,
)
from plfl.config.named import CALENDAR
from plfl.data import covariates
from plfl.data.checks import check_finite, check_stamps
from plfl.data.dataset import SPLITS, Dataset
from plfl.data.features import assemble
from plfl.data.windows import SCALING_ARRAYS, Scaling, build_later
from plfl.forecast.contents import Contents, KeptBaseline, ModelFileHeader
from plfl.forecast.meter_files import MeterFiles
from plfl.forecast.misfits import check_unit
from plfl.interfaces.baseline import Arrays
from plfl.results.records import MODELS, TABLE_DAMAGE, ModelKind, Models, read_arrays, write_models
from plfl.study import FORMAT, Study
from plfl.tasks.loads import LoadTask

log = logging.getLogger(__name__)


class ForecastWindows(NamedTuple):
    """The windows of a client's readings that its model can forecast from."""

    table: pd.DataFrame
    """The readings and inputs up to the last target, by stamp."""
    dataset: Dataset
    """Their windows."""
    last_rows: NDArray[np.int64]
    """Row numbers (W,) of the last readings of those windows that can be used."""

    @property
    def starts(self) -> NDArray[np.int64]:
        """Row numbers (W,) of their first readings."""
        return self.last_rows - (self.dataset.look_back - 1)

    @property
    def made_at(self) -> pd.DatetimeIndex:
        """Stamps (W,) of their last readings."""
        return pd.DatetimeIndex(self.table.index[self.last_rows])

    def select(self, is_meant: NDArray[np.bool_]) -> Self:
        """Some of the windows."""
        return self._replace(last_rows=self.last_rows[is_meant])


@dataclass(frozen=True)
class ForecastModel(Contents):
    """The models of a cell's clients after its last round, or a fitted baseline, with all that a
    forecast needs."""

    @cached_property
    def meter_files(self) -> MeterFiles:
        """How new files of meters are read for it."""
        return MeterFiles(self)

    def read(self, path: Path, client: str | None = None) -> pd.DataFrame:
        """The readings in a meter's file, see `MeterFiles.read`."""
        return self.meter_files.read(path, client)

    @property
    def rows_needed(self) -> int:
        """Rows that a forecast needs, including the last reading. If a series is shorter, lags
        before its first row are replaced by the last load, as in training. So are lags in a gap
        (`fills_lags` of `predict`)."""
        return count_rows_needed(self.study, self.interval, self.baseline)

    def explain_no_forecast(self, frame: pd.DataFrame, client: str, remedy: str) -> Problem:
        """Why there is no forecast after the last of a client's readings. `remedy`: for a gap in
        what a forecast reads."""
        last = self.meter_files.without_known_future(frame).index[-1]
        time = self.meter_files.local_time(last, client)
        text = f"no forecast after the last reading, {time}, because "
        names = [name for name in self.meter_files.future_features if name in frame]
        count = self.study.windows.farthest
        if names and frame.loc[last:, names].iloc[1:].dropna().shape[0] < count:
            text += (
                f"{', '.join(names)} must be known for {count_in_words(count, 'interval')} after it"
            )
            return Problem(client, text, "add rows with it, and without a load")
        row_count = self.study.windows.look_back
        return Problem(
            client, f"{text}there is a gap in the {row_count} readings before it", remedy
        )

    def predict(
        self,
        frame: pd.DataFrame,
        client: str | None = None,
        model: ModelKind = "local",
        early: bool = False,
        fills_lags: bool = False,
        since: pd.Timestamp | None = None,
        reports: bool = True,
    ) -> pd.DataFrame:
        """Forecasts for readings of a client that took part in the training.

        Inputs, from `since` on, that are outside of the client's training set, where the model
        extrapolates, are reported in the log, unless `reports` is false.

        Args:
            frame: its readings, indexed by naive standard time at the ends of the intervals,
                one row for each: `load` in kWh per interval, and the other `readings`; NaN in gaps.
                What `known_future` lists may go on after the last load.
            client: its name; not needed if there is only one.
            model: `local`, or `global` with the shared parameters as the server sends them.
            early: also forecast where lags reach back to before the first reading; the last load
                then replaces them, as in training.
            fills_lags: also forecast where lags are in a gap; the last load then replaces them.
            since: only the forecasts that are made from this reading on; None: all. Adaptive widths
                follow the earlier ones, too.

        Returns:
            A row for every reading with enough readings before it and no gap in the model's inputs,
            indexed by the `timestamp` that the forecast is for, `windows.look_ahead` rows later:
            `forecast` (kWh per interval) and `made_at` (the last reading that it uses).
            The last `look_ahead` rows are after the last reading. With several horizons, a reading
            has a row for each of them. With quantiles, `forecast` is the median, and `forecast_5`
            the 5 % quantile; with intervals of point forecasts, `forecast_lower` and
            `forecast_upper` are their ends.

        Raises:
            DataError: no such client or model, a missing column or value, stamps that are not on
                the interval of the training, or too few readings.
        """
        client = self._client(client)
        self._check(frame, client)
        windows = self._windows(frame, client, early, fills_lags)
        history = self.meter_files.without_known_future(frame)
        is_read = np.full(len(windows.last_rows), True)
        if since is not None and not self.has_adaptive_widths:
            is_read = windows.made_at >= since
        forecasts = self._forecasts_where(client, model, windows, is_read)
        if since is not None:
            forecasts = forecasts[forecasts["made_at"] >= since]
        if reports:
            self._report(windows.table.loc[: history.index[-1]], forecasts, client, since)
        return forecasts

    def predict_next(
        self,
        frame: pd.DataFrame,
        client: str | None = None,
        model: ModelKind = "local",
        reported_from: pd.Timestamp | None = None,
    ) -> pd.DataFrame:
        """The forecasts of `predict`, which fills lags, that `select_upcoming` selects, without
        those for earlier times, so in much less time; see `predict` for the arguments and errors.
        Inputs that are outside of the training set are reported from `reported_from` on."""
        client = self._client(client)
        self._check(frame, client)
        windows = self._windows(frame, client, fills_lags=True)
        history = self.meter_files.without_known_future(frame)
        is_read = windows.last_rows >= len(history) - self._new_rows
        if self.has_adaptive_widths:  # they follow the errors since the validation set
            first_test_row = windows.dataset.view.bounds[0, SPLITS.index("test")]
            is_read |= windows.starts >= first_test_row
        forecasts = self._forecasts_where(client, model, windows, is_read)
        upcoming = self.select_upcoming(history, forecasts)
        self._report(windows.table.loc[: history.index[-1]], upcoming, client, reported_from)
        return upcoming

    @property
    def has_adaptive_widths(self) -> bool:
        """Whether the widths of intervals follow the errors of earlier forecasts, so that a
        forecast depends on all readings since the validation set."""
        return bool(self.widths) and self.study.task.widening == "adaptive"

    @property
    def _new_rows(self) -> int:
        """The last rows whose forecasts are for times after the last reading."""
        windows = self.study.windows
        return 1 if windows.horizons > 1 else windows.look_ahead

    def _forecasts_where(
        self,
        client: str,
        model: ModelKind,
        windows: ForecastWindows,
        is_read: NDArray[np.bool_],
    ) -> pd.DataFrame:
        """The result of `_forecasts` for some of the windows; for all if these have none, so that
        its error says whether there are others."""
        if is_read.any():
            with suppress(DataError):
                return self._forecasts(client, model, windows.select(is_read))
        return self._forecasts(client, model, windows)

    def _forecasts(self, client: str, model: ModelKind, windows: ForecastWindows) -> pd.DataFrame:
        """The result of `predict` for these windows."""
        table, dataset, _ = windows
        horizons, task = self.study.windows.horizons, self.study.task
        predictions = self._predictions(dataset, client, model, windows.starts)
        is_finite = np.asarray(np.isfinite(predictions).reshape(len(predictions), -1).all(axis=1))
        if not is_finite.any():
            raise DataError(
                Problem(
                    client,
                    f"{self.name} reads {self.rows_needed} readings before a forecast, and the "
                    "file has too few of them",
                    "add earlier ones",
                )
            )
        windows, predictions = windows.select(is_finite), predictions[is_finite]
        starts = windows.starts
        if (widths := self._widths(client, model)) is not None:
            predictions = task.widen(dataset, 0, starts, predictions, widths)
        assert isinstance(task, LoadTask)  # of other tasks no models are kept
        loads = task.columns("forecast", predictions)
        columns = {
            **{name: values.ravel() for name, values in loads.items()},
            "made_at": windows.made_at.repeat(horizons),
        }
        return pd.DataFrame(columns, index=table.index[dataset.target_rows(starts).ravel()])

    def _predictions(
        self, dataset: Dataset, client: str, model: ModelKind, starts: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """The loads or quantiles in kWh for windows of a dataset with this client only, without
        widths; NaN where a baseline lacks a reading."""
        if not self.baseline:
            from plfl.forecast.networks import predict_row  # here, because it imports torch

            return predict_row(self.study, dataset, self._row(client, model), starts)
        self._check_model(model)
        arrays, settings = self.fitted_arrays[client], settings_of(self.study)
        fitted_baseline = restore(self.study.baselines, self.baseline, arrays, dataset, settings)
        return fitted_baseline.predict(0, starts)

    def select_upcoming(self, frame: pd.DataFrame, forecasts: pd.DataFrame) -> pd.DataFrame:
        """The rows of the result of `predict` for `frame` that are after its last reading; with
        several horizons, those that were made at the last reading."""
        last = self.meter_files.without_known_future(frame).index[-1]
        has_several_horizons = self.study.windows.horizons > 1
        is_new = forecasts["made_at"] == last if has_several_horizons else forecasts.index > last
        upcoming: pd.DataFrame = forecasts[is_new]
        return upcoming

    def adapt(self, frame: pd.DataFrame, client: str, epochs: int | None = None) -> ForecastModel:
        """The model of a meter that did not take part, trained on its readings.

        A network begins with the parameters that the server sends, and trains its own part on all
        windows of the readings; a baseline is fitted to them. See `plfl.forecast.fitting`. A few
        weeks are enough; less than one week is little. `epochs`: passes over its windows; None: the
        number with the least error in the last fifth of the readings.

        Returns:
            A model that knows only this meter. Its `local` model is the trained one, its `global`
            model the one that it began with.

        Raises:
            DataError: a client of the study has this name, its clients shared nothing, too few
                readings, or see `predict`.
        """
        from plfl.forecast.fitting import adapt_to_new

        if client in self.clients:
            raise DataError(
                Problem(client, "took part and has a model", "a new meter needs another name")
            )
        self._check(frame, client)
        table = assemble(frame[self.reading_columns], self.columns)
        weeks = len(table) * self.interval / MINUTES_PER_WEEK
        adapted, passes = adapt_to_new(self, client, table, epochs)
        if epochs is None and not self.baseline:
            unit = "own tree" if self.study.model.grows_trees else "epoch"
            training_text = f"{count_in_words(passes, unit)}, chosen on the last fifth"
            adaptation = training_text if passes else "used as received"
            age = f"{weeks:.1f} weeks" if weeks >= 2 else f"{7 * weeks:.1f} days"
            text = f"{age} of readings: {adaptation}"
            log.info("%s", Problem(client, text, meter=client, kind="adaptation"))
        return adapted

    def inputs(
        self, frame: pd.DataFrame, client: str | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.datetime64]]:
        """What an exported program reads for all forecasts of `predict`; see there for the
        arguments and errors.

        Returns:
            The rows (W, R, F) of the windows in the units of the data, NaN before the first
            reading; the minutes (W,) since Monday 00:00 of their last readings; and the stamps that
            they forecast, (W,) or (W, H) of several horizons. The last `later` rows are those until
            the last target. Windows that touch a gap are left out.
        """
        client = self._client(client)
        self._check(frame, client)
        windows = self._windows(frame, client)
        table, dataset, last = windows
        values, row_count = table.to_numpy(float), self.rows_needed
        values = np.concatenate([np.full((row_count, values.shape[1]), np.nan), values])
        row_numbers = last[:, None] + 1 + np.arange(row_count + self._count_later_rows)
        stamps = table.index.to_numpy("datetime64[s]")
        targets = dataset.target_rows(windows.starts)
        monday = np.datetime64("2024-01-01", "m")
        minutes = (stamps[last].astype("datetime64[m]") - monday).astype(
            np.int64
        ) % MINUTES_PER_WEEK
        return values[row_numbers], minutes, stamps[targets]

    def export(
        self, path: str | PathLike[str], client: str | None = None, model: ModelKind = "local"
    ) -> None:
        """Write the forecaster of a client, see `predict`, as a program for ONNX runtimes (.onnx).

        The program is a function of readings and the time of the last one, see `inputs`. It returns
        loads in kWh per interval: sorted quantiles with their widths added, or point forecasts,
        with widths between the ends of their intervals. `about.json`, a property of the file's
        metadata, describes them.

        Raises:
            DataError: no such client or model.
            ConfigError: PyTorch cannot export a model of the user's own.
            PlflError: the file has another suffix, or packages for ONNX are missing.
        """
        from plfl.forecast.export import export
        from plfl.forecast.programs import program_of

        client = self._client(client)
        self._check_model(model)
        row = None if self.baseline else self._row(client, model)
        about = {
            "forecaster": self.name,
            "client": client,
            "model": model,
            "columns": self.columns,
            "interval_minutes": self.interval,
            "rows_ahead": self.study.windows.look_ahead,
            "horizons": self.study.windows.horizons,
            "task": self.study.task.settings,
            "output": "kWh per interval",
        }
        program = program_of(self, client, row, self.rows_needed, self._widths(client, model))
        export(Path(path), program, self._count_later_rows, about)

    @property
    def _count_later_rows(self) -> int:
        """Rows after the last reading that a forecast reads."""
        return self.study.windows.farthest if self.meter_files.future_features else 0

    def _windows(
        self, frame: pd.DataFrame, client: str, early: bool = False, fills_lags: bool = False
    ) -> ForecastWindows:
        """The windows of a client's readings; `early` and `fills_lags` as in `predict`."""
        rows_ahead = self.study.windows.farthest
        step, known_rows = (
            pd.Timedelta(minutes=self.interval),
            self.meter_files.without_known_future(frame),
        )
        stamps = pd.date_range(
            frame.index[0], periods=len(known_rows) + rows_ahead, freq=step, name="timestamp"
        )
        assembled = assemble(frame[self.reading_columns].reindex(stamps), self.columns)
        settings = self.study.windows, self.scalings[client]
        dataset = build_later(client, assembled, *settings, fills_lags=fills_lags)
        if len(known_rows) < self.rows_needed:
            text = (
                f"a forecast reads the last {self.rows_needed} readings, and the files have "
                f"{len(known_rows)}; the last one stands for those that are missing"
            )
            log.warning("%s", Problem(client, text, meter=client, kind="few readings"))
        reach = dataset.look_back if early else self.rows_needed
        needed_rows = min(reach, max(len(known_rows), dataset.look_back))
        last = np.arange(needed_rows - 1, len(known_rows))
        last = last[dataset.is_readable[last]]
        if not len(last):
            gapless_rows = dataset.look_back if fills_lags else needed_rows
            raise DataError(
                Problem(
                    client,
                    f"no row has all that the model reads: {gapless_rows} readings in a row "
                    "without a gap"
                    + (
                        f", and at the time it forecasts, {rows_ahead} rows later, what "
                        "windows.covariates: known_future lists"
                        if self.meter_files.future_features
                        else ""
                    ),
                    "add rows" if self.meter_files.future_features else "add readings",
                )
            )
        return ForecastWindows(assembled, dataset, last)

    def _check_model(self, model: ModelKind) -> None:
        if self.baseline and model != "local":
            raise DataError(
                Problem(self.name, f"a baseline has no {model} model", "leave out --model")
            )

    def _row(self, client: str, model: ModelKind) -> NDArray[np.float32]:
        if model not in self.models:
            raise DataError(
                Problem(self.name, f"has no {model} model", f"it has {', '.join(self.models)}")
            )
        row: NDArray[np.float32] = self.models[model][self.clients.index(client)]
        return row

    def _widths(self, client: str, model: ModelKind) -> NDArray[np.float64] | None:
        """The widths of the intervals of a client's model; None without widths."""
        widths = self.widths.get(model)
        return None if widths is None else widths[self.clients.index(client)]

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model as a file that `load` and `plfl forecast` read."""
        arrays = join_clients(self.fitted_arrays.get(client, {}) for client in self.clients)
        write_models(Path(path), arrays if self.baseline else self.models, self.header)

    def _client(self, client: str | None) -> str:
        if client is None and len(self.clients) == 1:
            return self.clients[0]
        if client not in self.clients:
            client_list = ", ".join(self.clients[:12]) + (", …" if len(self.clients) > 12 else "")
            if client is None:
                raise DataError(
                    Problem("", f"the model was trained with {client_list}", "name one (--client)")
                )
            raise DataError(
                Problem(
                    "",
                    f"client {client!r} did not take part, and the model was trained with "
                    f"{client_list}",
                    "name one of them with --client, or train a model for a new meter with `plfl "
                    "forecast --new` (in Python: adapt)"
                    f"{suggest_name(client, self.clients)}",
                )
            )
        return client

    def _check(self, frame: pd.DataFrame, client: str) -> None:
        if not isinstance(frame.index, pd.DatetimeIndex) or frame.index.tz is not None:
            raise DataError(
                Problem(
                    client,
                    "its index is no column of times without a UTC offset",
                    "set it to the ends of the intervals in standard time",
                )
            )
        if missing := [name for name in self.reading_columns if name not in frame]:
            raise DataError(
                Problem(
                    client,
                    f"has no column {', '.join(missing)}, but the model reads "
                    f"{', '.join(self.reading_columns)}",
                    "add it",
                )
            )
        check_stamps(client, frame.index, self.interval)
        for name in self.reading_columns:
            check_finite(client, frame[name], may_have_gaps=True)
        needed_rows = self.study.windows.look_back
        if len(frame) < needed_rows:
            how_to_keep = (
                " (with a results folder, `plfl forecast --keep-readings` keeps those of each call)"
                if client in self.clients  # of a new meter, nothing is kept
                else ""
            )
            raise DataError(
                Problem(
                    client,
                    f"has {len(frame)} readings, but a forecast needs {needed_rows} in a row, "
                    f"{self.interval} minutes apart",
                    f"add earlier ones{how_to_keep}",
                )
            )
        if client in self.clients:
            check_unit(client, frame["load"], self.load_range(client), self.interval)

    def load_range(self, client: str) -> tuple[float, float]:
        """The least and the largest load of a client's training, in kWh."""
        scaling, column = self.scalings[client], self.columns.index("load")
        return float(scaling.low[column]), float(scaling.high[column])

    def _report(
        self,
        table: pd.DataFrame,
        forecasts: pd.DataFrame,
        client: str,
        since: pd.Timestamp | None = None,
    ) -> None:
        """Report what is unusual of the values that forecasts read of a table of inputs, which ends
        with the last load; of values outside of the training data, only those `since` a time."""
        if not forecasts.empty:
            self._report_gaps(table, forecasts, client)
            first = int(table.index.searchsorted(forecasts["made_at"].min()))
            self._report_outside(table[max(0, first - self.rows_needed + 1) :].loc[since:], client)

    def _report_gaps(self, table: pd.DataFrame, forecasts: pd.DataFrame, client: str) -> None:
        """Report that lags of forecasts are in a gap."""
        if not table["load"].isna().any():
            return
        dataset = build_later(client, table, self.study.windows, self.scalings[client])
        row_numbers = table.index.get_indexer(pd.DatetimeIndex(forecasts["made_at"].unique()))
        if not dataset.is_readable[row_numbers].all():
            text = (
                f"some of the last {self.rows_needed} readings that a forecast reads are in a gap; "
                "the last one stands for those that are missing"
            )
            log.warning("%s", Problem(client, text, meter=client))

    def _report_outside(self, table: pd.DataFrame, client: str) -> None:
        """Report values outside of the client's training data."""
        scaling = self.scalings[client]
        for name, low, high in zip(self.columns, scaling.low, scaling.high, strict=True):
            values = table[name].to_numpy(float)
            is_outside = (values < low) | (values > high)
            if name not in CALENDAR and is_outside.any():
                first = self.meter_files.local_time(table.index[int(is_outside.argmax())], client)
                text = (
                    f"{is_outside.sum()} of {len(is_outside)} readings of {name} are outside the "
                    f"range of its training, {low:.4g} to {high:.4g}, the first at {first}"
                )
                kind = "readings outside the range of training"
                log.warning("%s", Problem(client, text, meter=client, kind=kind))


def count_rows_read(study: Study, interval: int, baseline: str) -> int:
    """Rows on which a forecast of a study's models, or of a `baseline`, can depend, one every
    `interval` minutes: with these the forecast is the one that all readings give."""
    members = study.baselines.find_with_members(baseline) if baseline else ()
    contexts = [member.count_context(interval) for member in members]
    return max(count_rows_needed(study, interval, baseline), *contexts, 0)


def count_rows_needed(study: Study, interval: int, baseline: str) -> int:
    """Rows that a forecast of a study's models, or of a `baseline`, needs, one every `interval`
    minutes."""
    windows = study.windows
    members = study.baselines.find_with_members(baseline) if baseline else ()
    reach = max((member.reach for member in members), default=0)
    earlier_rows = reach // interval - windows.look_ahead
    return max(
        covariates.count_reach_rows(windows, interval),
        earlier_rows + 3 if earlier_rows > 0 else 0,
    )


def load(path: str | PathLike[str]) -> ForecastModel:
    """Read a model from `results/NAME/models`, or one that `plfl run --models` wrote.

    The file is data. If its study names Python files, these run only after `plfl.trust` has named
    them, or after a study that names them has been read in the same process.

    Raises:
        ResultsError: the file is missing or damaged, another format of plfl wrote it, or a Python
            file that its study names is missing, has changed since, or is not trusted.

    >>> import plfl
    >>> model = plfl.load("results/demo/models/town-P2.safetensors")
    >>> model.clients, model.rows_needed
    (['a', 'b', 'c'], 12)
    """
    path = Path(path)
    arrays, about = read_arrays(path)
    if about.get("format") != FORMAT:
        raise ResultsError(
            Problem(
                path,
                f"holds no model of format {FORMAT}, which this plfl ({__version__}) reads",
                "use a file of results/NAME/models, or train it again with this version",
            )
        )
    try:
        return _check_file_parts(str(path), arrays, ModelFileHeader.model_validate(about))
    except ResultsError:
        raise
    except PlflError as error:
        raise ResultsError(Problem(path, f"its study cannot be read here: {error}")) from None
    except TABLE_DAMAGE as error:
        raise ResultsError(
            Problem(path, f"its header is damaged ({error})", "train the model again")
        ) from None


def _check_file_parts(path: str, arrays: Arrays, header: ModelFileHeader) -> ForecastModel:
    """The model in a file, if the parts of the file fit each other."""
    study = Study.from_results(header.study, path, header.code)
    forecaster = header.forecaster
    models: Models = {model: arrays[model] for model in MODELS if model in arrays}
    arrays_of_baselines: dict[str, Arrays] = {}
    if isinstance(forecaster, KeptBaseline):
        saved_arrays = split_clients(arrays, len(header.clients))
        arrays_of_baselines.update(zip(header.clients, saved_arrays, strict=True))
    if study.model.settings != header.model:
        raise ResultsError(
            Problem(
                path,
                f"the file of the model, {study.model.summary}, is not the one of the training",
                "restore it, run plfl in the folder of the study, or train again",
            )
        )
    known_shapes = {name: list(shape) for name, shape in study.plan.layout.all_shapes.items()}
    if known_shapes != header.parameters:
        raise ResultsError(
            Problem(
                path,
                f"has other parameters than this plfl's {study.model.summary}",
                f"use version {header.version}, or train it again",
            )
        )
    scalings = {
        name: Scaling.from_json(**stored_scaling) for name, stored_scaling in header.clients.items()
    }
    widths = {name: np.array(rows, float) for name, rows in header.widths.items()}
    width = study.plan.window_shape.inputs
    fitting = {
        "cell": forecaster.name in storable_names(study.baselines)
        if isinstance(forecaster, KeptBaseline)
        else forecaster in study.cells,
        "columns": len(header.columns) == width,
        "clients": all(
            getattr(s, n).shape == (width,) for s in scalings.values() for n in SCALING_ARRAYS
        )
        and all(np.isfinite([s.offset, s.scale]).all() for s in scalings.values()),
        "models": all(
            rows.shape == (len(scalings), study.plan.layout.width) for rows in models.values()
        ),
        "widths": all(own_widths.shape[:1] == (len(scalings),) for own_widths in widths.values()),
    }
    if wrong := [name for name, fits in fitting.items() if not fits]:
        raise ValueError(f"{', '.join(wrong)} do not fit the study")
    return ForecastModel(
        study=study,
        forecaster=forecaster,
        columns=header.columns,
        interval=header.interval,
        scalings=scalings,
        models=models,
        widths=widths,
        fitted_arrays=arrays_of_baselines,
    )
