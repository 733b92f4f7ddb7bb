"""Fitted baselines as arrays, which forecast later readings: data only, no code.

A client's arrays are `trees_0`, … (LightGBM's own text as bytes, one for each level of each model)
and `unit`; `coefficients`, one row for each target of a ridge regression; `residuals` (H, Q) of a
forecast without quantiles of its own; `weights` (K,) of a combination. Those of baselines that it
needs have their names before a slash. A naive forecast has none.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from plfl.baselines.fitting import RESIDUALS, WithErrors, fit
from plfl.config.baselines import Baselines
from plfl.data.arrays import arrays_under
from plfl.data.dataset import Dataset
from plfl.interfaces.baseline import Arrays, Baseline, FitSettings, FittedBaseline, Floats
from plfl.study import Study

WIDTHS_KEY = "widths"
"""The widths of the intervals of all clients, in the file of the baselines of a state."""


def settings_of(study: Study) -> FitSettings:
    """What a study asks of its baselines, with the levels of its task."""
    return replace(study.baselines.fit_settings, levels=study.task.quantile_levels)


def storable_names(keys: Baselines) -> list[str]:
    """The baselines of a study that can be stored."""
    return select_storable(map(keys.find, keys.names))


def select_storable(baselines: Iterable[Baseline]) -> list[str]:
    """The names of those that can be stored, for which clients send no raw data, and which were not
    pre-trained on the study's data: their errors say nothing about later readings. `baselines`:
    each after those that it needs."""
    names: list[str] = []
    for baseline in baselines:
        is_usable = baseline.crosses != "raw data" and not baseline.has_seen_the_data
        is_restorable = type(baseline).restore is not Baseline.restore
        if is_usable and is_restorable and {*baseline.needs} <= {*names}:
            names.append(baseline.name)
    return names


def pack(
    baselines: Iterable[Baseline],
    fitted_baselines: Mapping[str, FittedBaseline],
    widths: Mapping[str, Floats],
    client_count: int,
) -> Arrays:
    """All that is saved of fitted baselines that can be stored, and the widths of their intervals,
    as the arrays of one file; `client_count`: their number."""
    packed: dict[str, NDArray[Any]] = {}
    for name in filter(fitted_baselines.__contains__, select_storable(baselines)):
        joined = join_clients(map(fitted_baselines[name].save, range(client_count)))
        packed |= {f"{name}/{key}": array for key, array in joined.items()}
        if name in widths:
            packed[f"{name}/{WIDTHS_KEY}"] = widths[name]
    return packed


def join_clients(arrays_of_clients: Iterable[Arrays]) -> Arrays:
    """The arrays of clients as those of one file: `0.unit` is of the first client."""
    return {
        f"{client}.{key}": array
        for client, arrays in enumerate(arrays_of_clients)
        for key, array in arrays.items()
    }


def split_clients(joined: Arrays, client_count: int) -> list[dict[str, NDArray[Any]]]:
    """The arrays of each client among those of `join_clients` and others, whose names lack it."""
    arrays_of_clients: list[dict[str, NDArray[Any]]] = [{} for _ in range(client_count)]
    for path, array in joined.items():
        client, _, key = path.partition(".")
        if key:
            arrays_of_clients[int(client)][key] = array
    return arrays_of_clients


def widths_of(packed: Arrays, name: str) -> Floats | None:
    """The widths (N, ...) of the clients' intervals by a packed baseline; None without any."""
    return packed.get(f"{name}/{WIDTHS_KEY}")


def unpack(baselines: Baselines, name: str, packed: Arrays, client_count: int) -> list[Arrays]:
    """What each client needs of a packed baseline and of those that it needs."""
    arrays_of_clients = split_clients(arrays_under(packed, name), client_count)
    for member in baselines.find(name).needs:
        for arrays, saved in zip(
            arrays_of_clients, unpack(baselines, member, packed, client_count), strict=True
        ):
            arrays.update({f"{member}/{key}": array for key, array in saved.items()})
    return [*arrays_of_clients]


def baseline_arrays(
    baselines: Baselines, name: str, fitted_baselines: Mapping[str, FittedBaseline], client: int
) -> Arrays:
    """What a client needs of a fitted baseline and of those that it needs; `fitted_baselines`:
    these all, by name."""
    arrays = dict(fitted_baselines[name].save(client))
    for member in baselines.find(name).needs:
        saved = baseline_arrays(baselines, member, fitted_baselines, client)
        arrays |= {f"{member}/{key}": array for key, array in saved.items()}
    return arrays


def restore(
    baselines: Baselines, name: str, arrays: Arrays, dataset: Dataset, settings: FitSettings
) -> FittedBaseline:
    """A saved baseline, which forecasts windows of the only client of a dataset."""
    baseline = baselines.find(name)
    members = {
        member: restore(baselines, member, arrays_under(arrays, member), dataset, settings)
        for member in baseline.needs
    }
    fitted_baseline = baseline.restore(arrays, dataset, settings, members)
    if RESIDUALS not in arrays:
        return fitted_baseline
    return WithErrors(fitted_baseline, dataset.horizons, [arrays[RESIDUALS]])


def fit_to_new(
    baselines: Baselines, name: str, arrays: Arrays, dataset: Dataset, settings: FitSettings
) -> dict[str, FittedBaseline]:
    """A baseline and those that it needs, by name, for the only client of a dataset, which did not
    take part. `arrays`: what is saved for another client, for baselines that are used as received.
    """
    baseline = baselines.find(name)
    fitted_baselines: dict[str, FittedBaseline] = {}
    if adopted := baseline.adopt(arrays, dataset, settings):
        return {name: adopted}
    for member in baseline.needs:
        fitted_baselines |= fit_to_new(
            baselines, member, arrays_under(arrays, member), dataset, settings
        )
    fitted_baselines[name] = fit(baseline, dataset, settings, fitted_baselines)
    return fitted_baselines
