"""Runs the probes through plfl's own round: `python -m benchmarks.conformance.own` prints JSON."""

from collections.abc import Callable, Mapping
from pathlib import Path
from unittest.mock import patch

import numpy as np

from benchmarks.conformance.adapter import Found, NotThere, main
from benchmarks.conformance.probes import Probe
from plfl.methods import Method
from plfl.methods.fedopt import FedOpt
from plfl.optimizers.client.sgd import Sgd
from plfl.optimizers.server.fedavg import FedAvg
from tests.helpers.problems import Quadratic, trajectory

METHODS: dict[str, Callable[[Mapping[str, float]], Method]] = {
    "fedavg": lambda given: FedOpt(),
    "fedper": lambda given: FedOpt(),
    "lg_fedavg": lambda given: FedOpt(),
}
"""plfl's methods with a probe's hyperparameters."""


def run(folder: Path, probe: Probe) -> Found:
    """The probe in plfl."""
    if probe.method not in METHODS:
        raise NotThere
    problem = probe.problem

    def drawn(seed: int, t: int, *_: object) -> object:
        return np.array(problem.present[t - 1])

    with patch("plfl.federated.participation.participants", drawn):
        seen = trajectory(
            Sgd(lr=problem.optimiser.lr),
            FedAvg(),
            METHODS[probe.method](probe.arguments),
            problem=Quadratic(list(problem.a), list(problem.c), list(problem.mix)),
            shared=tuple(problem.shared),
            start=tuple(problem.x0.tolist()),
            rounds=len(problem.present),
            steps=problem.steps,
        )
    return Found([s.x.tolist() for s in seen], seen[-1].global_models.tolist())


if __name__ == "__main__":
    main(lambda folder: None, run)
