"""Lost answers, crashes, clients that join late or not at all: who took part is what counts."""

import numpy as np
import pandas as pd
import pytest
import torch

from plfl.base.errors import ConfigError, PlflError
from plfl.deploy.local import replay
from plfl.deploy.protocol import agreement
from plfl.deploy.protocol.endpoints import Message
from tests.helpers import loopback
from tests.helpers.loopback import NAMES, Deployment, by_split, dataset, replayed, study
from tests.helpers.refusals import naming

FEDERATION = {"rounds": 5, "local_steps": 3, "evaluate_every": 5}


@pytest.fixture(params=["fedopt", "scaffold"])
def deployed(request, tmp_path):
    own_study = study(grid={"method": [request.param]}, federation=FEDERATION)
    return Deployment(own_study, by_split(own_study)["P2"], tmp_path)


def test_lost_answers_and_crashes_leave_no_trace(deployed):
    """Answers are lost, a client and the server crash: all go on with their own state."""

    def lost(name, message):
        about = message.about
        return about["kind"] == "train" and (name, about["round"]) in {("102", 2), ("104", 3)}

    def crash(summary):
        # Nothing but its folder outlives the process.
        deployed.loopback.clients["101"] = deployed.client("101")
        if summary.t == 3:
            raise RuntimeError("killed")

    deployed.loopback.is_lost = lost
    with pytest.raises(RuntimeError, match="killed"):
        deployed.run(crash)
    # The clients are a round ahead of what the server has saved.
    deployed.server = deployed.new_server()
    records = deployed.run()
    away = {t: set(NAMES) - set(took_part) for t, took_part in took_parts(deployed)}
    assert away == {1: set(), 2: {"102"}, 3: {"104"}, 4: set(), 5: set()}
    pd.testing.assert_frame_equal(records, replayed(deployed), check_exact=True)
    # A crash before its results were safe: it has them, and nobody trains again.
    deployed.server = deployed.new_server()
    crossed = deployed.loopback.crossed_messages
    crossed.clear()
    summaries = []
    pd.testing.assert_frame_equal(deployed.run(summaries.append), records, check_exact=True)
    assert [summary.t for summary in summaries] == [5]
    kinds = {Message.unpack(data).about.get("kind", "answer") for data in crossed}
    assert kinds == {"join", "answer"}


def test_after_a_restart_all_clients_that_took_part_are_described(tmp_path):
    own_study = study(federation=FEDERATION | {"evaluate_every": 1})
    deployed = Deployment(own_study, by_split(own_study)["P2"], tmp_path, minimum=3)

    def crash(summary):
        if summary.t == 3:
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        deployed.run(crash)
    expected = deployed.server.membership.descriptions
    assert expected["client"].tolist() == NAMES
    deployed.loopback.absent = {"102"}
    deployed.server = deployed.new_server()
    records = deployed.run()
    assert {*records["client"]} == {*NAMES}
    pd.testing.assert_frame_equal(deployed.server.membership.descriptions, expected)


def took_parts(deployed):
    return [(summary.t, summary.took_part) for summary in deployed.server.history]


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_run_in_which_nobody_ever_took_part_is_none(is_lost, tmp_path):
    own_study = study(federation={"rounds": 2, "evaluate_every": 2})
    deployed = Deployment(own_study, by_split(own_study)["P1"], tmp_path)
    failed = Message({"error": "client: no space left"}).pack()
    deployed.loopback.is_lost = lambda name, message: is_lost and message.about["kind"] == "train"
    deployed.loopback.forged = lambda name, message, answer: (
        failed if message.about["kind"] == "train" else answer
    )
    expected = "none answered in time" if is_lost else "104 (client: no space left)"
    for _ in range(2):  # after a restart, too
        with naming(PlflError, "no client took part in any of 2 rounds", expected):
            deployed.run()
        deployed.server = deployed.new_server()


