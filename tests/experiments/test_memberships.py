"""Records say in which cluster a client is, of methods that have clusters and of no other."""

from plfl.experiments.train import train
from tests.helpers import tiny


def test_evaluated_rows_name_the_cluster() -> None:
    methods = ["one_shot", "ifca", "fedcluster"]
    grid = {"method": ["fedopt", *methods], "client_opt": ["sgd"], "server_opt": ["fedavg"]}
    study = tiny.study(
        grid=grid | {"sharing": ["P1", "P3"]},
        method={method: {"clusters": 2} for method in methods},
    )
    for cell, result in train(study, study.cells, tiny.dataset()).items():
        records = result.records
        if cell.method == "fedopt" or cell.sharing == "P3":
            assert "cluster" not in records
            continue
        assert records.loc[records["split"] == "train", "cluster"].isna().all()
        evaluated = records[records["split"] != "train"]
        assert set(evaluated["cluster"]) <= {0, 1}
        assert (evaluated.groupby(["round", "client"])["cluster"].nunique() == 1).all()
        if cell.method == "fedcluster":
            assert set(evaluated["cluster"]) == {0, 1}
