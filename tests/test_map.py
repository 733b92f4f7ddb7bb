"""The table of the map: the range of a site that took no part."""

import pandas as pd
import pytest
from scipy.stats import t

from benchmarks.map import predict_new_site


def test_the_range_of_a_new_site_is_that_of_a_prediction() -> None:
    leads = {"fox": 0.10, "panther": 0.14, "bear": 0.08, "new seasons": 9.0, "all": 9.0}
    common = {"study": "map", "weeks": 4, "way": "combined"}
    rows = [{"site": site, "lead": lead, **common} for site, lead in leads.items()]
    rows.append({"site": "all", "lead": 0.12, **common, "study": "map-cambridge"})
    rows.append({"site": "all", "lead": 9.0, **common, "study": "map-cambridge", "weeks": 1})
    (told,) = predict_new_site(pd.DataFrame(rows)).to_dict("records")
    # By hand: mean 0.11, deviation sqrt(0.002 / 3).
    half = t.isf(0.025, 3) * (0.002 / 3) ** 0.5 * 1.25**0.5
    assert (told["lead"], told["high"]) == (pytest.approx(0.11), pytest.approx(0.11 + half))
    assert told["low"] == pytest.approx(0.11 - half)
    assert len(predict_new_site(pd.DataFrame(rows[:3]))) == 0
