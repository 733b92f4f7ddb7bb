"""Training on a CUDA GPU against the CPU: every model, optimiser, term and method; needs a GPU."""

import pandas as pd
import pytest
import torch

from plfl.experiments import training_setup
from plfl.experiments.train import train
from plfl.experiments.training_setup import network_of
from plfl.optimizers.client.sgd import Sgd
from plfl.training.stacked import Stacked
from tests.helpers import user_studies
from tests.helpers.engine_cases import (
    CPU,
    DECAYING,
    OPTIMISERS,
    OTHER_MODELS,
    PAPER,
    SHAPE,
    SMALL,
    TERMS,
    make_dataset,
    make_task,
    with_changes,
    with_covariates,
)
from tests.helpers.every_algorithm import CLIENTS, DATASET, METHODS, SERVERS, make_study
from tests.helpers.modules import (
    MODELS,
    MODULE_SHAPE,
    Convolution,
    InPlace,
    Recurrent,
    model_of_class,
)
from tests.helpers.tasks import copied, everything
from tests.helpers.user_studies import BUILDERS
from tests.helpers.user_studies import study as user_study

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU")

GPU = torch.device("cuda")
LAYERS = [Convolution, InPlace, Recurrent]
"""Modules of a user's own, with PyTorch's layers."""


def agree(network, whole):
    """That the GPU trains as the CPU does, in single precision, and twice to the same bits."""
    data = make_dataset(network) if network in (SMALL, PAPER) else with_covariates(network.shape)
    here = copied(whole)
    there = [whole.map(lambda values: values.to(GPU, copy=True)) for _ in range(2)]
    Stacked(network, data, CPU).train(here)
    for one in there:
        Stacked(network, data, GPU).train(one)
    first, second = map(everything, there)
    for name, values in everything(here).items():
        torch.testing.assert_close(first[name].cpu(), values, rtol=1e-5, atol=1e-5)
        assert torch.equal(first[name], second[name]), name


@pytest.mark.parametrize("optimiser", OPTIMISERS + DECAYING, ids=str)
def test_every_optimiser(optimiser):
    agree(SMALL, make_task(SMALL, optimiser, dtype=torch.float32))


@pytest.mark.parametrize("terms", [*([term] for term in TERMS), TERMS], ids=str)
def test_every_term(terms):
    agree(SMALL, with_changes(make_task(SMALL, OPTIMISERS[0], dtype=torch.float32), terms))


@pytest.mark.parametrize(
    "model", [*MODELS, *map(model_of_class, LAYERS)], ids=lambda model: model.name
)
def test_every_model(model):
    network = model.network(MODULE_SHAPE)
    # Adam would enlarge the rounding of gradients that are 0, such as those of attention's keys.
    agree(network, make_task(network, Sgd(), dtype=torch.float32))


def test_the_papers_model():
    agree(PAPER, make_task(PAPER, OPTIMISERS[0], rows=12, steps=25, size=16, dtype=torch.float32))


@pytest.mark.parametrize("model", OTHER_MODELS, ids=lambda model: model.name)
def test_no_model_depends_on_its_company(model):
    """A row beside few and beside many others, trained and evaluated."""
    network, data = model.network(SHAPE), with_covariates()
    whole = make_task(network, OPTIMISERS[0], rows=300, steps=4, size=16, dtype=torch.float32)
    many, few = (
        whole.select(some).map(lambda values: values.to(GPU, copy=True))
        for some in (slice(300), slice(7, 19))
    )
    engine = Stacked(network, data, GPU)
    starts = torch.arange(100, device=GPU)
    losses, those = engine.train(many)[7:19], engine.train(few)
    assert torch.equal(losses, those)
    assert torch.equal(many.rows[7:19], few.rows)
    beside = engine.predict(many.rows, [starts] * 300)[7]
    assert torch.equal(beside, engine.predict(few.rows[:1], [starts])[0])


@pytest.mark.parametrize("name", BUILDERS)
def test_modules_as_their_users_write_them(name, monkeypatch):
    """On a GPU other random numbers are drawn than on a CPU, but the same each time."""
    both, single = (user_study(name, schemes) for schemes in (["P1", "P2"], ["P1"]))
    data = user_studies.DATASET
    first, second, alone = (
        trained(study, GPU, monkeypatch, data) for study in (both, both, single)
    )
    for cell, records in first.items():
        pd.testing.assert_frame_equal(records, second[cell], check_exact=True)
    for cell, records in alone.items():
        pd.testing.assert_frame_equal(records, first[cell], check_exact=True)
    if not network_of(both, data.shape).is_random:
        for cell, records in trained(both, CPU, monkeypatch, data).items():
            pd.testing.assert_frame_equal(first[cell], records, rtol=1e-4, atol=1e-5)


def method_study(method):
    return make_study(4, [method], client_opt=["sgdm" if method == "fedadc_dm" else "sgd"])


def trained(of, device, monkeypatch, data=DATASET):
    def engine(_, network, data):
        return Stacked(network, data, device)

    monkeypatch.setattr(training_setup, "make_engine", engine)
    return {str(c): result.records for c, result in train(of, of.cells, data).items()}


@pytest.mark.parametrize(
    "of",
    [
        *map(method_study, METHODS),
        make_study(4, client_opt=CLIENTS, refused="skip"),
        make_study(4, server_opt=SERVERS, refused="skip"),
    ],
    ids=[*METHODS, "clients", "servers"],
)
def test_every_method(of, monkeypatch):
    here, there, again = (trained(of, device, monkeypatch) for device in (CPU, GPU, GPU))
    for name, records in here.items():
        pd.testing.assert_frame_equal(there[name], records, rtol=1e-5, atol=1e-5)
        pd.testing.assert_frame_equal(there[name], again[name], check_exact=True)
