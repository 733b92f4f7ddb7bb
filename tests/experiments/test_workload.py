"""What a study costs, estimated by a short training of synthetic numbers."""

import pandas as pd
import pytest

from plfl.base.errors import ConfigError
from plfl.experiments import workload
from plfl.study import Study
from tests.helpers.refusals import naming
from tests.helpers.tiny import study as of_loads
from tests.images.test_classify import study as of_images


@pytest.mark.parametrize("study", [of_loads(), of_images()], ids=["loads", "images"])
def test_the_speed_of_a_study(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload, "TRIAL", 0.01)
    assert workload.measured_speed(study) > 0


def test_a_window_longer_than_a_year_is_refused() -> None:
    with naming(ConfigError, "40,004 rows", "windows.look_back"):
        workload.measured_speed(of_loads(windows={"look_back": 40_000}))


def test_a_range_is_of_all_training_and_of_each_dataset_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workload, "BASELINES", 7.0)
    monkeypatch.setattr(workload, "cost_of_step", lambda study: study.federation.batch_size)
    study = of_loads(grid={"federation.batch_size": [8, 16]})
    work = pd.DataFrame({"client_steps": [600], "evaluations": [0]})
    clients = sum(map(study.data.clients_of, study.data.states))
    expected = 600 / 100 + 2 * 600 / 100 + 7 * clients
    least, most = workload.seconds(study, dict.fromkeys(study.variants, work), speed=100)
    assert (least, most) == pytest.approx((expected / 2, expected * 2))