@pytest.mark.parametrize("split", ["P2", "P3"])
def test_what_was_sent_to_who_does_not_answer_is_counted(split, tmp_path):
    own_study = study(federation={"rounds": 2, "evaluate_every": 2})
    deployed = Deployment(own_study, by_split(own_study)[split], tmp_path)
    deployed.loopback.is_lost = lambda name, message: (
        (name, message.about.get("round")) == ("102", 2) and message.about["kind"] == "train"
    )
    records = deployed.server.run().records
    expected = replayed(deployed)
    pd.testing.assert_frame_equal(records[expected.columns], expected, check_exact=True)
    training = (records["split"] == "train") & (records["model"] == "local")
    train = records[training].set_index(["round", "client"])
    assert sorted(train.index) == [(t, name) for t in (1, 2) for name in NAMES]
    unanswered, before, other = (
        train.loc[own_study] for own_study in ((2, "102"), (1, "102"), (2, "101"))
    )
    assert np.isnan(unanswered["loss"]) and train.drop(index=(2, "102"))["loss"].notna().all()
    assert unanswered["bytes_down"] == before["bytes_down"] and unanswered["bytes_up"] == 0
    assert unanswered["message_down"] == other["message_down"] > 0 and unanswered["message_up"] == 0


def test_a_server_that_was_replaced_is_refused(deployed):
    replaced = deployed.server
    later = deployed.new_server()
    later.gather()
    answers = [
        Message.unpack(client.answer(replaced.message("join").pack()))
        for client in deployed.loopback.clients.values()
    ]
    assert all("was replaced" in answer.about["error"] for answer in answers)
    assert all("its clock was behind" in answer.about["error"] for answer in answers)
    with naming(PlflError, "0 of 4 clients"):
        replaced.gather()


@pytest.mark.parametrize(("method", "ema"), [("scaffold", None), ("fedopt", 0.9)])
def test_a_client_that_comes_late_begins_with_the_initial_model(method, ema, tmp_path):
    federation = {**FEDERATION, "ema": ema}
    own_study = study(
        grid={"method": [method]}, federation=federation, windows={"scaling": "per_client"}
    )
    deployed = Deployment(own_study, by_split(own_study)["P2"], tmp_path, minimum=3)
    deployed.loopback.absent = {"102"}

    def arrive(summary):
        if summary.t == 2:
            deployed.loopback.absent = set()

    records = deployed.run(arrive)
    history = deployed.server.history
    assert [len(summary.took_part) for summary in history] == [3, 3, 4, 4, 4]
    pd.testing.assert_frame_equal(records, replayed(deployed), check_exact=True)


@pytest.fixture
def unequal(monkeypatch):
    """Clients whose histories are of different lengths."""
    tables = dict(zip(NAMES, [250, 300, 220, 280], strict=True))
    cut = {name: loopback.tables()[name].iloc[-rows:] for name, rows in tables.items()}
    monkeypatch.setattr(loopback, "tables", lambda: cut)


