"""What the comparison with the simulator leaves out, and what it must not."""

import pandas as pd
import pytest

from plfl.deploy.check import _scored
from plfl.deploy.terms import Taken


@pytest.mark.parametrize(("took_part", "kept"), [(["a"], 3), (["a", "b"], 4)])
def test_only_who_was_away_may_lack_scores(took_part, kept):
    simulated = pd.DataFrame({"round": [1, 1, 2, 2], "client": ["a", "b", "a", "b"]})
    found = simulated.drop(index=3)
    history = [Taken(1, ["a", "b"], ["a", "b"], 0.0), Taken(2, ["a", "b"], took_part, 0.0)]
    assert len(_scored(simulated, found, history)) == kept


def test_who_was_away_but_back_in_time_has_scores():
    simulated = pd.DataFrame({"round": [1, 1], "client": ["a", "b"]})
    history = [Taken(1, ["a", "b"], ["a"], 0.0)]
    assert _scored(simulated, simulated, history).equals(simulated)
