"""What holds of every method: bytes, absence, personal parameters, order, and a real run."""

import itertools
from functools import cache
from math import prod
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from plfl.experiments import training_setup
from plfl.experiments.train import train
from plfl.experiments.training_setup import network_of
from plfl.federated.federation import Federation
from plfl.methods import available
from plfl.optimizers.client import ClientOpt
from plfl.optimizers.client.adam import Adam
from plfl.optimizers.client.prox import Prox
from plfl.optimizers.client.proxadam import ProxAdam
from plfl.optimizers.client.sgd import Sgd
from plfl.optimizers.client.sgdm import SgdMomentum
from plfl.optimizers.server import ServerOpt
from plfl.optimizers.server.fedadam import FedAdam
from plfl.optimizers.server.fedavg import FedAvg
from plfl.optimizers.server.fedavgadaptive import FedAvgAdaptive
from plfl.results.records import CellResult
from plfl.study import Cell, Study
from plfl.study.combinations import reasons_against_optimizers
from plfl.training.fused import Fused, unavailable_reason
from plfl.training.stacked import Stacked
from tests.helpers import tiny
from tests.helpers.oracle import Reference
from tests.helpers.problems import AVG, SGD, Quadratic, trajectory

DAMPENED = SgdMomentum(lr=0.1, momentum=0.5, dampening=0.5)
FOUR = Quadratic([1, 4, 0.5, 2], [-3, -2.5, 2, 3], [1, 1])


class Case(NamedTuple):
    """A method and its ClientOpt."""

    parameters: dict[str, Any]
    client_opt: ClientOpt = SGD


CASES: dict[str, Case] = {
    "fedopt": Case({}),
    "fedprox": Case({"mu": 1}),
    "scaffold i": Case({"option": "i"}),
    "scaffold ii": Case({}),
    "scaffold adam": Case({}, Adam(lr=0.1)),
    "feddyn": Case({"alpha": 1}),
    "fedadc": Case({}),
    "fedadc_plus": Case({"bins": 2}),
    "fedgkd": Case({"lam": 2}),
    "fedadc nesterov": Case({"beta_l": 0.5, "variant": "nesterov"}),
    "fedadc tracking": Case({"downlink": "tracking"}),
    "fedadc overlapped": Case({"downlink": "overlapped"}),
    "fedadc_dm": Case({}, DAMPENED),
    "fafed": Case({}),
    "fedsplit": Case({"s": 0.5}),
    "cc_fedadagrad": Case({}),
    "cc_fedadam": Case({}),
    "cc_fedams": Case({}),
    "fedeff": Case({"epoch_steps": 1}),
    "moon": Case({"mu": 3, "features": "penultimate"}),
    "one_shot": Case({}),
    "ifca": Case({}),
    "ifca gradient": Case({"averaging": "gradient"}),
    "ifca gradient_by_all": Case({"averaging": "gradient_by_all"}),
    "fedcluster": Case({"clusters": 2}),
    "fedsc": Case({"clusters": 2}),
    "fedsc at_once": Case({"clusters": 2, "order": "at_once"}),
    "fedac": Case({"embedding": ["w0"]}),
    "fedrep": Case({"head_steps": 1, "body_steps": 1}),
    "per_fedavg": Case({"alpha": 0.05}),
    "pfedme": Case({"inner_steps": 2}),
    "fedala": Case({"subset": "shared"}),
}
"""By the name of the method and a word on the case."""
IN_TURNS = ("fedcluster", "fedsc")
"""These train one client after another."""
every = pytest.mark.parametrize("name", CASES)


def all_but(names: tuple[str, ...]) -> Any:
    return pytest.mark.parametrize("name", [name for name in CASES if name not in names])


def states_of_four(name: str, **options: Any) -> list[Any]:
    """The path of the method on four clients."""
    given = {"problem": FOUR, "shared": (True, True), "start": (0.1, 0.1)} | options
    method = available()[name.split(maxsplit=1)[0]](**CASES[name].parameters)
    return trajectory(CASES[name].client_opt, AVG, method, **given)


