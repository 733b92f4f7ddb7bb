"""What holds of every method: bytes, absence, personal parameters, order, and a real run."""

import itertools
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from plfl.experiments.train import train
from plfl.federated.federation import Federation
from plfl.methods import Method, available
from plfl.methods.cc_fedadagrad import CCFedAdagrad
from plfl.methods.cc_fedadam import CCFedAdam
from plfl.methods.cc_fedams import CCFedAMS
from plfl.methods.fafed import FaFed
from plfl.methods.fedac import FedAC
from plfl.methods.fedadc import FedADC
from plfl.methods.fedadc_dm import FedADCDM
from plfl.methods.fedala import FedALA
from plfl.methods.fedcluster import FedCluster
from plfl.methods.feddyn import FedDyn
from plfl.methods.fedeff import FedEff
from plfl.methods.fedopt import FedOpt
from plfl.methods.fedprox import FedProx
from plfl.methods.fedrep import FedRep
from plfl.methods.fedsc import FedSC
from plfl.methods.fedsplit import FedSplit
from plfl.methods.ifca import Ifca
from plfl.methods.moon import Moon
from plfl.methods.one_shot import OneShot
from plfl.methods.per_fedavg import PerFedAvg
from plfl.methods.pfedme import PFedMe
from plfl.methods.scaffold import Scaffold
from plfl.optimizers.client import ClientOpt
from plfl.optimizers.client.adam import Adam
from plfl.optimizers.client.sgd import Sgd
from plfl.optimizers.client.sgdm import SgdMomentum
from plfl.optimizers.server.fedavg import FedAvg
from tests.helpers import tiny
from tests.helpers.problems import Quadratic, trajectory

SGD = Sgd(lr=0.1)
FOUR = Quadratic([1, 4, 0.5, 2], [-3, -2.5, 2, 3], [1, 1])


class Case(NamedTuple):
    """A method, its ClientOpt, and what a participant sends and receives."""

    method: Method
    client_opt: ClientOpt = SGD
    down: int = 1
    """Multiples of the shared parameters that come down in a round."""
    up: int = 1
    more: tuple[int, int] = (0, 0)
    """Bytes beyond them, down and up."""
    once: tuple[int, int] = (0, 0)
    """Multiples of them that cross, down and up, before the first round, for every client."""
    more_once: tuple[int, int] = (0, 0)


CASES: dict[str, Case] = {
    "fedopt": Case(FedOpt()),
    "fedprox": Case(FedProx(mu=1)),
    "scaffold i": Case(Scaffold(option="i"), down=2, up=2),
    "scaffold ii": Case(Scaffold(), down=2, up=2),
    "scaffold adam": Case(Scaffold(), Adam(lr=0.1), down=2, up=2),
    "feddyn": Case(FedDyn(alpha=1)),
    "fedadc": Case(FedADC(), down=2),
    "fedadc nesterov": Case(FedADC(beta_l=0.5, variant="nesterov"), down=2),
    "fedadc tracking": Case(FedADC(downlink="tracking")),
    "fedadc overlapped": Case(FedADC(downlink="overlapped")),
    "fedadc_dm": Case(FedADCDM(), SgdMomentum(lr=0.1, momentum=0.5, dampening=0.5), down=2),
    "fafed": Case(FaFed(), down=3, up=3, once=(0, 2)),
    "fedsplit": Case(FedSplit(s=0.5)),
    "cc_fedadagrad": Case(CCFedAdagrad(), more=(4, 4)),
    "cc_fedadam": Case(CCFedAdam(), more=(4, 4)),
    "cc_fedams": Case(CCFedAMS(), more=(4, 4)),
    "fedeff": Case(FedEff(epoch_steps=1), more=(4, 0), once=(0, 1), more_once=(0, 12)),
    "moon": Case(Moon(mu=3, features="penultimate")),
    "one_shot": Case(OneShot(), once=(1, 1)),
    "ifca": Case(Ifca(), down=2, more=(0, 4)),
    "ifca gradient": Case(Ifca(averaging="gradient"), down=2, more=(0, 4)),
    "fedcluster": Case(FedCluster(clusters=2)),
    "fedsc": Case(FedSC(clusters=2), more_once=(0, 80)),
    "fedac": Case(FedAC(embedding=["w0"]), more=(8, 0)),
    "fedrep": Case(FedRep(head_steps=1, body_steps=1)),
    "per_fedavg": Case(PerFedAvg(alpha=0.05)),
    "pfedme": Case(PFedMe(inner_steps=2)),
    "fedala": Case(FedALA(subset="shared")),
}
BY_ABSENCE = ("fedadc tracking", "fedadc overlapped")
"""What these send depends on who was there before."""
IN_TURNS = ("fedcluster", "fedsc")
"""These train one client after another."""
every = pytest.mark.parametrize("name", CASES)


def all_but(names: tuple[str, ...]) -> Any:
    return pytest.mark.parametrize("name", [name for name in CASES if name not in names])


def of_four(name: str, **options: Any) -> list[Any]:
    """The path of the method on four clients."""
    given = {"problem": FOUR, "shared": (True, True), "start": (0.1, 0.1)} | options
    return trajectory(CASES[name].client_opt, FedAvg(), CASES[name].method, **given)


