"""What a deployment leaves is shown as any study is, and compared with the simulator."""

import io

import pandas as pd
import pytest

from plfl.deploy.local import scored_rows
from plfl.deploy.protocol.agreement import deployable, narrow_study
from plfl.deploy.protocol.rounds import RoundSummary
from plfl.publish.tracking import runs
from plfl.results.tables import Tables
from plfl.study import Study
from tests.helpers.loopback import NAMES, Deployment, by_split, study


@pytest.fixture(scope="module")
def deployed(tmp_path_factory):
    """The results folder of a deployed cell in which an answer was lost, and its records."""
    pytest.importorskip("flwr", reason="needs Flower: pip install -e '.[deploy]'")
    from plfl.deploy import server_app

    own_study = study(federation={"rounds": 2, "evaluate_every": 1})
    folder = tmp_path_factory.mktemp("deployed")
    deployment = Deployment(own_study, by_split(own_study)["P2"], folder / "run")
    deployment.loopback.is_lost = lambda name, message: (
        (name, message.about.get("round")) == ("102", 2) and message.about["kind"] == "train"
    )
    result = deployment.server.run()
    place = folder / narrow_study(own_study, deployment.cell).paths.results
    server_app.write_results(
        own_study, deployment.cell, result, deployment.server.membership.descriptions, place
    )
    return place, result.records


def test_measured_bytes_are_logged(deployed):
    folder, records = deployed
    (run,) = runs(Tables(folder))
    assert (run.name, run.params["engine"]) == ("XX-P2 fedopt adam+fedavg", "flower")
    assert run.diverged_round is None, "who did not answer has no loss"
    clients = pd.read_csv(io.StringIO(run.tables["clients.csv"]))
    train = records[(records["split"] == "train") & (records["model"] == "local")]
    for way in ("down", "up"):
        points = {t: value for key, t, value in run.points if key == f"message_{way}"}
        assert points == train.groupby("round")[f"message_{way}"].sum().to_dict()
        assert (clients[f"message_{way}"] > clients[f"bytes_{way}"]).all()
    assert clients["client"].astype(str).tolist() == NAMES


def test_a_deployment_in_which_nobody_was_scored_is_saved(tmp_path):
    pytest.importorskip("flwr", reason="needs Flower: pip install -e '.[deploy]'")
    from plfl.deploy import server_app

    own_study = study(federation={"rounds": 2, "evaluate_every": 1})
    deployment = Deployment(own_study, by_split(own_study)["P2"], tmp_path)
    deployment.loopback.is_lost = lambda name, message: message.about["kind"] == "evaluate"
    result = deployment.server.run()
    described = deployment.server.membership.descriptions
    server_app.write_results(own_study, deployment.cell, result, described, tmp_path / "results")
    tables = Tables(tmp_path / "results")
    assert len(tables.records(["loss"])) == 2 * 2 * len(NAMES)
    assert tables.summary.empty


def test_a_deployed_study_can_be_deployed_again():
    listed = {state: [int(name) for name in NAMES] for state in ("XX", "YY")}
    own_study = study(data={"states": list(listed), "buildings": listed})
    for cell in own_study.cells:
        once = narrow_study(own_study, cell)
        saved = Study.parse(once.model_dump(mode="json"), "study.json")
        assert saved == once
        assert deployable(saved, None, "study.json") == cell
        assert narrow_study(saved, cell).name == once.name


@pytest.mark.parametrize(
    ("took_part", "deployed", "kept"),
    [
        (["a"], [0, 1, 2], 3),
        (["a", "b"], [0, 1, 2], 4),  # b must have scores
        (["a"], [0, 1, 2, 3], 4),  # it was back in time
        (["a"], [0, 2], 3),  # it was asked, which counts
    ],
)
def test_only_who_was_away_may_lack_scores(took_part, deployed, kept):
    rows = [(1, "a", "train"), (1, "b", "train"), (1, "a", "test"), (1, "b", "test")]
    simulated = pd.DataFrame(rows, columns=["round", "client", "split"])
    history = [RoundSummary(1, ["a", "b"], took_part, 0.0)]
    assert len(scored_rows(simulated, simulated.iloc[deployed], history)) == kept