@every
@settings(max_examples=5)
@given(
    seed=st.integers(0, 1000),
    participation=st.sampled_from([0.25, 0.5, 0.75, 1.0]),
    shared=st.sampled_from([(True, True), (True, False)]),
)
def test_absence(name: str, seed: int, participation: float, shared: Any) -> None:
    """Who does not take part sends nothing, gets nothing and stays as it is."""
    steps = states_of_four(name, seed=seed, participation=participation, shared=shared, rounds=4)
    for t, (before, after) in enumerate(itertools.pairwise(steps)):
        there = np.isin(np.arange(4), after.report.participants)
        for way in ("down", "up"):
            sent = after.report.traffic[f"bytes_{way}"] >= 8 * sum(shared)
            assert sent[there].all()
            assert t == 0 or not after.report.traffic[f"bytes_{way}"][~there].any()
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
    *_, plain = states_of_four(name, **options)
    *_, marked = states_of_four(name, made=made, **options)
    for entry, value in plain.state.items():
        assert torch.equal(value, marked.state[entry])
    assert torch.equal(marked.local[:, 1], own)
    assert torch.equal(marked.global_models[:, 1], own)
    assert torch.equal(marked.global_models[:, 0], plain.global_models[:, 0])


@every
def test_with_nothing_shared_it_is_training_alone(name: str) -> None:
    case, options = CASES[name], {"problem": FOUR, "shared": (False, False), "start": (0.1, 0.1)}
    alone = trajectory(case.client_opt, AVG, **options)  # type: ignore[arg-type]
    steps = states_of_four(name, shared=(False, False))
    torch.testing.assert_close(steps[-1].local, alone[-1].local, rtol=1e-12, atol=1e-12)
    assert not any(after.report.traffic["bytes_up"].any() for after in steps[1:])


@all_but(IN_TURNS)
@settings(max_examples=3)
@given(order=st.permutations(range(4)))
def test_the_order_of_the_clients_does_not_matter(name: str, order: list[int]) -> None:
    permuted = Quadratic(FOUR.a[order].tolist(), FOUR.c[order].tolist(), [1, 1])
    straight = states_of_four(name, shared=(True, False), rounds=4)[-1].local
    other = states_of_four(name, shared=(True, False), rounds=4, problem=permuted)[-1].local
    torch.testing.assert_close(straight[order], other, rtol=1e-9, atol=1e-9)


REFUSALS: list[tuple[str, ClientOpt, ServerOpt, str]] = [
    ("cc_fedadam", Prox(), AVG, ""),
    ("cc_fedadam", SgdMomentum(), AVG, "gradient"),
    ("fafed", Adam(), AVG, "sgd"),
    ("fedsplit", Prox(), AVG, "twice"),
    *(("fedsplit", SGD, server_opt, "lr 1") for server_opt in (FedAdam(), FedAvg(lr=0.5))),
    ("fedprox", ProxAdam(), AVG, "twice"),
    ("fedprox", Adam(), FedAdam(), ""),
    *((name, DAMPENED, AVG, "") for name in ("scaffold", "feddyn", "fedadc", "fedadc_dm")),
    *((n, DAMPENED, FedAdam(), "fedavg") for n in ("scaffold", "feddyn", "fedadc", "fedadc_dm")),
    ("fedadc_dm", SgdMomentum(momentum=0.9), AVG, "dampening"),
    ("fedac", SGD, FedAdam(), "means"),
    *(("ifca gradient", c, AVG, "sgd") for c in (Prox(), SgdMomentum())),
    ("ifca gradient", Sgd(weight_decay=0.1), AVG, "weight decay"),
    ("ifca", Sgd(weight_decay=0.1), AVG, ""),
    ("ifca", Prox(), AVG, ""),
    *((name, SGD, FedAvgAdaptive(), "one model") for name in ("one_shot", "ifca")),
    ("one_shot", SGD, FedAdam(), ""),
    *((name, SGD, FedAvgAdaptive(), "the one before") for name in ("fedcluster", "fedsc")),
    *(("fedsc at_once", SGD, s, "") for s in (FedAvgAdaptive(), FedAdam())),
]
"""What a method works with, and a word of the reason why it does not; none where it does."""


@pytest.mark.parametrize(("name", "client_opt", "server_opt", "word"), REFUSALS)
def test_optimisers_that_make_no_sense_are_refused(name, client_opt, server_opt, word):
    parameters = CASES[name].parameters if name in CASES else {}
    method = available()[name.split(maxsplit=1)[0]](**parameters)
    reason = next(reasons_against_optimizers(method, client_opt, server_opt), None)
    assert (reason is None) == (not word)
    assert word in (reason or "")


