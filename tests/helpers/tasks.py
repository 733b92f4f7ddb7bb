"""Tasks of engines with some of their parts changed."""

from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call

from plfl.models.lstm_mlp_network import LstmMlpNetwork
from plfl.training.work import LocalWork


def changed(task: LocalWork, **values: Any) -> LocalWork:
    """The task with other `values` of its fields, or of those of its parts.

    `behind` are the steps that its moments have behind them.
    """
    if "behind" in values:
        task = replace(task, moments=replace(task.moments, steps=values.pop("behind")))
    own_fields = {field.name for field in fields(task)} & values.keys()
    task = replace(task, **{name: values.pop(name) for name in own_fields})
    for name in ("minibatches", "moments", "changes", "tracked_rows"):
        part = getattr(task, name)
        inner = {field.name for field in fields(part)} & values.keys()
        task = replace(task, **{name: replace(part, **{n: values.pop(n) for n in inner})})
    return replace(task, objective=task.objective._replace(**values))


def copied(task: LocalWork, rows: Any = slice(None)) -> LocalWork:
    """The work of some rows, as copies."""
    return task.select(rows).map(torch.clone)


def in_double(task: LocalWork) -> LocalWork:
    """A copy in double precision."""

    def double(values: Tensor) -> Tensor:
        return values.double() if values.dtype == torch.float32 else values.clone()

    return task.map(double)


def everything(task: LocalWork) -> dict[str, Tensor]:
    """All that a training changes, with a row for each model."""
    tracked = task.tracked_rows
    rows_by_name = {"rows": task.rows}
    if tracked.gradients is not None:
        rows_by_name["gradients"] = tracked.gradients
    if tracked.average is not None:
        rows_by_name["average"] = tracked.average.rows
    return rows_by_name


def forecasts_of(forecaster: LstmMlpNetwork, rows: Tensor, windows: Tensor) -> Tensor:
    """Forecasts (S, B) of models `rows` (S, P) by PyTorch's own layers, one after the other."""
    module = forecaster.module().to(rows.dtype)
    names = [name for name, _ in module.named_parameters()]
    forecasts = []
    for s, client_windows in enumerate(windows):
        values = [view[0] for view in forecaster.layout.views(rows[s : s + 1]).values()]
        parameters = dict(zip(names, values, strict=True))
        forecasts.append(functional_call(module, parameters, (client_windows,)))
    return torch.stack(forecasts)
