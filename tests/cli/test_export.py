"""`plfl export` of all meters of a results folder, of which some cannot become programs."""

from pathlib import Path

import pytest

from plfl.base.errors import DataError
from plfl.forecast.model import ForecastModel
from tests.helpers.kept_baselines import write_results
from tests.helpers.meter_models import MLP, make_study, write_readings

REASON = "public cannot become a program"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Results that keep the load of a day before, of three meters, in the folder of the test."""
    monkeypatch.chdir(tmp_path)
    write_readings(96 * 30)
    return write_results(make_study(baselines={"trees": 2}, model=MLP), "naive_day")


@pytest.mark.parametrize(("refused", "status"), [(["b"], 3), (["a", "b", "c"], 2), ([], 0)])
def test_meters_that_cannot_become_programs_are_named(folder, monkeypatch, invoke, refused, status):
    def export(self: ForecastModel, path: Path, client: str, model: str) -> None:
        if client in refused:
            raise DataError(REASON)
        path.write_text(client)

    monkeypatch.setattr(ForecastModel, "export", export)
    said = invoke("export", folder, "--with", "naive_day", "--to", "programs", status=status)
    expected = [f"{client}.onnx" for client in "abc" if client not in refused]
    assert sorted(path.name for path in Path("programs").glob("*")) == expected
    assert said.out.count("wrote ") == len(expected)
    for client in refused:
        assert f"{client}: {REASON}" in said.err
