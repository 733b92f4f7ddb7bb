"""Runs the probes through PFLlib: `python -m benchmarks.conformance.pfllib FOLDER` prints JSON.

FOLDER is a clone of https://github.com/TsingZ0/PFLlib. Its servers and clients run as they are, in
float64, with the defaults of its `main.py`. Replaced are: the data (`read_client_data`), the model,
the loss, the draw of participants, and what it writes to disk. A round of PFLlib scores the models
that clients hold before they train, so it runs one round more than the probe.
"""

import ast
import random
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks.conformance import quadratics
from benchmarks.conformance.adapter import Found, NotThere, main, stub
from benchmarks.conformance.probes import NO_SERVER_MODEL, Probe

SERVERS = {
    "fedavg": ("serveravg", "FedAvg"),
    "fedper": ("serverper", "FedPer"),
    "lg_fedavg": ("serverlg", "LG_FedAvg"),
    "fedrep": ("serverrep", "FedRep"),
    "fedbabu": ("serverbabu", "FedBABU"),
    "ditto": ("serverditto", "Ditto"),
    "per_fedavg": ("serverperavg", "PerAvg"),
    "apfl": ("serverapfl", "APFL"),
    "apfl_adaptive": ("serverapfl", "APFL"),
    "pfedme": ("serverpFedMe", "pFedMe"),
    "fedala": ("serverala", "FedALA"),
    "fedamp": ("serveramp", "FedAMP"),
    "fedfomo": ("serverfomo", "FedFomo"),
}
"""Module and class of each method's server."""


def defaults(folder: Path) -> dict[str, Any]:
    """The defaults of the arguments of PFLlib's main.py."""
    found: dict[str, Any] = {}
    source = (folder / "system" / "main.py").read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "add_argument":
            name = next(a.value for a in node.args if str(a.value).startswith("--"))  # type: ignore[attr-defined]
            value = next(k.value for k in node.keywords if k.arg == "default")
            found[str(name)[2:]] = ast.literal_eval(value)
    return found


def arguments(probe: Probe) -> dict[str, Any]:
    """A probe's hyperparameters under the names that PFLlib gives them."""
    given, problem = dict(probe.arguments), probe.problem
    names = {
        "fedrep": lambda: {
            "plocal_epochs": given["head_steps"],
            "local_epochs": given["body_steps"],
        },
        "fedbabu": lambda: {"fine_tuning_epochs": given["finetune"]},
        "ditto": lambda: {
            "plocal_epochs": given["own_steps"],
            **({"mu": given["lam"]} if "lam" in given else {}),
        },
        "apfl": lambda: {"alpha": given["alpha"]},
        "apfl_adaptive": lambda: {"alpha": given["alpha"]},
        "pfedme": lambda: {
            "lamda": given["lam"],
            "K": problem.steps,
            "local_epochs": given["outer_steps"],
            "p_learning_rate": problem.optimiser.lr,
            "local_learning_rate": given["eta"],
            **({"beta": given["beta"]} if "beta" in given else {}),
        },
        "fedala": lambda: {"eta": given["weight_lr"], "layer_idx": 0, "rand_percent": 100},
        "fedamp": lambda: {
            "sigma": given["sigma"],
            "alphaK": given["alpha_k"],
            "lamda": given["lam"],
        },
        "fedfomo": lambda: {"local_epochs": 1},  # of four batches
    }
    return names[probe.method]() if probe.method in names else {}


