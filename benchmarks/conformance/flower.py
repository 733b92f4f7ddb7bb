"""Runs the probes through Flower's baselines: `python -m benchmarks.conformance.flower FOLDER`
prints JSON.

FOLDER is a clone of https://github.com/adap/flower. The FedRep baseline's client, model manager and
training run as they are, in float64. Replaced are the model, the data, the loss, and Flower itself:
its server is the mean of what clients send, and the baseline's record of heads is a dictionary.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.conformance import quadratics
from benchmarks.conformance.adapter import Found, NotThere, main, stub
from benchmarks.conformance.probes import Probe


class Batches(list[dict[str, Any]]):
    """A loader of one batch, of one row."""

    def __init__(self, row: quadratics.Row) -> None:
        self.dataset = [row]
        super().__init__([{"img": row[0][None], "label": row[1][None]}])


def client(probe: Probe, number: int) -> Any:
    """The baseline's client for one of the probe's clients."""
    base, app = import_module("fedrep.base_model"), import_module("fedrep.client_app")

    class Split(base.ModelSplit):  # type: ignore[misc, name-defined]
        def _get_model_parts(self, model: quadratics.Model) -> tuple[Any, Any]:
            return model.base, model.head

    class Manager(base.ModelManager):  # type: ignore[misc, name-defined]
        def _create_model(self) -> quadratics.Model:
            return quadratics.Model((2.0, 2.0))

    problem, given = probe.problem, probe.arguments
    config = {
        "learning-rate": problem.optimiser.lr,
        "momentum": 0.0,
        "num-local-epochs": int(given["head_steps"]),
        "num-rep-epochs": int(given["body_steps"]),
    }
    state = SimpleNamespace(parameters_records={base.FEDREP_HEAD_STATE: {}})
    manager = Manager(
        context=SimpleNamespace(run_config=config, state=state),
        trainloader=Batches(quadratics.row(problem, number)),
        testloader=Batches(quadratics.row(problem, number, test=True)),
        model_split_class=Split,
    )
    return app.FedRepClient(manager)


def mean(parameters: Sequence[Sequence[Any]]) -> list[Any]:
    """The mean of what clients sent, array by array."""
    return [np.mean(arrays, axis=0) for arrays in zip(*parameters, strict=True)]


def run(folder: Path, probe: Probe) -> Found:
    """The probe in the baseline."""
    if probe.method != "fedrep":
        raise NotThere
    problem = probe.problem
    clients = [client(probe, i) for i in range(len(problem.a))]
    server = [array.copy() for array in clients[0].model_manager.model.get_parameters()]
    x = [float(server[0].item())]
    for present in problem.present:
        server = mean([[a.copy() for a in clients[i].fit(server, {})[0]] for i in present])
        x.append(float(server[0].item()))
    quadratics.scored.clear()
    for each in clients:
        each.evaluate(server, {})
    return Found([[value] for value in x], [[s, p] for _, s, p in quadratics.scored])


def set_up(folder: Path) -> None:
    """Make the baseline's modules importable."""
    sys.path.insert(0, str(folder / "baselines" / "fedrep"))
    stub("flwr", "flwr_datasets", "torchvision")
    common, flwr_client = import_module("flwr.common"), import_module("flwr.client")
    common.ParametersRecord = dict  # type: ignore[attr-defined]
    common.array_from_numpy = lambda a: SimpleNamespace(numpy=a.copy)  # type: ignore[attr-defined]
    flwr_client.NumPyClient = object  # type: ignore[attr-defined]
    import_module("flwr.server.strategy").FedAvg = object  # type: ignore[attr-defined]


if __name__ == "__main__":
    main(set_up, run)
