"""An interrupted training goes on where it was and gives the same bits."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from plfl import methods
from plfl.experiments.train import train
from plfl.federated.checkpoint import Checkpoint
from plfl.study import Study
from tests.helpers import tiny
from tests.helpers.interruption import check_resumes, interrupted

DATASET = tiny.dataset()


def accepted(method: str) -> Study:
    """A study of one method with what it accepts, in which clients are absent and drop out."""
    federation = {
        "rounds": 3,
        "local_steps": 2,
        "evaluate_every": 1,
        "simulation": {"availability": 0.6, "dropout": 0.4},
        "opt_state": "reset" if methods.available()[method].takes_own_steps else "keep",
        "keep": "last" if method == "knn_per" else "best",
    }
    return tiny.study_of_method(method, federation=federation)


@pytest.mark.parametrize(
    "method", sorted(n for n, m in methods.available().items() if not (m.only_task or m.only_model))
)
def test_a_resumed_training_gives_the_same_bits(method: str, tmp_path: Path) -> None:
    for result in check_resumes(accepted(method), DATASET, tmp_path, after=2).values():
        assert np.isfinite(result.records.query("split != 'train'")["mase"]).all()


def test_a_recipe_resumes_with_the_same_averages_and_best_models(tmp_path: Path) -> None:
    averages = {"ema": 0.95, "keep": "best"}
    study = tiny.study(
        federation={"rounds": 5, "evaluate_every": 1, "opt_state": "keep", "clip": 1.0} | averages,
        grid={"client_opt": ["adamw"], "server_opt": ["fedavg"]},
        client_opt={"adamw": {"lr": 0.05}},
    )
    check_resumes(study, DATASET, tmp_path, after=4)


def test_a_private_training_resumes_with_the_same_noise_draws_and_bound(tmp_path: Path) -> None:
    block = {"clip": 0.1, "noise": 0.05, "quantile": 0.5}
    study = tiny.study(
        federation={"rounds": 5, "participation": 0.4, "selection": "poisson", "privacy": block},
        grid={"client_opt": ["sgd"], "server_opt": ["fedadam"], "sharing": ["P1", "P2"]},
    )
    check_resumes(study, DATASET, tmp_path, after=4)


def test_records_stay_with_their_trial_when_another_has_none_yet(tmp_path: Path) -> None:
    federation = {"rounds": 5, "evaluate_every": 5, "simulation": {"availability": 0.1}}
    grid = {"client_opt": ["sgd"], "seeds": list(range(6))}
    study = tiny.study_of_method("fedopt", grid=grid, federation=federation)
    found = check_resumes(study, DATASET, tmp_path, after=4).values()
    saved = [len(result.records.query("round < 4")) for result in found]
    assert 0 in saved
    assert max(saved) > 0


def test_clients_that_join_later_have_no_records_before_they_are_scored(tmp_path: Path) -> None:
    study = tiny.study(
        sharing={"unseen": {"join": "unseen", "turns": 2}},
        data={"clients": 4},
        windows={"scaling": "per_client"},
        federation={"rounds": 3, "evaluate_every": 3},
        grid={"sharing": ["unseen"], "client_opt": ["adam"], "server_opt": ["fedavg"]},
    )
    check_resumes(study, tiny.dataset(4), tmp_path, after=2)


FIVE_ROUNDS = tiny.study(federation={"rounds": 5})


@pytest.fixture(scope="module")
def saved_job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of a training that ended in its fourth round, of which tests take copies."""
    folder = tmp_path_factory.mktemp("saved") / "job"
    interrupted(FIVE_ROUNDS, DATASET, folder, after=4)
    return folder


@pytest.fixture
def job(saved_job: Path, tmp_path: Path) -> Path:
    """A copy of the checkpoint."""
    return shutil.copytree(saved_job, tmp_path / "job")


def test_only_the_last_round_is_kept_and_nothing_when_all_is_done(job: Path) -> None:
    left = {file.name for file in job.iterdir()}
    trained = {f"3-{i}.safetensors" for i in range(len(left) - 2)}
    assert left == {"3.parquet", "state.json"} | trained
    assert trained
    Checkpoint(job, "job", 0).remove()
    assert not list(job.parent.iterdir())


def rounds_of(job: Path, key: str) -> list[int]:
    """The rounds of a training of one cell that finds a checkpoint."""
    rounds: list[int] = []
    cells = FIVE_ROUNDS.cells[:1]
    train(FIVE_ROUNDS, cells, DATASET, rounds.append, Checkpoint(job, key, 0))
    return rounds


FILES = ("3-0.safetensors", "3.parquet", "state.json")


@pytest.mark.parametrize("length", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("name", FILES)
def test_a_checkpoint_that_was_cut_is_not_used(name, length, job, caplog):
    content = (job / name).read_bytes()
    (job / name).write_bytes(content[: int(length * len(content))])
    assert rounds_of(job, "job") == [1, 2, 3, 4, 5]
    assert "is damaged" in caplog.text


@pytest.mark.parametrize("damage", [*FILES, "another form", "key", "absent"])
def test_a_checkpoint_that_does_not_fit_is_not_used(damage, job, caplog):
    if damage == "absent":
        (job / "3-0.safetensors").unlink()
    elif damage == "another form":
        (job / "state.json").write_text("[]")
    elif damage != "key":
        file = job / damage
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    assert rounds_of(job, "another" if damage == "key" else "job") == [1, 2, 3, 4, 5]
    assert ("is damaged" in caplog.text) == (damage not in ("key", "absent"))
