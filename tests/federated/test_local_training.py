"""Local training: a client's own minibatches and passes, steps of epochs, and of a method."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from plfl.base.errors import ConfigError
from plfl.config.federation import FederationSettings
from plfl.experiments.training_setup import TrainingSetup, network_of
from plfl.federated.client_data import ClientData
from plfl.federated.federation import Federation
from plfl.federated.session import Session
from plfl.optimizers.client.sgd import Sgd
from plfl.study import Study
from plfl.training.stacked import Stacked
from plfl_reproductions.methods.fedadc import FedADC
from tests.helpers import tiny
from tests.helpers.image_studies import make_images, make_study, train_cell
from tests.helpers.problems import AVG, Q2, QuadraticData, trajectory
from tests.helpers.refusals import naming
from tests.helpers.two_clients import HEAD, TWO_CLIENTS, draw_models

UNEQUAL = {"skew": {"split": "dirichlet", "alpha": 10.0, "sizes": "by_class"}}
EPOCHS = {"batch_size": 3, "participation": 1.0}


def client_rows(records: pd.DataFrame, t: int) -> pd.DataFrame:
    """Steps and losses of the clients in round `t`."""
    own = records.query("split == 'train' and model == 'local'")
    return own[own["round"] == t].set_index("client")[["steps", "loss"]].sort_index()


@pytest.mark.parametrize(
    ("method", "order"), [("fedopt", "epoch"), ("fedadc_plus", "draw"), ("scaffold", "epoch")]
)
def test_equal_sizes_are_fixed_steps(method: str, order: str) -> None:
    """Each client has 20 images, so that a pass has six minibatches of three."""
    grid, order = {"method": [method]}, {"batches": order}
    epochs = train_cell(make_study(federation={**EPOCHS, **order, "local_epochs": 0.5}, grid=grid))
    fixed = train_cell(make_study(federation={**EPOCHS, **order, "local_steps": 3}, grid=grid))
    pd.testing.assert_frame_equal(epochs, fixed, check_exact=True)


def test_steps_are_equal_only_among_clients_whose_windows_are_known() -> None:
    """A deployed server learns the windows of a client when it joins."""
    settings = FederationSettings(rounds=1, local_epochs=1, batch_size=1)
    data = QuadraticData(Q2, settings, 0, [20, torch.nan])
    assert data.has_equal_steps
    data.window_counts = torch.tensor([20.0, 40.0], dtype=torch.float64)
    assert not data.has_equal_steps


@pytest.mark.parametrize(("method", "gradients"), [("fedopt", 1), ("moon", 1), ("fafed", 2)])
def test_every_client_takes_the_steps_of_its_own_size(method: str, gradients: int) -> None:
    """In round 1 a client among others does what it does where all take as many steps."""
    parameters = {"method": {"moon": {"features": "penultimate"}}}
    given = {"data": UNEQUAL, "grid": {"method": [method]}, "hyperparameters": parameters}
    study = make_study(**given, federation={**EPOCHS, "local_epochs": 1})
    sizes = [len(part) for part in make_images(study).parts]
    records = train_cell(study)
    steps = client_rows(records, 1)["steps"] / gradients
    assert steps.tolist() == [n // 3 for n in sizes]
    assert len(set(sizes)) > 3
    for number in sorted(set(steps))[::3]:
        federation = {**EPOCHS, "local_steps": int(number), "rounds": 1}
        fixed = train_cell(make_study(**given, federation=federation))
        alike = steps[steps == number].index
        pd.testing.assert_frame_equal(
            client_rows(records, 1).loc[alike], client_rows(fixed, 1).loc[alike], check_exact=True
        )


def test_momentum_moves_every_client_as_far_in_all() -> None:
    """FedADC's m̄ is β m / H_i, so H_i steps along it lead to the same place."""
    method, found = FedADC(beta_l=0.8, beta_g=0.8), []

    def look(f: Federation) -> None:
        f.client_data.settings = FederationSettings(batch_size=1, local_epochs=2)
        f.client_data.window_counts = torch.tensor([2.0, 5.0], dtype=torch.float64)
        f.state.m.fill_(3.0)
        steps = f.client_data.steps(f.everyone)
        offset = method.broadcast(f, f.state, 2, f.everyone).step_offset
        assert offset is not None
        found.append((steps.tolist(), (steps[:, None] * offset).flatten().tolist()))
        f.client_data.settings = FederationSettings(batch_size=1, local_steps=2)

    trajectory(Sgd(lr=0.1), AVG, method, rounds=1, made=look)
    ((steps, moved),) = found
    assert steps == [4, 10]
    assert moved == pytest.approx([-0.1 * 0.8 * 3.0] * 2)


def test_a_method_that_needs_equally_many_steps_refuses_epochs() -> None:
    with naming(ConfigError, "'ditto'", "federation.local_epochs"):
        Study.parse({"federation": {"local_epochs": 2}, "grid": {"method": ["ditto"]}}, "test")


