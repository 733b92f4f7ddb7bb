"""Runs the probes through plfl's own round: `python -m benchmarks.conformance.own FOLDER` prints
JSON; FOLDER is this repository, whose code is the one that runs.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from benchmarks.conformance.adapter import Found, main
from benchmarks.conformance.probes import NO_SERVER_MODEL, Probe
from plfl.federated.federation import Federation
from plfl.interfaces.method import Method
from plfl.methods.ditto import Ditto
from plfl.methods.fedopt import FedOpt
from plfl.methods.fine_tuning import FineTuning
from plfl.optimizers.client.sgd import Sgd
from plfl.optimizers.server.fedavg import FedAvg
from plfl_reproductions.methods.apfl import APFL
from plfl_reproductions.methods.fedala import FedALA
from plfl_reproductions.methods.fedamp import FedAMP
from plfl_reproductions.methods.fedamp import FedAMPState as FedAMPState
from plfl_reproductions.methods.fedbabu import FedBABU
from plfl_reproductions.methods.fedfomo import FedFomo
from plfl_reproductions.methods.fedrep import FedRep
from plfl_reproductions.methods.per_fedavg import PerFedAvg
from plfl_reproductions.methods.pfedme import PFedMe
from tests.helpers.problems import Quadratic, in_turns, trajectory

METHODS: dict[str, Callable[[Mapping[str, Any], int], Method]] = {
    "fedavg": lambda given, K: FedOpt(),
    "fedavg_ft": lambda given, K: FineTuning(epochs=given["finetune"]),
    "fedper": lambda given, K: FedOpt(),
    "lg_fedavg": lambda given, K: FedOpt(),
    "fedrep": lambda given, K: FedRep(**given),
    "fedbabu": lambda given, K: FedBABU(epochs=given["finetune"]),
    "ditto": lambda given, K: Ditto(**renamed(given, own_steps="personal_steps")),
    "per_fedavg": lambda given, K: PerFedAvg(**given),
    "per_fedavg_hf": lambda given, K: PerFedAvg(**given, order="hf"),
    "apfl": lambda given, K: APFL(**given, adapt_alpha="never"),
    "apfl_adaptive": lambda given, K: APFL(**given, adapt_alpha="round"),
    "pfedme": lambda given, K: PFedMe(
        lam=given["lam"], eta=given["eta"], inner_steps=K, minibatches=given["outer_steps"]
    ),
    "fedala": lambda given, K: FedALA(subset="shared", **renamed(given, weight_lr="eta_w")),
    "fedamp": lambda given, K: FedAMP(attention="distance", **renamed(given, alpha_k="alpha")),
    "fedfomo": lambda given, K: FedFomo(probe=None),
}
"""plfl's methods with a probe's hyperparameters and its local steps K."""
FROM_THE_SERVER = ("fedavg", "fedper", "lg_fedavg", "fedrep")
"""Methods whose personalised model is [x; p_i]."""


def renamed(given: Mapping[str, Any], **names: str) -> dict[str, Any]:
    """Hyperparameters under the names that plfl gives them."""
    return {names.get(name, name): value for name, value in given.items()}


def run(folder: Path, probe: Probe) -> Found:
    """The probe in plfl."""
    problem = probe.problem
    method = METHODS[probe.method](probe.arguments, problem.steps)

    def start(f: Federation) -> None:
        f.local = torch.from_numpy(problem.rows0)
        if isinstance(f.state, FedAMPState):
            f.state.w = f.local[:, f.columns].clone()

    seen = trajectory(
        Sgd(lr=problem.optimiser.lr),
        FedAvg(lr=probe.arguments.get("beta", 1)),
        in_turns(method, *map(list, problem.present)),
        problem=Quadratic(list(problem.a), list(problem.c), list(problem.mix)),
        shared=tuple(problem.shared),
        start=tuple(problem.x0.tolist()),
        rounds=len(problem.present),
        steps=problem.steps,
        made=start,
    )
    last = seen[-1]
    personal = last.global_models if probe.method in FROM_THE_SERVER else last.scored
    x = [[] if probe.method in NO_SERVER_MODEL else s.x.tolist() for s in seen]
    return Found(x, personal.tolist())


if __name__ == "__main__":
    main(lambda folder: None, run)
