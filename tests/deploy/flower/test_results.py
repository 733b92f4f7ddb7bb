"""What a deployment leaves is shown as any study is, and marked as what it is."""

import pytest

from plfl.base.errors import ConfigError
from plfl.config.study import Study
from plfl.deploy.flower import results
from plfl.deploy.protocol.agreement import deployable, narrowed
from plfl.publish.tracking.content import runs
from plfl.publish.tracking.store import connect, find_experiment, track
from plfl.results.tables import Tables
from tests.helpers.loopback import NAMES, Deployment, by_split, study
from tests.helpers.refusals import naming


@pytest.fixture(scope="module")
def deployed(tmp_path_factory):
    """The results folder of a deployed cell in which an answer was lost, and its records."""
    of = study(federation={"rounds": 2, "evaluate_every": 1})
    folder = tmp_path_factory.mktemp("deployed")
    deployment = Deployment(of, by_split(of)["P2"], folder / "run")
    deployment.loopback.lost = lambda name, message: (
        (name, message.about.get("round")) == ("102", 2) and message.about["kind"] == "train"
    )
    result = deployment.server.run()
    place = folder / narrowed(of, deployment.cell).results
    results.write(of, deployment.cell, result, deployment.server.members.descriptions, place)
    return place, result.records


def test_the_run_in_mlflow_is_marked(deployed, tmp_path):
    folder, _ = deployed
    client = connect(track(folder))
    found = client.search_runs([find_experiment(client).experiment_id], "tags.engine = 'flower'")
    assert {run.info.run_name for run in found} == {"XX-P2 adam+avg", "overview"}


def test_measured_bytes_are_logged(deployed):
    folder, records = deployed
    (run,) = runs(Tables(folder))
    assert run.diverged_round is None, "who is silent has no loss"
    train = records[(records["split"] == "train") & (records["model"] == "local")]
    for way in ("down", "up"):
        points = {t: value for key, t, value in run.points if key == f"traffic/wire_mb_{way}"}
        expected = train.groupby("round")[f"wire_{way}"].sum() / 1e6
        assert points == pytest.approx(expected.to_dict(), rel=1e-3)
        assert (run.clients[f"wire_mb_{way}"] > run.clients[f"mb_{way}"]).all()
    assert run.clients["client"].tolist() == NAMES


def test_a_deployed_study_can_be_deployed_again():
    listed = {state: [int(name) for name in NAMES] for state in ("XX", "YY")}
    of = study(data={"states": list(listed), "buildings": listed})
    for cell in of.cells:
        once = narrowed(of, cell)
        saved = Study.parse(once.model_dump(mode="json"), "study.json")
        assert saved == once
        assert deployable(saved, None, "study.json") == cell
        assert narrowed(saved, cell).name == once.name


def test_a_name_that_leaves_no_room_for_that_of_the_cell_is_refused():
    of = study()
    room = 100 - len(f"-{of.cells[0]}-flower")
    longest = of.model_copy(update={"name": "n" * room})
    cell = deployable(longest, None, "config.yaml")
    results_of = narrowed(longest, cell)
    assert Study.parse(results_of.model_dump(mode="json"), "study.json") == results_of
    longer = of.model_copy(update={"name": "n" * (room + 3)})
    with naming(ConfigError, "config.yaml", "1 error"):
        deployable(longer, None, "config.yaml")
