"""What the comparison with the simulator leaves out, and what it must not."""

import pandas as pd
import pytest

from plfl.deploy.local import _scored
from plfl.deploy.protocol.rounds import RoundSummary


def records(*rows) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["round", "client", "split"])


@pytest.mark.parametrize(("took_part", "kept"), [(["a"], 3), (["a", "b"], 4)])
def test_only_who_was_away_may_lack_scores(took_part, kept):
    simulated = records((1, "a", "test"), (1, "b", "test"), (2, "a", "test"), (2, "b", "test"))
    deployed = simulated.drop(index=3)
    history = [
        RoundSummary(1, ["a", "b"], ["a", "b"], 0.0),
        RoundSummary(2, ["a", "b"], took_part, 0.0),
    ]
    assert len(_scored(simulated, deployed, history)) == kept


def test_who_was_away_but_back_in_time_has_scores():
    simulated = records((1, "a", "test"), (1, "b", "test"))
    history = [RoundSummary(1, ["a", "b"], ["a"], 0.0)]
    assert _scored(simulated, simulated, history).equals(simulated)


def test_who_was_asked_and_went_away_was_still_asked():
    simulated = records((1, "a", "train"), (1, "b", "train"), (1, "a", "test"), (1, "b", "test"))
    deployed = simulated.drop(index=3)
    history = [RoundSummary(1, ["a", "b"], ["a"], 0.0)]
    for of_deployment in (deployed, deployed.drop(index=1)):
        assert _scored(simulated, of_deployment, history).equals(deployed)