EVERYONE, ROWS = torch.arange(2), draw_models()


def watched(t: int, minibatches: int, **settings: Any) -> tuple[Session, list[Any]]:
    """A session whose engine trains nothing, and the tasks that it is given."""
    tasks: list[Any] = []

    def keep(task: Any) -> torch.Tensor:
        tasks.append(task)
        return torch.zeros(len(task.rows))

    f: Any = SimpleNamespace(
        client_data=TWO_CLIENTS,
        settings=TWO_CLIENTS.settings.model_copy(update=settings),
        client_opt=Sgd(lr=0.4),
        shared_mask=HEAD,
    )
    engine: Any = SimpleNamespace(train=keep)
    return Session(f, engine, t, EVERYONE, ROWS, minibatches), tasks


def test_every_step_has_the_minibatches_that_it_should() -> None:
    session, tasks = watched(1, 5)
    drawn = TWO_CLIENTS.minibatch_starts(EVERYONE, 1, 5)
    session.train(ROWS, 1, 2)
    assert torch.equal(tasks[-1].minibatches.starts, drawn[:, 1:3])
    session.gradient(ROWS, 4)
    assert torch.equal(tasks[-1].minibatches.starts, drawn[:, 4:])
    session.gradient(ROWS, 4, torch.tensor([False, True]))
    assert tasks[-1].steps.tolist() == [0, 1]
    session.train(ROWS, 0, 2, repeats=3)
    assert torch.equal(tasks[-1].minibatches.starts, drawn[:, [0, 0, 0, 1, 1, 1]])
    learner = session.learner(ROWS)
    learner.train(3)
    learner.train(2, torch.tensor([True, False]))
    assert [task.minibatches.starts[0, 0].tolist() for task in tasks[-2:]] == [
        drawn[0, k].tolist() for k in (3, 2)
    ]
    assert [task.moments.steps.unique().tolist() for task in tasks[-2:]] == [[0], [1]]
    assert session.steps.tolist() == [2 + 1 + 6 + 2, 2 + 1 + 1 + 6 + 1]


@pytest.mark.parametrize("order", ["draw", "epoch"])
def test_a_client_trains_on_the_same_however_many_steps_others_take(order: str) -> None:
    study = tiny.study(federation={"batches": order})
    dataset = tiny.dataset()
    forecaster = network_of(study, dataset.shape)
    engine = Stacked(forecaster, dataset, torch.device("cpu"))
    client_data = ClientData(dataset, engine, study.federation, 10)
    clients = torch.arange(3)
    for t in (0, 1, 2, 7):
        few, many = (client_data.minibatch_starts(clients, t, steps) for steps in (3, 9))
        assert torch.equal(few, many[:, :3])


def test_a_round_continues_the_passes_of_the_one_before() -> None:
    study = make_study(data=UNEQUAL, federation={**EPOCHS, "local_epochs": 1, "batches": "epoch"})
    seen: list[np.ndarray[Any, Any]] = []

    data = TrainingSetup.for_study(study, make_images(study)).client_data(0)
    for t in (1, 2):
        for i, steps in enumerate(data.steps(torch.arange(10)).tolist()):
            drawn = data.minibatch_starts(torch.tensor([i]), t, steps).flatten()
            assert len(drawn.unique()) == 3 * steps  # a whole pass
            seen.append(drawn.numpy())
    assert any(not np.array_equal(a, b) for a, b in zip(seen[:10], seen[10:], strict=True))


def test_gradients_are_those_of_each_clients_own_minibatches() -> None:
    study = make_study(data=UNEQUAL)
    setup = TrainingSetup.for_study(study, make_images(study))
    data, clients = setup.client_data(0), torch.arange(3)
    rows = setup.network.initial(0).repeat(3, 1)
    together = data.gradients(rows, clients, 1, torch.tensor([1, 3, 2]))
    for i, steps in enumerate((1, 3, 2)):
        alone = data.gradients(rows[i : i + 1], clients[i : i + 1], 1, steps)
        assert together[i].numpy() == pytest.approx(alone[0].numpy(), abs=1e-7)


def test_gradients_at_the_start_are_those_of_the_minibatches_that_are_not_skipped() -> None:
    study = make_study()
    setup = TrainingSetup.for_study(study, make_images(study))
    data, clients = setup.client_data(0), torch.arange(3)
    rows = setup.network.initial(0).repeat(3, 1)
    first, all_three = (steps * data.gradients(rows, clients, 1, steps) for steps in (1, 3))
    for steps in (2, torch.tensor([2, 2, 2])):
        found = data.gradients(rows, clients, 1, steps, skip=1)
        assert (2 * found).numpy() == pytest.approx((all_three - first).numpy(), abs=1e-6)
