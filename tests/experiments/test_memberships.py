"""Records say in which cluster a client is, of methods that have clusters and of no other."""

import pytest

from plfl.experiments.train import train
from tests.helpers import tiny

DATASET = tiny.dataset()
STUDY = tiny.study(
    grid={
        "method": ["fedopt", "one_shot", "ifca", "fedcluster"],
        "client_opt": ["sgd"],
        "server_opt": ["fedavg"],
        "sharing": ["P1", "P3"],
    },
    method={"one_shot": {"clusters": 2}, "ifca": {"clusters": 2}, "fedcluster": {"clusters": 2}},
)
FOUND = {str(cell): result.records for cell, result in train(STUDY, STUDY.cells, DATASET).items()}


@pytest.mark.parametrize("method", ["one_shot", "ifca", "fedcluster"])
def test_evaluated_rows_name_the_cluster(method: str) -> None:
    records = FOUND[f"XX-P1-{method}-sgd-fedavg-10"]
    assert records.loc[records["split"] == "train", "cluster"].isna().all()
    evaluated = records[records["split"] != "train"]
    assert set(evaluated["cluster"]) <= {0, 1}
    assert (evaluated.groupby(["round", "client"])["cluster"].nunique() == 1).all()
    if method == "fedcluster":
        assert set(evaluated["cluster"]) == {0, 1}


@pytest.mark.parametrize("name", ["XX-P1-fedopt-sgd-fedavg-10", "XX-P3-ifca-sgd-fedavg-10"])
def test_other_records_have_no_such_column(name: str) -> None:
    assert "cluster" not in FOUND[name]
