"""Quantiles: loss, scores and their order, against independent implementations."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import mean_pinball_loss
from utilsforecast import losses as nixtla

from plfl.base.errors import ConfigError
from plfl.data.windows import build
from plfl.experiments.baselines import evaluate
from plfl.experiments.train import train
from plfl.interfaces.baseline import FitSettings
from plfl.study import Study
from plfl.tasks import metrics
from plfl.tasks.losses import Pinball
from plfl.tasks.quantiles import Quantiles
from tests.helpers import tiny
from tests.helpers.refusals import naming

LEVELS = (0.1, 0.5, 0.9)
random = np.random.default_rng(4)
TRUTH = random.gamma(2.0, 5.0, size=200)
FORECASTS = np.sort(random.gamma(2.0, 5.0, size=(200, 3)), axis=1)
FRAME = pd.DataFrame({"unique_id": "a", "y": TRUTH, **{f"q{i}": FORECASTS[:, i] for i in range(3)}})


@pytest.mark.parametrize("levels", [(0.5,), LEVELS], ids=len)
@pytest.mark.parametrize("horizons", [1, 4])
def test_the_pinball_loss_is_scikit_learns_and_its_slope_autograds(levels, horizons):
    truth = torch.from_numpy(random.normal(size=(2, 6, horizons)))
    outputs = torch.from_numpy(random.normal(size=(2, 6, horizons, len(levels))))
    targets = truth if horizons > 1 else truth[..., 0]
    flat = outputs.flatten(2)
    given = (flat.squeeze(2) if flat.shape[2] == 1 else flat).requires_grad_()
    loss = Pinball(levels)
    each = [
        mean_pinball_loss(truth.flatten(), outputs[..., i].flatten(), alpha=level)
        for i, level in enumerate(levels)
    ]
    assert loss.mean(given, targets).item() == pytest.approx(np.mean(each))
    (slope,) = torch.autograd.grad(loss.evaluate(given, targets).sum(), given)
    torch.testing.assert_close(loss.slope(given.detach(), targets), slope, rtol=0, atol=0)


def test_scores_agree_with_utilsforecast():
    names = {"m": ["q0", "q1", "q2"]}
    expected = nixtla.mqloss(FRAME, names, np.array(LEVELS))["m"][0]
    assert metrics.pinball(TRUTH, FORECASTS, LEVELS).mean() == pytest.approx(expected)
    scaled = nixtla.scaled_crps(FRAME, names, np.array(LEVELS))["m"][0]
    assert metrics.crps(TRUTH, FORECASTS, LEVELS) == pytest.approx(scaled * TRUTH.mean())
    frame = FRAME.rename(columns={"q0": "m-lo-80", "q2": "m-hi-80"})
    covered = nixtla.coverage(frame, ["m"], 80)["m"][0]
    assert metrics.coverage(TRUTH, FORECASTS[:, 0], FORECASTS[:, 2]) == pytest.approx(covered)


@pytest.mark.parametrize("horizons", [1, 3])
def test_a_study_of_quantiles(horizons):
    """Forecasts do not cross; their scores can be computed again from what is kept; baselines."""
    study = tiny.study(
        task={"name": "quantiles", "levels": LEVELS},
        windows={"horizons": horizons, "target": "change"},
        model={"name": "mlp", "hidden": [4]},
        grid={"client_opt": ["adam"], "server_opt": ["fedavg"], "sharing": ["P2"]},
    )
    dataset = build(tiny.tables(rows=800), study.windows)
    (result,) = train(study, study.cells, dataset).values()
    week = result.forecasts
    assert (week[["local_10", "local_50", "local_90"]].diff(axis=1).iloc[:, 1:] >= 0).all(axis=None)
    assert (week["local"] == week["local_50"]).all()
    records = result.records.query("split == 'test' and round == 3 and model == 'local'")
    assert records["coverage_80"].between(0, 1).all()
    assert (records["width_80"] > 0).all()
    assert (records["scaled_crps"] < records["mase"]).all()
    first = [f"{score}_h{4 + h}" for score in ("mase", "crps", "coverage_80") for h in range(3)]
    assert (set(first) <= set(records)) == (horizons == 3)
    assert study.plan.settings(study.cells[0])["task"] == study.task.settings

    found = evaluate("XX", dataset, FitSettings(trees=5), study.task)
    test = found.scores.query("split == 'test'")
    assert set(test["baseline"]) == set(found.forecasts["baseline"])
    persistence = test[test["baseline"] == "persistence"]
    np.testing.assert_allclose(persistence["mase"], 1)
    complete = test[test["mae"].notna()]
    assert np.isfinite(complete[["crps", "scaled_crps", "coverage_80"]]).all(axis=None)
    assert complete.groupby("baseline")["coverage_80"].mean()["ridge"] > 0.5
    ends = found.forecasts[["forecast_10", "forecast_90"]].dropna()
    assert (ends["forecast_10"] <= ends["forecast_90"]).all()


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ({"name": "quantiles", "levels": [0.9, 0.5, 0.1]}, "- task.levels: "),
        ({"name": "quantiles", "levels": [0.1, 0.9]}, "lack 0.5, the median"),
        ({"name": "classify"}, "task.name: 'classify'"),
        ({"name": "quantiles", "levels": [0, 0.5]}, "task.levels"),
        ({"name": "quantiles", "level": [0.5]}, "level: unknown key of the task quantiles"),
        ({"name": "quantile"}, "did you mean 'quantiles'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_errors_name_the_key(task, said):
    with naming(ConfigError, said) as found:
        Study.parse({"task": task}, "study.yaml")
    assert "study.yaml" in str(found.value)


def test_intervals_are_pairs_of_levels():
    task = Quantiles(levels=(0.05, 0.1, 0.5, 0.75, 0.95))
    assert task.intervals == {"90": (0, 4)}
    assert task.outputs(24) == 120
