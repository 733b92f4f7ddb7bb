"""Runs the probes through FL-bench: `python -m benchmarks.conformance.fl_bench FOLDER` prints JSON.

FOLDER is a clone of https://github.com/KarhouTam/FL-bench. Its servers, trainer and clients run as
they are, serially and in float64, with the defaults of `src/utils/constants.py` and of each
method's `get_hyperparams`. The model and the data are registered under FL-bench's own tables;
replaced are the loss and the draw of participants. Packages that are not installed and that a
serial run does not need are stubs.
"""

import copy
import json
import pickle
import sys
import tempfile
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from benchmarks.conformance import quadratics
from benchmarks.conformance.adapter import Found, NotThere, main, stub
from benchmarks.conformance.probes import NO_SERVER_MODEL, Probe

SERVERS = {
    "fedavg": ("fedavg", "FedAvgServer"),
    "fedavg_ft": ("fedavg", "FedAvgServer"),
    "fedper": ("fedper", "FedPerServer"),
    "lg_fedavg": ("lgfedavg", "LGFedAvgServer"),
    "fedrep": ("fedrep", "FedRepServer"),
    "fedbabu": ("fedbabu", "FedBabuServer"),
    "ditto": ("ditto", "DittoServer"),
    "per_fedavg": ("perfedavg", "PerFedAvgServer"),
    "per_fedavg_hf": ("perfedavg", "PerFedAvgServer"),
    "apfl": ("apfl", "APFLServer"),
    "apfl_adaptive": ("apfl", "APFLServer"),
    "pfedme": ("pfedme", "pFedMeServer"),
    "fedala": ("fedala", "FedALAServer"),
    "fedfomo": ("fedfomo", "FedFomoServer"),
}
"""Module and class of each method's server."""
BATCHES = {"per_fedavg": 2, "per_fedavg_hf": 3, "fedfomo": 5}
"""Batches of one step, in FedFomo of four steps and the validation. Each has two equal samples:
FL-bench skips a batch of one sample."""


class Settings(dict[str, Any]):
    """Nested settings with their keys as attributes, for omegaconf's `DictConfig`."""

    def __init__(self, values: dict[str, Any]) -> None:
        nested = {k: Settings(v) if isinstance(v, dict) else v for k, v in values.items()}
        super().__init__(nested)

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __delattr__(self, name: str) -> None:
        del self[name]


def arguments(probe: Probe) -> dict[str, Any]:
    """A probe's hyperparameters under the names that FL-bench gives them."""
    given, problem = dict(probe.arguments), probe.problem
    if probe.method == "ditto":
        pull = {"lamda": given["lam"]} if "lam" in given else {}
        return {"pers_epoch": given["own_steps"], **pull}
    if probe.method == "fedrep":
        return {"train_body_epoch": given["body_steps"]}
    if probe.method.startswith("per_fedavg"):
        version = "hf" if "delta" in given else "fo"
        rate = {"version": version, "beta": problem.optimiser.lr}
        return rate | ({"delta": given["delta"]} if "delta" in given else {})
    if probe.method.startswith("apfl"):
        return {"alpha": given["alpha"], "adaptive_alpha": probe.method == "apfl_adaptive"}
    if probe.method == "pfedme":
        return {
            **({"beta": given["beta"]} if "beta" in given else {}),
            "lamda": given["lam"],
            "pers_lr": problem.optimiser.lr,
            "k": problem.steps,
            "mu": 0,
        }
    if probe.method == "fedala":
        passes = {"num_pre_loss": int(given["first"]) - 1, "threshold": float("inf")}
        return {"layer_idx": 0, "eta": given["weight_lr"], "rand_percent": 1, **passes}
    if probe.method == "fedfomo":
        return {"M": min(map(len, problem.present))}
    return {}


def settings(server: type, probe: Probe) -> Settings:
    """FL-bench's defaults with those of the method and of the probe."""
    constants = import_module("src.utils.constants")
    problem, given = probe.problem, probe.arguments
    values = copy.deepcopy(constants.DEFAULTS)
    values["dataset"] = {"name": "quadratics", "split": "sample"}
    values["model"]["name"] = "quadratics"
    lr, steps = problem.optimiser.lr, problem.steps
    if probe.method.startswith("per_fedavg"):
        lr = given["alpha"]
    if probe.method == "pfedme":
        lr, steps = given["eta"], int(given["outer_steps"])
    if probe.method == "fedfomo":
        steps = 1  # epoch, of four batches
    if probe.method == "fedrep":
        steps = int(given["head_steps"] + given["body_steps"])
    values["optimizer"]["lr"] = lr
    common = values["common"]
    common.update(
        global_epoch=len(problem.present),
        local_epoch=steps,
        batch_size=2,
        join_ratio=1,
        client_side_evaluation=False,
        use_cuda=False,
        save_log=False,
    )
    interval = -1 if probe.method == "fedala" else 1  # a test would train its weights
    finetune = int(given.get("finetune", 0))
    common["test"]["client"].update(interval=interval, finetune_epoch=finetune)
    own = vars(server.get_hyperparams([])) if hasattr(server, "get_hyperparams") else {}  # type: ignore[attr-defined]
    module, _ = SERVERS[probe.method]
    return Settings({**values, module: {**own, **arguments(probe)}})


