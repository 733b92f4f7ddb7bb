"""Schedules of the clients' rate: PyTorch's numbers, in every optimiser, engine and method."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor

from plfl.base.errors import ConfigError
from plfl.config.federation import Schedule
from plfl.experiments import training_setup
from plfl.experiments.train import train
from plfl.methods.fine_tuning import FineTuning
from plfl.optimizers.client import ClientOpt, available
from plfl.optimizers.client.adam import Adam
from plfl.optimizers.client.adamams import AdamAMS
from plfl.optimizers.client.adamw import AdamW
from plfl.optimizers.client.prox import Prox
from plfl.optimizers.client.proxadam import ProxAdam
from plfl.optimizers.client.sgdm import SgdMomentum
from plfl.optimizers.server.fedavg import FedAvg
from plfl.optimizers.server.slowmo import SlowMo
from plfl.study import Study
from plfl.training.fused import Fused, unavailable_reason
from plfl.training.stacked import Stacked
from plfl_reproductions.methods.fafed import FaFed
from plfl_reproductions.methods.fedadc import FedADC
from tests.helpers import tiny
from tests.helpers.interruption import check_resumes
from tests.helpers.oracle import Reference, optimiser
from tests.helpers.problems import AVG, SGD, Quadratic, server_path, trajectory
from tests.helpers.refusals import naming

STEP: dict[str, Any] = {"shape": "step", "period": 2, "factor": 0.5}
COSINE: dict[str, Any] = {"shape": "cosine", "floor": 0.1}
with_both_schedules = pytest.mark.parametrize("schedule", [STEP, COSINE], ids=["step", "cosine"])
ROUNDS, STEPS = 7, 3

EVERY: list[ClientOpt] = [
    SGD,
    Adam(lr=0.1),
    AdamAMS(lr=0.1, variant="torch"),
    AdamW(lr=0.1, weight_decay=0.2),
    Prox(lr=0.1, mu=0.5),
    ProxAdam(lr=0.1, mu=0.5),
    SgdMomentum(lr=0.1),
]
"""Every local optimiser, in the form that PyTorch has."""


def by_pytorch(settings: ClientOpt, schedule: dict[str, Any]) -> list[float]:
    """x after each round of one client that minimises ½ x² from 2, by `torch.optim` and its
    `lr_scheduler`, which steps once in a round."""
    x = torch.nn.Parameter(torch.tensor([2.0], dtype=torch.float64))
    own = optimiser(settings, [x])
    assert own is not None
    scheduler: Any
    if schedule["shape"] == "step":
        kind = torch.optim.lr_scheduler.StepLR
        scheduler = kind(own, schedule["period"], schedule["factor"])
    else:
        least = schedule["floor"] * settings.lr
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(own, ROUNDS, least)
    path = []
    for _ in range(ROUNDS):
        anchor = x.detach().clone()
        for _ in range(STEPS):
            x.grad = x.detach() + settings.proximal * (x.detach() - anchor)
            own.step()
        scheduler.step()
        path.append(x.item())
    return path


@with_both_schedules
@pytest.mark.parametrize("settings", EVERY, ids=lambda o: o.name)
def test_every_optimiser_has_the_rates_of_pytorch(settings, schedule):
    """Of one client, whose moments go on from round to round, as PyTorch's do."""
    options: dict[str, Any] = {"rounds": ROUNDS, "steps": STEPS, "schedule": schedule}
    _, *rounds = trajectory(
        settings, AVG, problem=Quadratic([1], [0], [1]), opt_state="keep", **options
    )
    found = [after.x.item() for after in rounds]
    assert found == pytest.approx(by_pytorch(settings, schedule), rel=1e-9)


def test_every_optimiser_is_tested() -> None:
    assert {o.name for o in EVERY} == set(available())


def scheduled(method: str = "fedopt", client_opt: str = "adam", **schedule: Any) -> Study:
    federation = {"rounds": 4, "evaluate_every": 1, "schedule": schedule}
    return tiny.study_of_method(method, grid={"client_opt": [client_opt]}, federation=federation)


@pytest.mark.parametrize("client_opt", ["adam", "adamams", "adamw", "prox", "sgd", "sgdm"])
def test_every_engine_has_the_same_rates(client_opt, monkeypatch):
    study = scheduled(client_opt=client_opt, shape="step", period=1, factor=0.1)
    dataset, expected = tiny.dataset(), None
    engines: list[Any] = [Reference, Stacked, *([] if unavailable_reason() else [Fused])]
    for engine in engines:
        make = lambda _, *of, kind=engine: kind(*of, torch.device("cpu"))  # noqa: E731
        monkeypatch.setattr(training_setup, "make_engine", make)
        (result,) = train(study, study.cells, dataset).values()
        expected = result.records if expected is None else expected
        pd.testing.assert_frame_equal(result.records, expected, rtol=1e-4)


def test_the_first_round_has_the_own_rate_and_later_ones_do_not() -> None:
    plain, cosine = (
        train(study, study.cells, tiny.dataset())[study.cells[0]].records.query("split == 'test'")
        for study in (scheduled(), scheduled(shape="cosine"))
    )
    equal = (plain["mase"] == cosine["mase"]).groupby(plain["round"]).all()
    assert equal.to_dict() == {1: True, 2: False, 3: False, 4: False}
    assert set(cosine["lr"]) == {1e-3}


