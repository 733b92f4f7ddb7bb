"""Runs the probes through FL4Health: `python -m benchmarks.conformance.fl4health FOLDER` prints
JSON.

FOLDER is a clone of https://github.com/VectorInstitute/FL4Health. Its clients run as they are, in
float64, through `fit` and `evaluate`. Replaced are the model, the data, the loss, and Flower: the
server is the mean of what clients send. Packages that are not installed and that the clients do not
need here are stubs.
"""

import ast
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.conformance import quadratics
from benchmarks.conformance.adapter import Found, NotThere, main, stub
from benchmarks.conformance.probes import Probe

CLIENTS = {
    "fedavg": ("basic_client", "BasicClient"),
    "fedper": ("fedper_client", "FedPerClient"),
    "fedrep": ("fedrep_client", "FedRepClient"),
    "ditto": ("ditto_client", "DittoClient"),
    "apfl": ("apfl_client", "ApflClient"),
    "apfl_adaptive": ("apfl_client", "ApflClient"),
}
"""Module and class of each method's client."""
STUBS = (
    "flwr opacus wandb torchmetrics dp_accounting monai nnunetv2 peft qpth ecos pympler "
    "torchvision flwr_datasets transformers datasets acvl_utils tree"
)
OPTIMISERS = {
    "fedrep": {"representation": "base_module", "head": "head_module"},
    "apfl": {"global": "global_model", "local": "local_model"},
}
"""Optimisers and the parts of the model that each has."""


def client(probe: Probe, number: int) -> Any:
    """FL4Health's client for one of the probe's clients."""
    module, name = CLIENTS[probe.method]
    cls = getattr(import_module(f"fl4health.clients.{module}"), name)
    problem = probe.problem
    data = {test: [quadratics.row(problem, number, test)] for test in (False, True)}

    class Client(cls):  # type: ignore[misc, valid-type]
        def get_model(self, config: Any) -> Any:
            return model(probe)

        def get_data_loaders(self, config: Any) -> Any:
            return [torch.utils.data.DataLoader(data[test], 1) for test in (False, True)]  # type: ignore[arg-type, var-annotated]

        def get_criterion(self, config: Any) -> Any:
            return quadratics.HalfSquare()

        def get_optimizer(self, config: Any) -> Any:
            def sgd(part: torch.nn.Module) -> torch.optim.Optimizer:
                return torch.optim.SGD(part.parameters(), lr=problem.optimiser.lr)

            if probe.method == "ditto":
                return {"global": sgd(self.global_model), "local": sgd(self.model)}
            parts = OPTIMISERS.get(probe.method.partition("_")[0])
            if parts is None:
                return sgd(self.model)
            return {key: sgd(getattr(self.model, part)) for key, part in parts.items()}

    return Client(Path(), [], torch.device("cpu"))


def model(probe: Probe) -> Any:
    """The model in the form that the method asks for."""
    whole = quadratics.Model((2.0, 2.0))
    if probe.method.startswith("apfl"):
        base = import_module("fl4health.model_bases.apfl_base")
        adaptive = probe.method == "apfl_adaptive"
        share, lr = probe.arguments["alpha"], probe.problem.optimiser.lr
        return base.ApflModule(whole, adaptive_alpha=adaptive, alpha=share, alpha_lr=lr)
    if probe.method == "fedper":
        base = import_module("fl4health.model_bases.sequential_split_models")
        return base.SequentiallySplitExchangeBaseModel(whole.base, whole.head)
    if probe.method == "fedrep":
        base = import_module("fl4health.model_bases.fedrep_base")
        return base.FedRepModel(whole.base, whole.head)
    return whole


def run(folder: Path, probe: Probe) -> Found:
    """The probe in FL4Health."""
    problem, given = probe.problem, probe.arguments
    if probe.method not in CLIENTS or given.get("own_steps", problem.steps) != problem.steps:
        raise NotThere  # its Ditto takes as many steps of v as of w
    steps = {"local_steps": problem.steps}
    if probe.method == "fedrep":
        head, body = int(given["head_steps"]), int(given["body_steps"])
        steps = {"local_head_steps": head, "local_rep_steps": body}
    ditto = probe.method == "ditto"
    weight = [np.array(given.get("lam", default_weight(folder)))] * ditto
    clients = [client(probe, i) for i in range(len(problem.a))]
    server = client(probe, 0).get_parameters({"current_server_round": 1, **steps})
    x = [problem.x0[problem.mask].tolist()]
    for t, present in enumerate(problem.present, 1):
        config = {"current_server_round": t, **steps}
        sent = [clients[i].fit([*server, *weight], config)[0] for i in present]
        arrays = [own[: len(own) - ditto] for own in sent]  # Ditto's last one is a loss
        server = [np.mean(same, axis=0) for same in zip(*arrays, strict=True)]
        x.append([float(array.item()) for array in server])
    quadratics.scored.clear()
    for each in clients:
        each.evaluate([*server, *weight], {"current_server_round": len(x) - 1, **steps})
    return Found(x, [personal(i, each) for i, each in enumerate(clients)])


def personal(number: int, client: Any) -> list[float]:
    """The model of a client that was scored: the last one, or APFL's mixture of two."""
    seen = [[s, p] for i, s, p in quadratics.scored if i == number]
    share = getattr(client.model, "alpha", None)
    if share is None:
        return seen[-1]
    common, own = seen[-2:]
    return [share * v + (1 - share) * w for v, w in zip(own, common, strict=True)]


def default_weight(folder: Path) -> float:
    """The default λ of the strategy for Ditto."""
    file = folder / "fl4health" / "strategies" / "fedavg_with_adaptive_constraint.py"
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            names = [argument.arg for argument in [*node.args.args, *node.args.kwonlyargs]]
            defaults = [*node.args.defaults, *node.args.kw_defaults]
            values = dict(zip(names[::-1], defaults[::-1], strict=False))
            return float(ast.literal_eval(values["initial_loss_weight"]))  # type: ignore[arg-type]
    raise ValueError(f"{file} has no __init__")


def set_up(folder: Path) -> None:
    """Make FL4Health's modules importable."""
    sys.path.insert(0, str(folder))
    import_module("sklearn.metrics")  # before stubs of what it would use
    stub(*STUBS.split())
    import_module("flwr.client").NumPyClient = object  # type: ignore[attr-defined]


if __name__ == "__main__":
    main(set_up, run)