@all_but(BY_ABSENCE)
@settings(max_examples=5)
@given(
    seed=st.integers(0, 1000),
    participation=st.sampled_from([0.25, 0.5, 0.75, 1.0]),
    shared=st.sampled_from([(True, True), (True, False)]),
)
def test_bytes_and_absence(name: str, seed: int, participation: float, shared: Any) -> None:
    """Who does not take part sends nothing, gets nothing and stays as it is."""
    case, size = CASES[name], 8 * sum(shared)
    steps = of_four(name, seed=seed, participation=participation, shared=shared, rounds=4)
    for t, (before, after) in enumerate(itertools.pairwise(steps)):
        there = np.isin(np.arange(4), after.report.present)
        for at, way in enumerate(("down", "up")):
            sent = there * (size * (case.down, case.up)[at] + case.more[at])
            once = (size * case.once[at] + case.more_once[at]) * (t == 0)
            np.testing.assert_array_equal(after.report.traffic[f"bytes_{way}"], sent + once)
        assert torch.equal(before.local[~there], after.local[~there])
        assert torch.isfinite(after.local).all()


@every
def test_only_shared_parameters_cross_the_network(name: str) -> None:
    """The second coordinate bears on nothing: nobody else must notice where it is."""
    problem = Quadratic(FOUR.a.tolist(), FOUR.c.tolist(), [1, 0])
    own = torch.tensor([100, 200, 300, 400], dtype=torch.float64)

    def made(f: Federation) -> None:
        f.local[:, 1] = own

    options: dict[str, Any] = {"problem": problem, "shared": (True, False), "rounds": 4}
    *_, plain = of_four(name, **options)
    *_, marked = of_four(name, made=made, **options)
    for entry, value in plain.state.items():
        assert torch.equal(value, marked.state[entry])
    assert torch.equal(marked.local[:, 1], own)
    assert torch.equal(marked.global_models[:, 1], own)
    assert torch.equal(marked.global_models[:, 0], plain.global_models[:, 0])


@every
def test_with_nothing_shared_it_is_training_alone(name: str) -> None:
    case, options = CASES[name], {"problem": FOUR, "shared": (False, False), "start": (0.1, 0.1)}
    alone = trajectory(case.client_opt, FedAvg(), **options)  # type: ignore[arg-type]
    steps = of_four(name, shared=(False, False))
    torch.testing.assert_close(steps[-1].local, alone[-1].local, rtol=1e-12, atol=1e-12)
    assert not any(after.report.traffic["bytes_up"].any() for after in steps[1:])


@all_but(IN_TURNS)
@settings(max_examples=3)
@given(order=st.permutations(range(4)))
def test_the_order_of_the_clients_does_not_matter(name: str, order: list[int]) -> None:
    permuted = Quadratic(FOUR.a[order].tolist(), FOUR.c[order].tolist(), [1, 1])
    straight = of_four(name, shared=(True, False), rounds=4)[-1].local
    other = of_four(name, shared=(True, False), rounds=4, problem=permuted)[-1].local
    torch.testing.assert_close(straight[order], other, rtol=1e-9, atol=1e-9)


CLIENT_OPTS = {"fafed": "sgd", "fedadc_dm": "sgdm"} | dict.fromkeys(
    ("cc_fedadagrad", "cc_fedadam", "cc_fedams"), "sgd"
)
PARAMETERS: dict[str, dict[str, Any]] = {
    "ifca": {"clusters": 3},
    "fedsc": {"clusters": 2},
    "one_shot": {"alone": 2},
    "fedgkd": {"lam": 2, "buffer": 2},
    "moon": {"mu": 5},
    "fedbabu": {"epochs": 1, "most_steps": 3},
    "fine_tuning": {"epochs": 1, "most_steps": 3},
    "fedala": {"subset": "shared", "first": 2, "most_steps": 2},
    "fedeff": {"epochs": 2, "epoch_steps": 2},
}
CLOCK = {"join": 0.7, "max_delay": 1, "steps": [1, 6]}
PARAMETERS |= dict.fromkeys(("cc_fedadagrad", "cc_fedadam", "cc_fedams"), CLOCK)
OF_LABELS = {"fedntd", "fedrs"}


@pytest.mark.parametrize("name", sorted(set(available()) - OF_LABELS))
def test_on_the_forecaster(name: str) -> None:
    """Finite, another model than the plain round's, and the same bits alone as in company."""
    blocks: dict[str, Any] = {
        "grid": {
            "method": [name],
            "client_opt": [CLIENT_OPTS.get(name, "adam")],
            "server_opt": ["fedavg"],
            "sharing": ["P1", "P2"],
            "seeds": [1, 2],
            "refused": "skip",
        },
        "client_opt": {"sgdm": {"momentum": 0.5, "dampening": 0.5, "lr": 0.01}},
        "method": {name: PARAMETERS.get(name, {})},
        "federation": {"participation": 0.67, "rounds": 4},
    }
    study, dataset = tiny.study(**blocks), tiny.dataset()
    together = train(study, study.cells, dataset)
    for result in together.values():
        scored = result.records[result.records["split"] == "test"]
        assert np.isfinite(scored["mase"]).all() and len(scored)
    for cell in study.cells[::3]:
        (alone,) = train(study, [cell], dataset).values()
        pd.testing.assert_frame_equal(alone.records, together[cell].records)
        pd.testing.assert_frame_equal(alone.forecasts, together[cell].forecasts)
    if name != "fedopt":
        plain = tiny.study(**{**blocks, "grid": blocks["grid"] | {"method": ["fedopt"]}})
        cell = study.cells[0]
        twin = tiny.cell(str(cell).replace(f"-{name}-", "-fedopt-"), plain)
        (other,) = train(plain, [twin], dataset).values()
        assert not other.records["mase"].equals(together[cell].records["mase"])
    epochs = tiny.study(**blocks | {"federation": {"batches": "epoch"}})
    (passes,) = train(epochs, epochs.cells[:1], dataset).values()
    assert np.isfinite(passes.records.query("split == 'test'")["mase"]).all()
