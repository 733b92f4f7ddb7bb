"""A hostile client: whatever it sends counts as nothing, and the others get their results."""

import json

import pandas as pd
import pytest

from plfl.deploy.protocol.answers import Description
from plfl.deploy.protocol.endpoints import Message
from plfl.results.collect import describe_clients
from tests.helpers import forging
from tests.helpers.loopback import NAMES, Deployment, by_split, dataset, replayed, study

HOSTILE, OTHERS = "102", [name for name in NAMES if name != "102"]
KINDS = {"train": forging.TRAIN, "evaluate": forging.EVALUATE}
ROUNDS = max(map(len, KINDS.values())) + 3


def honest(t: int) -> bool:
    """Whether the hostile client still behaves well in round `t`."""
    return t <= 2 or t == ROUNDS


class Hostile:
    """Forges the answers of one client, each kind in another way in each round `t`."""

    t = 1

    def __call__(self, name: str, message: Message, answer: bytes) -> bytes:
        kind = message.about["kind"]
        if name != HOSTILE or kind not in KINDS or honest(self.t):
            return answer
        cases = [*KINDS[kind].values()]
        return cases[(self.t - 3) % len(cases)](*open_(answer))


def open_(answer: bytes):
    message = Message.unpack(answer)
    return dict(message.about), dict(message.arrays)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run in which one client sends another forged answer to every message of every round."""
    own_study = study(
        grid={"method": ["scaffold"]},
        federation={"rounds": ROUNDS, "local_steps": 1, "evaluate_every": 1},
        task={"conformal": "personal", "level": 0.8},
    )
    deployed = Deployment(
        own_study, by_split(own_study)["P2"], tmp_path_factory.mktemp("run"), minimum=3
    )
    hostile = deployed.loopback.forged = Hostile()

    def count(summary):
        hostile.t = summary.t + 1

    return deployed, deployed.run(count)


@pytest.mark.parametrize(
    ("kind", "case"), [(kind, case) for kind, cases in KINDS.items() for case in cases]
)
def test_a_forged_answer_counts_as_none(kind, case, run):
    deployed, records = run
    cases = [*KINDS[kind]]
    t = 3 + cases.index(case)
    summary = deployed.server.history[t - 1]
    assert set(summary.refused) == {HOSTILE}
    assert all(len(reason) <= 2000 and reason.isprintable() for reason in summary.refused[HOSTILE])
    assert summary.took_part == OTHERS
    scored = records[(records["round"] == t) & (records["split"] != "train")]
    assert sorted(scored["client"].unique()) == OTHERS


def test_the_others_have_the_results_of_a_run_without_it(run):
    deployed, records = run
    history = deployed.server.history
    assert [s.took_part for s in history if honest(s.t)] == [NAMES] * 3
    expected = replayed(deployed)
    there = (expected["client"] != HOSTILE) | (expected["split"] == "train")
    expected = expected[there | expected["round"].map(honest)].reset_index(drop=True)
    pd.testing.assert_frame_equal(records, expected, check_exact=True)
    assert records.loc[records["split"] != "train", "mase"].notna().all()
    json.dumps([vars(summary) for summary in history])


@pytest.mark.parametrize("case", forging.JOIN)
def test_a_client_with_a_forged_description_does_not_join(case, tmp_path, caplog):
    own_study = study(federation={"rounds": 1, "local_steps": 1, "evaluate_every": 1})
    deployed = Deployment(own_study, by_split(own_study)["P2"], tmp_path, minimum=3)

    def forge(name, message, answer):
        forged = name == HOSTILE and message.about["kind"] == "join"
        return forging.JOIN[case](*open_(answer)) if forged else answer

    deployed.loopback.forged = forge
    deployed.server.gather()
    membership = deployed.server.membership
    assert sorted(membership.window_counts) == OTHERS
    assert [*membership.refused] == [HOSTILE]
    assert f"client {HOSTILE} is refused" in caplog.text
    membership.pool_limits()
    true = dataset(own_study)
    assert float(membership.limits["high"][0]) <= true.load.max()


@pytest.mark.parametrize("source", ["another client", "an earlier round", "another message"])
def test_a_replayed_answer_counts_as_none(source, tmp_path):
    own_study = study(federation={"rounds": 4, "local_steps": 2, "evaluate_every": 2})
    deployed = Deployment(own_study, by_split(own_study)["P2"], tmp_path)
    answers = {}

    def replay(name, message, answer):
        about = message.about
        key = {
            "another client": ("104", about["kind"], about.get("round")),
            "an earlier round": (name, about["kind"], 2),
            "another message": (name, "evaluate", None),
        }[source]
        answers[name, about["kind"], about.get("round")] = answer
        bad = name == HOSTILE and about["kind"] == "train" and about["round"] == 3
        return answers[key] if bad else answer

    deployed.loopback.forged = replay
    records = deployed.run()
    assert [s.took_part for s in deployed.server.history] == [NAMES, NAMES, OTHERS, NAMES]
    assert [[*s.refused] for s in deployed.server.history] == [[], [], [HOSTILE], []]
    pd.testing.assert_frame_equal(records, replayed(deployed), check_exact=True)


@pytest.mark.parametrize(
    "blocks",
    [
        {},
        {"task": {"conformal": "personal", "level": 0.8}},
        {"windows": {"horizons": 3}, "model": {"name": "mlp", "hidden": [4]}},
        {"task": {"name": "quantiles", "conformal": "adaptive"}},
    ],
)
def test_the_scores_of_all_tasks_are_accepted(blocks, tmp_path):
    own_study = study(federation={"rounds": 1, "evaluate_every": 1}, **blocks)
    deployed = Deployment(own_study, by_split(own_study)["P2"], tmp_path)
    records = deployed.run()
    assert not deployed.server.history[0].refused
    pd.testing.assert_frame_equal(records, replayed(deployed), check_exact=True)


def test_the_server_knows_what_describes_a_client():
    own_study = study()
    assert [*describe_clients("XX", dataset(own_study))] == [*Description.model_fields]