@with_both_schedules
def test_an_interrupted_training_goes_on_with_the_rate_of_its_round(schedule, tmp_path: Path):
    check_resumes(scheduled("fedadc", "sgd", **schedule), tiny.dataset(), tmp_path, after=3)


def test_what_clients_train_outside_of_the_rounds_has_the_own_rate() -> None:
    """Fine-tuning for an epoch, here a step of η = 0.1, from x after the last round."""
    last = trajectory(SGD, AVG, FineTuning(epochs=1), schedule=STEP | {"period": 1})[-1]
    gradients = torch.tensor([1.0, 4.0]) * (last.x.item() - torch.tensor([0.0, 1.0]))
    torch.testing.assert_close(last.scored[:, 0], last.x - 0.1 * gradients.double())


# Momentum in units of a gradient, as sources 003 (Algorithms 2 and 3) and SlowMo's paper have it.


def by_hand(beta: float, alpha: float, schedule: dict[str, Any]) -> list[float]:
    """x of SlowMo on two quadratics: m ← β m − D̄/η_t, x ← x − α η_t m."""
    a, c = torch.tensor([1.0, 4.0]).double(), torch.tensor([0.0, 1.0]).double()
    x, m, path = torch.tensor(2.0).double(), 0.0, [2.0]
    for t in range(1, ROUNDS + 1):
        eta = 0.1 * Schedule(**schedule).compute_multiple(t, ROUNDS)
        D: Tensor = (c + (x - c) * (1 - eta * a) ** 2 - x).mean()
        m = beta * m - D / eta
        x = x - alpha * eta * m
        path.append(x.item())
    return path


@with_both_schedules
def test_slowmo_keeps_its_momentum_in_units_of_a_gradient(schedule):
    found = server_path(SGD, SlowMo(lr=0.5, beta=0.7), rounds=ROUNDS, schedule=schedule)
    assert found == pytest.approx(by_hand(0.7, 0.5, schedule), rel=1e-12)


@with_both_schedules
def test_fedadc_whose_clients_follow_no_momentum_is_slowmo(schedule):
    method = FedADC(beta_l=0, beta_g=0.7)
    found = server_path(SGD, FedAvg(lr=0.5), method, rounds=ROUNDS, schedule=schedule)
    assert found == pytest.approx(by_hand(0.7, 0.5, schedule), rel=1e-12)


@with_both_schedules
@pytest.mark.parametrize("downlink", ["tracking", "overlapped"])
def test_fedadc_computes_the_same_momentum_from_the_rate_of_the_last_step(downlink, schedule):
    sent, computed = (
        server_path(SGD, FedAvg(lr=0.5), FedADC(downlink=way), rounds=ROUNDS, schedule=schedule)
        for way in ("momentum", downlink)
    )
    assert computed == pytest.approx(sent, rel=1e-12)


# Refusals


@pytest.mark.parametrize(
    ("federation", "search", "words"),
    [
        ({"schedule": {"period": 3}}, {}, ("federation.schedule", "period", "no effect", "step")),
        ({"schedule": {"shape": "step", "floor": 0.1}}, {}, ("floor", "no effect", "cosine")),
        (
            {"schedule": {"shape": "cosine"}},
            {"federation.rounds": [1, 2]},
            ("federation.schedule.shape", "cosine", "tuning.search.federation.rounds"),
        ),
    ],
)
def test_keys_that_contradict_each_other_are_refused(federation, search, words):
    with naming(ConfigError, *words):
        tiny.study(federation=federation, tuning={"search": search})


def fafed_by_hand(method: FaFed, schedule: dict[str, Any]) -> list[float]:
    """x of FAFED on two quadratics, as its file has it: y⁻ is x̄, whatever the rate is by then."""
    a, c = torch.tensor([1.0, 4.0]).double(), torch.tensor([0.0, 1.0]).double()
    rate, before = 0.1, torch.tensor(2.0).double()
    gradients = a * (before - c)
    m, v = gradients.mean(), (1 - method.beta) * (gradients**2).mean()
    x = before - rate * m / (v.sqrt() + method.rho)
    path = [x.item()]
    for t in range(1, ROUNDS + 1):
        eta = rate * Schedule(**schedule).compute_multiple(t, ROUNDS)
        root = v.sqrt() + method.rho
        y, y_before, m_i, v_i = x.expand(2), before.expand(2), m.expand(2), v.expand(2)
        for _ in range(2):
            g = a * (y - c)
            m_i = g + (1 - method.a) * (m_i - a * (y_before - c))
            v_i = method.beta * v_i + (1 - method.beta) * g**2
            y_before, y = y, y - eta * m_i / root
        before, m, v = y_before.mean(), m_i.mean(), v_i.mean()
        x = before - eta * m / (v.sqrt() + method.rho)
        path.append(x.item())
    return path


@with_both_schedules
def test_fafed_starts_from_where_the_last_gradients_were(schedule):
    method = FaFed(a=0.1)
    found = server_path(SGD, AVG, method, rounds=ROUNDS, schedule=schedule)
    assert found == pytest.approx(fafed_by_hand(method, schedule), rel=1e-9)