@pytest.mark.parametrize(
    ("method", "mean", "own"), [("feddyn", "h", "h_i"), ("scaffold", "c", "c_i")]
)
def test_a_mean_over_all_does_without_who_has_not_joined(method, mean, own, tmp_path, unequal):
    """The server of a method keeps a mean; one client joins late, and one leaves."""
    own_study = study(
        grid={"method": [method]},
        federation=FEDERATION | {"weighting": "samples"},
        windows={"scaling": "per_client"},
    )
    deployed = Deployment(own_study, by_split(own_study)["P2"], tmp_path, minimum=3)
    deployed.loopback.absent = {"102"}

    def arrive(summary):
        if summary.t == 2:
            deployed.loopback.absent = set()
        if summary.t == 4:
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        deployed.run(arrive)
    # The server still knows what it knew before it crashed.
    deployed.server, deployed.loopback.absent = deployed.new_server(), {"103"}
    records = deployed.run()
    history = deployed.server.history
    assert [len(summary.joined) for summary in history] == [3, 3, 4, 4, 4]
    again, f = replay(own_study, deployed.cell, dataset(own_study), history)
    there = (again.records["client"] != "103") | (again.records["split"] == "train")
    expected = again.records[there].reset_index(drop=True)
    pd.testing.assert_frame_equal(records, expected, check_exact=True)
    assert records.loc[records["split"] != "train", "mase"].notna().all()
    windows = f.client_data.window_counts
    assert windows.unique().numel() == len(NAMES)
    expected = (windows[:, None] * getattr(f.state, own)).sum(0) / windows.sum()
    torch.testing.assert_close(getattr(f.state, mean).double(), expected, atol=1e-7, rtol=1e-5)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_message_that_is_sent_again_changes_nothing(tmp_path, restarts):
    """After round 4, all messages so far reach a client once more, from whoever kept them."""
    own_study = study(grid={"method": ["scaffold"]}, federation=FEDERATION | {"evaluate_every": 1})
    deployed, sent = Deployment(own_study, by_split(own_study)["P2"], tmp_path), []

    def keep(name, message, answer):
        if name == "101" and message.about["kind"] != "join":
            sent.append(message.pack())
        return answer

    def files():
        found = (tmp_path / "101").rglob("*")
        return {path: path.read_bytes() for path in found if path.is_file()}

    def send_again(summary):
        if summary.t == 4:
            if restarts:
                deployed.loopback.clients["101"] = deployed.client("101")
            client, before = deployed.loopback.clients["101"], files()
            errors = [Message.unpack(client.answer(data)).about["error"] for data in sent]
            assert len(errors) == 8
            assert all("answered before" in error for error in errors)
            assert files() == before

    deployed.loopback.forged = keep
    records = deployed.run(send_again)
    assert took_parts(deployed)[-1] == (5, NAMES)
    pd.testing.assert_frame_equal(records, replayed(deployed), check_exact=True)


def test_a_run_cannot_be_named_to_lead_out_of_the_folder(deployed):
    client = deployed.loopback.clients["101"]
    about = {**deployed.server.message("join").about, "run": "../../elsewhere"}
    answer = Message.unpack(client.answer(Message(about).pack()))
    assert "../../elsewhere" in answer.about["error"]
    assert not (deployed.folder.parent / "elsewhere").exists()


def test_a_lost_state_is_reported_and_not_made_up(deployed):
    def lose(summary):
        if summary.t == 2:
            for file in (deployed.folder / "101").glob("*/round-2.safetensors"):
                file.unlink()
            deployed.loopback.clients["101"] = deployed.client("101")

    deployed.run(lose)
    summary = [t.took_part for t in deployed.server.history]
    assert summary[2] == summary[4] == ["102", "103", "104"]


@pytest.mark.parametrize(
    ("blocks", "reason"),
    [
        ({"grid": {"method": ["one_shot"]}}, "simulator only: all clients train before round 1"),
        ({"federation": {"simulation": {"dropout": 0.5}}}, "a deployment measures"),
        ({"tuning": {"search": {"client_opt.*.lr": [0.1, 0.2]}}}, "tuning: 2 candidates"),
        ({"data": {"federations": 2}}, "a deployment is one federation"),
    ],
)
def test_what_cannot_be_deployed_is_refused_with_the_reason(blocks, reason):
    own_study = study(**blocks)
    with naming(ConfigError, reason):
        agreement.deployable(own_study, None, "config.yaml")


@pytest.fixture
def joining(tmp_path):
    own_study = study(federation=FEDERATION)
    return Deployment(own_study, by_split(own_study)["P2"], tmp_path)


def test_who_uses_the_key_of_another_is_left_out(joining):
    joining.loopback.clients["102"] = joining.client("103")
    with naming(PlflError, "3 of 4 clients", "102"):
        joining.run()


def test_who_is_missing_is_named(joining):
    joining.loopback.absent = {"102", "104"}
    with naming(PlflError, "2 of 4 clients", "102", "104"):
        joining.run()


def test_a_server_of_another_study_gets_nothing(tmp_path):
    own_study = study(federation=FEDERATION)
    other = study(federation=FEDERATION, client_opt={"adam": {"lr": 0.5}})
    known = Deployment(own_study, by_split(own_study)["P2"], tmp_path)
    stranger = Deployment(other, by_split(other)["P2"], tmp_path / "other")
    stranger.loopback.clients = known.loopback.clients
    with naming(PlflError, "0 of 4 clients"):
        stranger.run()
