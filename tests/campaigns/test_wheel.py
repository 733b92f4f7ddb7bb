"""The installed wheel runs a study to its end in an empty folder."""

from pathlib import Path

from tests.test_wheel import Installed


def test_a_study_runs_to_its_end_outside_the_clone(tmp_path: Path) -> None:
    installed = Installed(tmp_path)
    installed.plfl("init", "smoke")
    assert "Study 'smoke' (sample data):" in installed.plfl("study", "smoke.yaml")
    results = installed.work / "results" / "smoke"
    page = (results / "index.html").read_bytes()
    assert installed.plfl("report").strip() == "results/smoke/index.html"
    assert (results / "index.html").read_bytes() == page
    assert list((results / "models").glob("*.safetensors"))
