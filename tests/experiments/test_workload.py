"""What a study costs, estimated by a short training of synthetic numbers."""

import pandas as pd
import pytest
import torch

from plfl.base.errors import ConfigError
from plfl.experiments import workload
from plfl.study import Study
from tests.helpers.refusals import naming
from tests.helpers.tiny import study as of_loads
from tests.images.test_classify import study as of_images


@pytest.mark.parametrize("study", [of_loads(), of_images()], ids=["loads", "images"])
def test_the_speed_of_a_study(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload, "TRIAL", 0.01)
    speed = workload.measure(study)
    assert speed.client_steps > 0
    assert speed.evaluations > 0
    work = pd.DataFrame({"client_steps": [speed.client_steps], "evaluations": [0]})
    assert speed.seconds(work) == pytest.approx(1)


def test_a_window_longer_than_a_year_is_refused() -> None:
    with naming(ConfigError, "40,004 rows", "windows.look_back"):
        workload.measure(of_loads(windows={"look_back": 40_000}))


def test_the_same_speed_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figure 4 of FedADC has four variants that train one model, which takes long to measure."""
    measured = []

    def measure(study: Study) -> workload.Speed:
        measured.append(study.model.name)
        return workload.Speed(len(measured), 1)

    monkeypatch.setattr(workload, "measure", measure)
    assert len(workload.speeds(Study.load("config/fedadc-fig4.yaml").variants)) == 4
    assert measured == ["resnet18_gn"]
    axes = {"model.name": ["gru", "lstm"], "federation.local_steps": [2, 4]}
    found = workload.speeds(of_loads(grid=axes).variants)
    assert measured == ["resnet18_gn", "gru", "lstm"]
    assert [speed.client_steps for speed in found.values()] == [2, 2, 3, 3]
    shares = of_loads(grid={"federation.participation": [0.5, 1.0]}).variants
    for has_gpu, speeds in ((False, [4, 4]), (True, [5, 6])):
        monkeypatch.setattr(torch.cuda, "is_available", lambda has_gpu=has_gpu: has_gpu)
        assert [speed.client_steps for speed in workload.speeds(shares).values()] == speeds


@pytest.mark.parametrize(("least", "most", "amounts"), [(1, 10**6, {1, 30}), (2, 3, {2, 3})])
def test_as_much_is_measured_as_takes_long_enough(least: int, most: int, amounts: set[int]) -> None:
    now, done = 0.0, set()

    def work(some: int) -> float:
        nonlocal now
        now += 0.01 * some + (some not in done)  # a second to prepare each amount
        done.add(some)
        return 5 * some

    assert workload._rate(work, least, most, lambda: now) == pytest.approx(500)
    assert done == amounts


def test_tracing_an_own_module_does_not_count_as_training() -> None:
    now, calls = 0.0, 0

    def work(some: int) -> float:
        nonlocal now, calls
        calls += 1
        now += 10.0 if calls == 1 else 0.01 * some
        return some

    assert workload._rate(work, 1, 10**6, lambda: now) == pytest.approx(100)
    assert calls == 2
