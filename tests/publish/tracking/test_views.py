import base64
import json
import zlib
from itertools import product

import pytest

from plfl.publish.tracking.content import runs
from plfl.publish.tracking.views import TAG, presets
from plfl.results.tables import Tables
from tests.helpers import fake_results
from tests.helpers.fake_results import TINY

STATES = ["CA", "IL", "NY"]
PAPER = [(state, split) for state, split in product(STATES, ["P1", "P2", "P3"]) for _ in range(20)]


def decoded(view):
    """What MLflow's page reads from the tag."""
    entry = json.loads(view.tag()[1])
    packed = entry["state"].removeprefix("deflate;")
    return entry, json.loads(zlib.decompress(base64.b64decode(packed)))


def used(state):
    """Every metric and parameter that a view names, as MLflow spells columns."""
    keys = [*state["selectedColumns"], state["orderByKey"]]
    for chart in state["compareRunCharts"]:
        keys += [f"metrics.`{key}`" for key in chart.get("selectedMetricKeys", [])]
        keys += [f"metrics.`{key}`" for key in chart.get("selectedMetrics", [])]
        keys += [f"params.`{key}`" for key in chart.get("selectedParams", [])]
        keys += [f"metrics.`{chart[axis]['key']}`" for axis in ("xaxis", "yaxis") if axis in chart]
    group = state["groupBy"] or {"groupByKeys": []}
    keys += [f"params.`{key['groupByData']}`" for key in group["groupByKeys"]]
    return set(keys)


def keys(run):
    """Every metric and parameter of a run, as MLflow spells columns."""
    logged = {f"metrics.`{key}`" for key, _, _ in run.points}
    return logged | {f"params.`{key}`" for key in run.params}


def test_whatever_a_view_shows_is_logged(tmp_path):
    fake_results.write(tmp_path, TINY)
    cell, *_, baseline = runs(Tables(tmp_path))
    for view in presets([("CA", "P1")], 2):
        assert used(decoded(view)[1]) <= keys(cell)
    shown = {"metrics.`val/mase_local`", "metrics.`test_last/mase_local`", "params.`method`"}
    assert shown <= keys(baseline)


def test_groups_never_hold_more_runs_than_mlflow_loads():
    # 102 runs of one state: averages over the first 100 of them would be wrong.
    views = presets([("CA", scheme) for scheme in ("P1", "P2") for _ in range(51)], 1)
    curves = {view.name: view.search for view in views if view.as_charts}
    assert curves == {
        "CA P1 curves": "params.state = 'CA' and params.sharing = 'P1'",
        "CA P2 curves": "params.state = 'CA' and params.sharing = 'P2'",
    }


@pytest.mark.parametrize("seeds", [1, 2])
def test_tags_are_distinct_steady_and_fit(seeds):
    views = list(presets(PAPER, seeds))
    tags = dict(view.tag() for view in views)
    assert len(tags) == len(views)
    assert all(key.startswith(TAG) for key in tags)
    assert max(map(len, tags.values())) < 8000  # bytes a tag may have in MLflow
    assert tags == dict(view.tag() for view in presets(PAPER, seeds))


def test_charts_belong_to_sections_of_their_view():
    for view in presets(PAPER, 1):
        _, state = decoded(view)
        sections = {section["uuid"] for section in state["compareRunSections"]}
        assert {chart["metricSectionId"] for chart in state["compareRunCharts"]} == sections
        uuids = [chart["uuid"] for chart in state["compareRunCharts"]]
        assert len(set(uuids)) == len(uuids)