def register(probe: Probe, folder: Path) -> None:
    """Enter the probe's model and data into FL-bench's tables."""
    problem, batches = probe.problem, BATCHES.get(probe.method, 1)
    models, datasets = import_module("src.utils.models"), import_module("data.utils.datasets")

    class Model(models.DecoupledModel):  # type: ignore[misc, name-defined]
        def __init__(self, **_: Any) -> None:
            super().__init__()
            self.base, self.classifier = quadratics.Body(2.0), quadratics.Head(2.0)

    class Data(torch.utils.data.Dataset[quadratics.Row]):
        def __init__(self, **_: Any) -> None:
            clients = range(len(problem.a))
            self.rows = [quadratics.row(problem, i) for i in clients for _ in range(2 * batches)]
            self.rows += [quadratics.row(problem, i, test=True) for i in clients]

        def __getitem__(self, index: int) -> quadratics.Row:
            return self.rows[index]

        def eval(self) -> None: ...

        def train(self) -> None: ...

    models.MODELS["quadratics"] = Model
    datasets.DATASETS["quadratics"] = Data
    clients = list(range(len(problem.a)))
    size, first_test = 2 * batches, 2 * batches * len(clients)
    indices = [
        {"train": list(range(size * i, size * (i + 1))), "val": [], "test": [first_test + i]}
        for i in clients
    ]
    names = ("train", "val", "test")
    separation = dict.fromkeys(names, clients) | {"total": len(clients)}
    home = folder / "data" / "quadratics"
    home.mkdir(parents=True, exist_ok=True)
    (home / "args.json").write_text(json.dumps({}))
    partition = {"separation": separation, "data_indices": indices}
    (home / "partition.pkl").write_bytes(pickle.dumps(partition))


def run(folder: Path, probe: Probe) -> Found:
    """The probe in FL-bench."""
    if probe.method not in SERVERS:
        raise NotThere
    problem = probe.problem
    module, name = SERVERS[probe.method]
    cls = getattr(import_module(f"src.server.{module}"), name)
    with tempfile.TemporaryDirectory() as scratch:
        import_module("src.server.fedavg").FLBENCH_ROOT = Path(scratch)  # type: ignore[attr-defined]
        register(probe, Path(scratch))
        server = cls(args=settings(cls, probe))
    server.client_sample_stream = [list(clients) for clients in problem.present]
    x = [owned(server, probe)]
    trained: dict[int, list[float]] = {}
    aggregate, train = server.aggregate_client_updates, server.trainer.worker.train
    test = server.test_client_models

    def aggregate_and_note(packages: Any) -> None:
        aggregate(packages)
        x.append(owned(server, probe))
        quadratics.scored.clear()

    def train_and_note(package: Any) -> Any:
        done = train(package)
        trained[package["client_id"]] = quadratics.parameters(server.trainer.worker.model)
        return done

    def test_on_one_batch() -> None:  # it fine-tunes for epochs; here an epoch is a step
        every = [indices["train"] for indices in server.client_data_indices]
        for indices in server.client_data_indices:
            indices["train"] = indices["train"][:2]
        test()
        for indices, train in zip(server.client_data_indices, every, strict=True):
            indices["train"] = train

    server.aggregate_client_updates = aggregate_and_note
    if probe.method != "fedfomo":  # which does not fine-tune, and needs data to validate on
        server.test_client_models = test_on_one_batch
    server.trainer.worker.train = train_and_note
    server.train()
    if probe.method in NO_SERVER_MODEL:
        x = [[]] * (len(problem.present) + 1)
    if probe.method == "fedala":
        return Found(x, [trained[i] for i in range(len(problem.a))])
    return Found(x, personal(server, probe))


def owned(server: Any, probe: Probe) -> list[float]:
    """The server's coordinates."""
    values = [float(value) for value in server.public_model_params.values()]
    return [v for v, own in zip(values, probe.problem.mask, strict=True) if own]


def personal(server: Any, probe: Probe) -> list[list[float]]:
    """The models that FL-bench scored last. APFL scores a mixture of two."""
    seen: dict[int, list[list[float]]] = {}
    for client, s, p in quadratics.scored:
        seen.setdefault(client, []).append([s, p])
    if not probe.method.startswith("apfl"):
        return [seen[i][-1] for i in sorted(seen)]
    mixed = []
    for i in sorted(seen):
        share = float(server.client_alphas[i])
        own, common = seen[i][-2:]
        mixed.append([share * v + (1 - share) * w for v, w in zip(own, common, strict=True)])
    return mixed


def set_up(folder: Path) -> None:
    """Make FL-bench's modules importable."""
    sys.path.insert(0, str(folder))
    import_module("sklearn.metrics")  # before `rich`, which it would use
    stub("ray", "hydra", "omegaconf", "rich", "pynvml", "visdom", "faiss", "torchvision")
    import_module("omegaconf").DictConfig = Settings  # type: ignore[attr-defined]

    def track(items: Iterable[Any], *_: Any, **__: Any) -> Iterable[Any]:
        return items

    import_module("rich.progress").track = track  # type: ignore[attr-defined]
    output = import_module("hydra.core.hydra_config").HydraConfig.get().runtime
    output.output_dir = tempfile.gettempdir()


if __name__ == "__main__":
    main(set_up, run)
