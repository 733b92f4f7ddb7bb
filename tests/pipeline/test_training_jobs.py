"""Which cells the jobs of a study train."""

import itertools
from collections import Counter

import pytest

from plfl.pipeline.file_patterns import CELL_NAME, fill_wildcards
from plfl.pipeline.training_jobs import TrainingJobs
from plfl.study.plan import CELL_AXES
from tests.helpers import tiny

GRID = {"method": ["fedopt", "ditto"], "client_opt": ["adam"], "server_opt": ["fedavg", "fedyogi"]}


@pytest.mark.parametrize("stack", ["study", "state", "sharing", "cell"])
def test_every_cell_is_trained_by_one_job(stack: str) -> None:
    study = tiny.study(grid=GRID, compute={"stack": stack})
    trained = Counter[str]()
    for rule in TrainingJobs(study).rules:
        common = [axis for axis in CELL_AXES if axis not in rule.spanned_axes]
        jobs = {tuple(str(getattr(cell, axis)) for axis in common) for cell in rule.cells}
        for values in jobs:
            wildcards = dict(zip(common, values, strict=True))
            files = [fill_wildcards(file, **wildcards) for file in rule.files(CELL_NAME)]
            trained.update(files)
            # In order, as the script pairs them.
            assert files == [str(cell) for cell in TrainingJobs(study).cells(wildcards)]
    assert trained == Counter(map(str, study.cells))


def test_clients_alone_train_once_for_all_methods_and_servers() -> None:
    study = tiny.study(grid=GRID, compute={"stack": "cell"})
    federated, alone = TrainingJobs(study).rules
    assert (federated.name, federated.schemes) == ("train", ["P1", "P2"])
    assert federated.job == "{state}-{sharing}-{method}-{client_opt}-{server_opt}"
    assert (alone.name, alone.schemes, alone.log) == (
        "train_local",
        ["P3"],
        "{state}-{sharing}-{client_opt}.local",
    )
    names = [f"P3-{m}-{s}" for m, s in itertools.product(GRID["method"], GRID["server_opt"])]
    assert alone.files("{sharing}-{method}-{server_opt}") == [
        name.replace("P3", "{sharing}") for name in names
    ]


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"state": "NY", "group": 2}, "data/NY-2.npz"),
        ({"state": "{group}"}, "data/{group}-{group}.npz"),  # values are no patterns
        ({"seed": 10}, "data/{state}-{group}.npz"),
    ],
)
def test_wildcards_without_a_value_stay(values: dict[str, object], name: str) -> None:
    assert fill_wildcards("data/{state}-{group}.npz", **values) == name