OTHERS = {"fedntd", "fedrs", "boosting"}
"""Methods of labels and of trees."""


DATASET, CPU = tiny.dataset(), torch.device("cpu")


@cache
def on_the_forecaster(name: str, client_opt: str) -> tuple[Study, dict[Cell, CellResult]]:
    """Two cells of a method that train in one job."""
    grid = {"client_opt": [client_opt], "seeds": [1, 2]}
    federation = {"participation": 0.67, "rounds": 4}
    study = tiny.study_of_method(name, grid=grid, federation=federation)
    return study, train(study, study.cells, DATASET)


def declared(terms: str, values: dict[str, Any]) -> int:
    """What the terms of a `Sizes` come to."""
    products = [
        [int(values.get(word, word)) for word in term.split()] for term in terms.split(" + ")
    ]
    return sum(map(prod, products))


@pytest.mark.parametrize("name", sorted(set(available()) - OTHERS))
def test_it_sends_what_it_declares(name: str) -> None:
    """In the last round, and with what comes before round 1 in the first."""
    study, together = on_the_forecaster(name, tiny.CLIENT_OPTS.get(name, "adam"))
    cell, result = next(iter(together.items()))
    method = study.plan.candidates(cell)[0].method
    assert method is not None and "sends" in vars(type(method))
    layout = network_of(study, DATASET.shape).layout
    shared = method.shared_mask(
        torch.from_numpy(layout.mask(study.plan.schemes.patterns["P2"])), layout
    )
    values = method.model_dump() | {"d_s": shared.sum(), "d_φ": layout.mask(["body"]).sum()}
    if name == "fedfomo":
        values["models"] = min(values["models"], len(DATASET.clients) - 1)
    trained = result.records.query("split == 'train' and model == 'local'")
    for way in ("down", "up"):
        in_round, before = (
            4 * declared(getattr(method.sends, own_study), values)
            for own_study in (way, f"before_{way}")
        )
        sent = trained.groupby("round")[f"bytes_{way}"]
        assert sent.first()[1] - before in (in_round, 4 * shared.sum()), way
        assert set(trained.loc[trained["round"] == 4, f"bytes_{way}"]) == {in_round}, way


@pytest.mark.parametrize("name", sorted(set(available()) - OTHERS))
def test_on_the_forecaster(name: str) -> None:
    """Finite, another model than the plain round's, and the same bits alone as in company."""
    client_opt = tiny.CLIENT_OPTS.get(name, "adam")
    study, together = on_the_forecaster(name, client_opt)
    (first, whole), *_ = together.items()
    for result in together.values():
        scored = result.records[result.records["split"] == "test"]
        assert np.isfinite(scored["mase"]).all() and len(scored)
    (alone,) = train(study, [first], DATASET).values()
    pd.testing.assert_frame_equal(alone.records, whole.records)
    pd.testing.assert_frame_equal(alone.forecasts, whole.forecasts)
    plain = next(iter(on_the_forecaster("fedopt", client_opt)[1].values()))
    assert plain.records["mase"].equals(whole.records["mase"]) == (name == "fedopt")


@pytest.mark.parametrize("name", ["apfl", "fafed", "moon", "per_fedavg", "pfedme"])
def test_every_engine_takes_the_steps_of_a_routine(name, monkeypatch):
    """As PyTorch takes them for one model after the other."""
    grid, settings = {"client_opt": ["sgd"]}, {"federation": {"evaluate_every": 1}}
    study = tiny.study_of_method(name, grid=grid, client_opt={"sgd": {"lr": 0.05}}, **settings)
    engines: list[Any] = [Reference, Stacked, *([] if unavailable_reason() else [Fused])]
    expected: pd.DataFrame | None = None
    for engine in engines:
        monkeypatch.setattr(
            training_setup, "make_engine", lambda _, *of, kind=engine: kind(*of, CPU)
        )
        (result,) = train(study, study.cells, DATASET).values()
        expected = result.records if expected is None else expected
        pd.testing.assert_frame_equal(result.records, expected, rtol=1e-4)