def run(folder: Path, probe: Probe) -> Found:
    """The probe in PFLlib."""
    if probe.method not in SERVERS:
        raise NotThere
    problem = probe.problem
    # A step is a batch of one sample, of Per-FedAvg two; FedFomo validates on one of five.
    samples = {"per_fedavg": 2, "fedfomo": 5}.get(probe.method, 1)

    def read(dataset: str, idx: int, is_train: bool = True, few_shot: int = 0) -> list[Any]:
        count = samples if is_train else 1
        return [quadratics.row(problem, idx, test=not is_train)] * count

    extra = 0 if probe.method == "fedbabu" else 1  # which fine-tunes after the last round
    args = SimpleNamespace(
        **{
            **defaults(folder),
            "model": quadratics.Model((2.0, 2.0)),
            "device": "cpu",
            "num_classes": quadratics.CLASSES,
            "batch_size": 1,
            "num_clients": len(problem.a),
            "global_rounds": len(problem.present) - 1 + extra,
            "local_epochs": problem.steps,
            "local_learning_rate": problem.optimiser.lr,
            **arguments(probe),
        }
    )
    serverbase = import_module("flcore.servers.serverbase")
    module, name = SERVERS[probe.method]
    chosen = import_module(f"flcore.servers.{module}")
    for other in list(sys.modules.values()):
        if getattr(other, "read_client_data", None):
            other.read_client_data = read  # type: ignore[attr-defined]
    server = getattr(chosen, name)(args, 0)
    assert isinstance(server, serverbase.Server)
    server.save_results = server.save_global_model = lambda: None
    start = problem.rows0.tolist()
    for client, values in zip(server.clients, start, strict=True):
        for weight, value in zip(client.model.parameters(), values, strict=True):
            weight.data.fill_(value)
    adjust(server, probe)
    record = _Record(server, [*problem.present, range(len(problem.a))])
    server.train()
    rounds = len(problem.present)
    if probe.method in NO_SERVER_MODEL:
        x: list[list[float]] = [[]] * (rounds + 1)
    else:
        x = [own_part(values, probe) for values in record.x[: rounds + 1]]
    if probe.method == "fedala":
        personal = record.trained[rounds - 1]
    else:
        last = {client: [s, p] for client, s, p in quadratics.scored}
        personal = [last[i] for i in range(len(problem.a))]
    return Found(x, personal)


def own_part(values: list[float], probe: Probe) -> list[float]:
    """The server's coordinates among those of its model, which may be a part of the whole one."""
    if len(values) == 1:
        return values
    return [v for v, owned in zip(values, probe.problem.mask, strict=True) if owned]


def adjust(server: Any, probe: Probe) -> None:
    """What a probe fixes that PFLlib decides from its own run."""
    if probe.method == "apfl":  # α stays
        for client in server.clients:
            client.alpha_update = lambda: None
    if probe.method == "fedala":  # `first` passes, whatever the losses
        for client in server.clients:
            client.ALA.num_pre_loss = int(probe.arguments["first"]) - 1
            client.ALA.threshold = float("inf")
    if probe.method == "fedamp":  # round 1 attends to the initial models
        server.uploaded_ids = [client.id for client in server.clients]
        server.uploaded_models = [client.model for client in server.clients]


class _Record:
    """Notes the models of a server's rounds, and lets the probe's clients take part."""

    def __init__(self, server: Any, present: Sequence[Sequence[int]]) -> None:
        self.server, self.present = server, [list(clients) for clients in present]
        self.x = [quadratics.parameters(server.global_model)]
        self.trained: list[list[list[float]]] = []
        server.select_clients = self.select
        self._after("receive_models", self.received)
        pfedme = hasattr(server, "beta_aggregate_parameters")
        self._after(f"{'beta_' * pfedme}aggregate_parameters", self.aggregated)

    def _after(self, name: str, note: Callable[[], None]) -> None:
        original = getattr(self.server, name)

        def both() -> None:
            original()
            note()

        setattr(self.server, name, both)

    def select(self) -> list[Any]:
        chosen = [self.server.clients[i] for i in self.present.pop(0)]
        self.server.current_num_join_clients = len(chosen)
        quadratics.scored.clear()
        return chosen

    def received(self) -> None:
        self.trained.append([quadratics.parameters(c.model) for c in self.server.clients])

    def aggregated(self) -> None:
        self.x.append(quadratics.parameters(self.server.global_model))


def set_up(folder: Path) -> None:
    """Make PFLlib's modules importable."""
    sys.path.insert(0, str(folder / "system"))
    stub("h5py", "torchvision", "cvxpy", "cvxopt", "calmsize", "ujson")
    random.seed(0)


if __name__ == "__main__":
    main(set_up, run)
