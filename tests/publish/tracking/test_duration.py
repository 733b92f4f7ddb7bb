import pytest

from plfl.config.study import Cell
from plfl.publish.tracking.content import runs
from plfl.publish.tracking.duration import Span, of_baselines, of_cell
from plfl.publish.tracking.store import connect
from plfl.results.tables import Tables
from tests.publish.tracking.conftest import measured

CELL = Cell("CA", "P2", "fedopt", "adam", "fedyogi", 10)


@pytest.mark.parametrize(
    "name",
    ["CA", "CA-P2", "CA-P2.local", "CA-P2-fedopt-adam-fedyogi", "CA-P2-adam.local", "study"],
)
def test_the_job_is_found_by_what_its_cells_have_in_common(tmp_path, name):
    measured(tmp_path, f"train/{name}", 12.5)
    assert of_cell(tmp_path, CELL) == Span(1_699_999_987_500, 1_700_000_000_000)


def test_jobs_of_others_and_broken_files_are_not_taken(tmp_path):
    measured(tmp_path, "train/CA-P1", 12.5)
    measured(tmp_path, "train/CA-P2-fedopt-adam-fedavg", 12.5)
    assert of_cell(tmp_path, CELL) is None
    (tmp_path / "benchmarks" / "train" / "CA-P2.tsv").write_text("")
    assert of_cell(tmp_path, CELL) is None
    measured(tmp_path, "baselines/CA", 3)
    assert of_baselines(tmp_path, "CA") == Span(1_699_999_997_000, 1_700_000_000_000)
    assert of_baselines(tmp_path, "NY") is None


def test_a_run_lasts_as_long_as_its_training(tracked):
    client = connect(tracked / "mlflow.db")
    times = {
        run.info.run_name: run.info.end_time - run.info.start_time
        for run in client.search_runs([client.search_experiments()[0].experiment_id])
    }
    assert times["CA-P2 adam+avg"] == 61_000
    assert times["CA baseline ridge"] == 7_000
    assert times["CA-P1 adam+avg"] == 0, "it is not known"
    assert len(times) == len(list(runs(Tables(tracked)))) + 1
