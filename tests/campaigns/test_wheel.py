"""The installed wheel runs a study to its end in an empty folder."""

import re
from pathlib import Path

from tests.helpers.installed import Installed, write_study_with_plugin


def test_a_study_runs_to_its_end_outside_the_clone(tmp_path: Path) -> None:
    installed = Installed(tmp_path)
    installed.plfl("init", "smoke")
    assert "Study 'smoke' (sample data):" in installed.plfl("study", "smoke.yaml")
    results = installed.work / "results" / "smoke"
    page = (results / "index.html").read_bytes()
    assert installed.plfl("report", "results/smoke").strip() == "results/smoke/index.html"
    assert (results / "index.html").read_bytes() == page
    assert list((results / "models").glob("*.safetensors"))


def test_a_plugin_runs_in_all_jobs_and_a_change_trains_again(tmp_path: Path) -> None:
    installed = Installed(tmp_path)
    folder = installed.work / "mine"
    write_study_with_plugin(folder)
    installed.plfl("study", "mine/own.yaml")
    results = installed.work / "results" / "own"
    assert "Half" in (results / "index.html").read_text()
    assert (installed.work / "figures" / "own" / "fig1_loads.svg").is_file()
    assert "Nothing to be done" in installed.plfl("study", "mine/own.yaml", "--dry-run")
    with (folder / "mine.py").open("a") as file:
        file.write("# A change.\n")
    planned = installed.plfl("study", "mine/own.yaml", "--dry-run")
    jobs = dict(re.findall(r"^([a-z_]+) +(\d+)$", planned, re.MULTILINE))
    assert "train" in jobs
    assert not {"windows", "baselines"} & jobs.keys(), "nothing else depends on it"
