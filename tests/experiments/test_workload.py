"""What a study costs, estimated by a short training of synthetic numbers."""

import pandas as pd
import pytest

from plfl.config.study import Study
from plfl.experiments import workload
from tests.helpers.tiny import study as of_loads
from tests.tasks.test_classify import study as of_images


@pytest.mark.parametrize("study", [of_loads(), of_images()], ids=["loads", "images"])
def test_the_speed_of_a_study(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload, "TRIAL", 0.01)
    speed = workload.measure(study)
    assert speed.client_steps > 0
    assert speed.evaluations > 0
    work = pd.DataFrame({"client_steps": [speed.client_steps], "evaluations": [0]})
    assert speed.seconds(work) == pytest.approx(1)
