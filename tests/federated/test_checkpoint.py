"""An interrupted training goes on where it was and gives the same bits."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from plfl import methods
from plfl.config.study import Study
from plfl.experiments.train import train
from plfl.federated.checkpoint import Checkpoint
from tests.helpers import tiny

DATASET = tiny.dataset()


class KilledError(Exception):
    """Stands for the end of the process."""


def every_round(folder: Path, key: str = "job") -> Checkpoint:
    return Checkpoint(folder, key, every=0)


def interrupted(study: Study, folder: Path, at: int, key: str = "job") -> None:
    def progress(t: int) -> None:
        if t == at:
            raise KilledError

    with pytest.raises(KilledError):
        train(study, study.cells, DATASET, progress, every_round(folder, key))


def accepted(method: str) -> dict[str, Any]:
    """A study of one method with optimisers it accepts."""
    refused = {"fedadc_dm": {"client_opt": ["sgdm"]}}
    grid: dict[str, Any] = {"method": [method], "client_opt": ["sgd"], "server_opt": ["fedavg"]}
    grid["refused"] = "skip"  # a method may want personal parameters
    options = {"sgdm": {"momentum": 0.5, "dampening": 0.5}} if method == "fedadc_dm" else {}
    simulated = {"simulation": {"availability": 0.7}}
    return {
        "grid": grid | refused.get(method, {}),
        "client_opt": options,
        "federation": {
            "rounds": 5,
            "opt_state": "reset" if methods.available()[method].own_steps else "keep",
        }
        | simulated,
    }


@pytest.mark.parametrize(
    "method", sorted(n for n, m in methods.available().items() if not m.only_task)
)
def test_a_resumed_training_gives_the_same_bits(method: str, tmp_path: Path) -> None:
    study = tiny.study(**accepted(method))
    whole = train(study, study.cells, DATASET)
    interrupted(study, tmp_path, at=4)
    rounds: list[int] = []
    resumed = train(study, study.cells, DATASET, rounds.append, every_round(tmp_path))
    assert rounds == [4, 5]
    for cell, result in whole.items():
        pd.testing.assert_frame_equal(resumed[cell].records, result.records)
        pd.testing.assert_frame_equal(resumed[cell].forecasts, result.forecasts)


@pytest.mark.parametrize("at", [2, 4])
def test_a_recipe_resumes_with_the_same_rates_averages_and_best_models(
    at: int, tmp_path: Path
) -> None:
    recipe = {
        "ema": 0.95,
        "server_ema": 0.8,
        "keep": "best",
        "schedule": "cosine",
        "warm_up": 0.1,
        "clip": 1.0,
    }
    study = tiny.study(
        federation={"rounds": 5, "evaluate_every": 1, "opt_state": "keep", **recipe},
        grid={"client_opt": ["adamw"], "server_opt": ["fedavg"]},
        client_opt={"adamw": {"lr": 0.05}},
    )
    whole = train(study, study.cells, DATASET)
    interrupted(study, tmp_path, at)
    resumed = train(study, study.cells, DATASET, checkpoint=every_round(tmp_path))
    for cell, result in whole.items():
        pd.testing.assert_frame_equal(resumed[cell].records, result.records)
        pd.testing.assert_frame_equal(resumed[cell].forecasts, result.forecasts)


def test_a_private_training_resumes_with_the_same_noise_draws_and_bound(tmp_path: Path) -> None:
    block = {"clip": 0.1, "noise": 0.05, "quantile": 0.5}
    study = tiny.study(
        federation={"rounds": 5, "participation": 0.4, "selection": "poisson", "privacy": block},
        grid={"client_opt": ["sgd"], "server_opt": ["fedadam"], "sharing": ["P1", "P2"]},
    )
    whole = train(study, study.cells, DATASET)
    interrupted(study, tmp_path, at=4)
    resumed = train(study, study.cells, DATASET, checkpoint=every_round(tmp_path))
    for cell, result in whole.items():
        pd.testing.assert_frame_equal(resumed[cell].records, result.records)


def test_records_stay_with_their_trial_when_another_has_none_yet(tmp_path: Path) -> None:
    study = tiny.study(
        grid={"client_opt": ["sgd"], "server_opt": ["fedavg"], "seeds": list(range(6))},
        federation={"rounds": 5, "evaluate_every": 5, "simulation": {"availability": 0.1}},
    )
    whole = train(study, study.cells, DATASET)
    saved = [len(result.records.query("round < 4")) for result in whole.values()]
    assert 0 in saved
    assert max(saved) > 0
    interrupted(study, tmp_path, at=4)
    resumed = train(study, study.cells, DATASET, checkpoint=every_round(tmp_path))
    for cell, result in whole.items():
        pd.testing.assert_frame_equal(resumed[cell].records, result.records)


def test_only_the_last_round_is_kept_and_nothing_when_all_is_done(tmp_path: Path) -> None:
    study = tiny.study(federation={"rounds": 5})
    interrupted(study, tmp_path / "job", at=4)
    left = {file.name for file in (tmp_path / "job").iterdir()}
    trained = {f"3-{i}.safetensors" for i in range(len(left) - 2)}
    assert left == {"3.parquet", "state.json"} | trained
    assert trained
    every_round(tmp_path / "job").remove()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("damage", ["3-0.safetensors", "3.parquet", "state.json", "key", "absent"])
def test_a_checkpoint_that_does_not_fit_is_not_used(
    damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    study = tiny.study(federation={"rounds": 5})
    interrupted(study, tmp_path, at=4)
    if damage == "absent":
        (tmp_path / "3-0.safetensors").unlink()
    elif damage != "key":
        file = tmp_path / damage
        file.write_bytes(file.read_bytes()[:20])
    rounds: list[int] = []
    key = "another" if damage == "key" else "job"
    train(study, study.cells[:1], DATASET, rounds.append, every_round(tmp_path, key))
    assert rounds == [1, 2, 3, 4, 5]
    assert ("is damaged" in caplog.text) == (damage not in ("key", "absent"))


def test_halving_goes_on_with_the_same_candidates(tmp_path: Path) -> None:
    tuning = {
        "search": {"client_opt.*.lr": [1e-3, 1e-2, 3e-2], "server_opt.*.lr": [0.5, 1.0]},
        "alone": {"client_opt.*.lr": [1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 3e-2]},
        "halve_after": [0.2, 0.6],
    }
    grid = {"client_opt": ["adam"]}
    study = tiny.study(tuning=tuning, grid=grid, federation={"rounds": 5})
    whole = train(study, study.cells, DATASET)
    for at in (2, 3, 4):
        interrupted(study, tmp_path / str(at), at)
        checkpoint = every_round(tmp_path / str(at))
        resumed = train(study, study.cells, DATASET, checkpoint=checkpoint)
        for cell, result in whole.items():
            pd.testing.assert_frame_equal(resumed[cell].records, result.records)
