"""Runs the probes through plfl's own round: `python -m benchmarks.conformance.own FOLDER` prints
JSON; FOLDER is this repository, whose code is the one that runs.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.conformance.adapter import Found, NotThere, main
from benchmarks.conformance.probes import Probe
from plfl.methods import Method
from plfl.methods.ditto import Ditto
from plfl.methods.fedbabu import FedBABU
from plfl.methods.fedopt import FedOpt
from plfl.methods.fedrep import FedRep
from plfl.methods.fine_tuning import FineTuning
from plfl.methods.per_fedavg import PerFedAvg
from plfl.optimizers.client.sgd import Sgd
from plfl.optimizers.server.fedavg import FedAvg
from tests.helpers.problems import Quadratic, in_turns, trajectory

METHODS: dict[str, Callable[[Mapping[str, Any]], Method]] = {
    "fedavg": lambda given: FedOpt(),
    "fedavg_ft": lambda given: FineTuning(epochs=given["finetune"]),
    "fedper": lambda given: FedOpt(),
    "lg_fedavg": lambda given: FedOpt(),
    "fedrep": lambda given: FedRep(**given),
    "fedbabu": lambda given: FedBABU(epochs=given["finetune"]),
    "ditto": lambda given: Ditto(
        personal_steps=given["own_steps"], **{k: v for k, v in given.items() if k == "lam"}
    ),
    "per_fedavg": lambda given: PerFedAvg(**given),
    "per_fedavg_hf": lambda given: PerFedAvg(**given, order="hf"),
}
"""plfl's methods with a probe's hyperparameters."""
FROM_THE_SERVER = ("fedavg", "fedper", "lg_fedavg", "fedrep")
"""Methods whose personalised model is [x; p_i]."""


def run(folder: Path, probe: Probe) -> Found:
    """The probe in plfl."""
    if probe.method not in METHODS:
        raise NotThere
    problem = probe.problem
    seen = trajectory(
        Sgd(lr=problem.optimiser.lr),
        FedAvg(),
        in_turns(METHODS[probe.method](probe.arguments), *map(list, problem.present)),
        problem=Quadratic(list(problem.a), list(problem.c), list(problem.mix)),
        shared=tuple(problem.shared),
        start=tuple(problem.x0.tolist()),
        rounds=len(problem.present),
        steps=problem.steps,
    )
    last = seen[-1]
    personal = last.global_models if probe.method in FROM_THE_SERVER else last.scored
    return Found([s.x.tolist() for s in seen], personal.tolist())


if __name__ == "__main__":
    main(lambda folder: None, run)
