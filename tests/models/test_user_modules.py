"""Modules as their users write them train as in a plain loop, under P1, P2, P3 and unseen."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch import nn

from plfl.base.errors import ConfigError
from plfl.experiments.folds import OBSERVED, FoldTraining, make_folds
from plfl.experiments.train import train
from plfl.experiments.training_setup import TrainingSetup, network_of
from plfl.experiments.workload import measured_speed
from plfl.federated.round import run_rounds
from plfl.study import Study
from tests.helpers.interruption import check_resumes
from tests.helpers.plain_loop import forecasts, joined, row_of, train_plainly, windows_of
from tests.helpers.refusals import naming
from tests.helpers.user_studies import BUFFERS, BUILDERS, DATASET, study

METHODS = ["ditto", "fafed", "fedala", "ifca", "per_fedavg", "pfedme", "scaffold"]


def part_of(of: Study) -> FoldTraining:
    """The first part of the study's only cell, before its first round."""
    setup, cell = TrainingSetup.for_study(of, DATASET), of.cells[0]
    return FoldTraining(cell, of.plan.candidates(cell)[0], next(iter(make_folds(setup, cell))))


def trained(part: FoldTraining) -> torch.Tensor:
    """The models (N, P) of the clients after the rounds of a part."""
    f = part.federation
    run_rounds([f], f.client_data.engine, range(1, f.settings.rounds + 1), lambda _: None)
    return f.local


@pytest.mark.parametrize("sharing", ["P1", "P2", "P3"])
@pytest.mark.parametrize("name", BUILDERS)
def test_training_equals_a_plain_loop(name: str, sharing: str) -> None:
    own_study = study(name, [sharing])
    seed, settings = own_study.cells[0].seed, own_study.federation
    shared = own_study.plan.parameters(own_study.plan.schemes.patterns[sharing])
    _, clients = train_plainly(BUILDERS[name], DATASET, settings, shared, seed)
    part = part_of(own_study)
    found, buffers = trained(part), BUFFERS.get(name, [])
    expected = torch.stack([row_of(module, buffers) for module in clients])
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
    starts = DATASET.starts(1, "test")
    engine = part.federation.client_data.engine
    (ours,) = engine.predict(found[1:2], [torch.from_numpy(starts)])
    with torch.no_grad():
        theirs = forecasts(clients[1].eval(), windows_of(DATASET, starts)[0])
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", BUILDERS)
def test_an_unseen_client_equals_a_plain_loop(name: str) -> None:
    """It receives the parameters, and its own windows give the statistics of BatchNorm."""
    own_study = study(name, ["new"])
    part = part_of(own_study)
    trained(part)
    plan, seed = part.fold, own_study.cells[0].seed
    members, scored = (data.dataset for data in plan.data(seed))
    shared = own_study.plan.parameters(["*"])
    build, size = BUILDERS[name], own_study.federation.batch_size
    server, _ = train_plainly(build, members, own_study.federation, shared, seed)
    module = joined(build, server, shared, seed, scored, 0, size, OBSERVED)
    local = torch.from_numpy(part.models(part.federation.method)["local"])
    expected = row_of(module, BUFFERS.get(name, []))
    torch.testing.assert_close(local[0], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", BUILDERS)
def test_what_is_sent_are_the_shared_parameters_alone(name: str) -> None:
    own_study = study(name, ["P1"])
    records = train(own_study, own_study.cells, DATASET)[own_study.cells[0]].records
    sent = set(records.query("split == 'train' and round == 1")["bytes_up"])
    assert sent == {4 * sum(p.numel() for p in BUILDERS[name]().parameters())}
    assert [*own_study.plan.layout.buffers] == BUFFERS.get(name, [])


@pytest.mark.parametrize("name", ["CausalNet", "BranchingNet", "LSTMForecaster"])
def test_random_layers_do_not_depend_on_the_cells_beside(name: str) -> None:
    both, one = (study(name, schemes) for schemes in (["P2", "P1"], ["P1"]))
    cell = one.cells[0]
    together, alone = (
        train(own_study, own_study.cells, DATASET)[cell].records for own_study in (both, one)
    )
    pd.testing.assert_frame_equal(together, alone)


@pytest.mark.parametrize("name", ["CausalNet", "BranchingNet"])
def test_a_training_resumes_with_its_random_layers_and_buffers(name: str, tmp_path: Path) -> None:
    own_study = study(name, ["P2"], federation={"rounds": 3, "opt_state": "keep"})
    check_resumes(own_study, DATASET, tmp_path / "checkpoint", after=2)


def test_other_methods_train_them() -> None:
    own_study = study("CausalNet", ["P1"], grid={"method": METHODS})
    results = train(own_study, own_study.cells, DATASET)
    assert {cell.method for cell in results} == {*METHODS}
    for result in results.values():
        assert result.records.query("split == 'test'")["mase"].notna().all()


@pytest.mark.parametrize(
    ("block", "keys", "problem"),
    [
        ("sharing", {"P2": ["norm.running_*"]}, "means norm.running_mean, norm.running_var, which"),
        ("grid", {"method": ["apfl"]}, "'apfl' cannot train a model with norm.running_mean"),
        ("grid", {"method": ["authors_code"]}, "buffers are never sent; remove the method"),
    ],
)
def test_what_buffers_cannot_do_is_refused(block: str, keys: dict[str, Any], problem: str) -> None:
    with naming(ConfigError, problem):
        study("CausalNet", ["P2"], **{block: keys})


def test_a_module_that_cannot_be_traced_is_told_of_in_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    own_study = study("BranchingNet", ["P1"], federation={"batch_size": 7})
    network_of(own_study, DATASET.shape).unstackable.clear()
    trained(part_of(own_study))
    (line,) = [record.message for record in caplog.records if "one after" in record.message]
    assert "BranchingNet: its models train one after the other, which takes longer" in line


def test_the_speed_of_random_layers_is_measured() -> None:
    assert measured_speed(study("BranchingNet", ["P1"], windows={"scaling": "per_client"})) > 0


def test_kept_models_forecast_without_random_layers() -> None:
    own_study = study("CausalNet", ["P1"])
    models = trained(part_of(own_study))
    module = network_of(own_study, DATASET.shape).module(models[0]).eval()
    sequence = windows_of(DATASET, DATASET.starts(0, "test"))[0]
    with torch.no_grad():
        first, second = (forecasts(module, sequence) for _ in range(2))
    assert torch.equal(first, second)
    assert isinstance(module.norm, nn.BatchNorm1d) and module.norm.num_batches_tracked == 8
