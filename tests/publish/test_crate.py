"""Crates of finished studies: what is in them, what is not, and what their metadata must say."""

import hashlib
import json
import math
import re
import shutil
import zipfile
from datetime import date
from pathlib import Path
from statistics import NormalDist
from typing import Any

import pandas as pd
import pytest
from rocrate.rocrate import ROCrate  # type: ignore[import-untyped]

from plfl import plugins
from plfl.base.errors import PlflError, ResultsError
from plfl.federated.privacy import statement
from plfl.federated.privacy.accounting import Bound
from plfl.publish.crate import Citation, publish, read_citation
from plfl.report import page
from plfl.results.tables import Tables
from plfl.study import Study
from tests.helpers import fake_results
from tests.helpers.refusals import naming
from tests.helpers.repository import ROOT, blocks

(EXAMPLE,) = blocks("docs/publish.md", "yaml")
DAY = date(2026, 2, 3)
OWN = {**fake_results.TINY, "data": {"source": "meters", "states": ["all"], "clients": 2}}


def finished(folder: Path, config: dict[str, Any]) -> Path:
    """A finished study with synthetic numbers and empty pictures; its results folder."""
    results, figures = folder / "results" / "tiny", folder / "figures" / "tiny"
    fake_results.write(results, config)
    fake_results.pictures(figures)
    page.write(results, figures, results / "index.html")
    return results


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished(tmp_path_factory.mktemp("sample") / "work", fake_results.TINY)


@pytest.fixture(scope="module")
def cited(tmp_path_factory: pytest.TempPathFactory) -> Citation:
    path = tmp_path_factory.mktemp("citation") / "CITATION.cff"
    path.write_text(EXAMPLE, encoding="utf-8")
    return read_citation(path)


@pytest.fixture(scope="module")
def crate(results: Path, cited: Citation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    to = tmp_path_factory.mktemp("crates") / "tiny"
    publish(results, to, cited, DAY)
    return to


@pytest.fixture
def own(results: Path, tmp_path: Path) -> Path:
    """A copy of the results that a test may change."""
    shutil.copytree(results.parents[1], tmp_path, dirs_exist_ok=True)
    return tmp_path / "results" / "tiny"


def entities(crate: Path) -> dict[str, dict[str, Any]]:
    document = json.loads((crate / "ro-crate-metadata.json").read_text(encoding="utf-8"))
    assert document["@context"][0] == "https://w3id.org/ro/crate/1.1/context"
    found = {entity["@id"]: entity for entity in document["@graph"]}
    assert len(found) == len(document["@graph"])  # every @id once
    return found


def references(value: object) -> list[str]:
    if isinstance(value, list):
        return [name for part in value for name in references(part)]
    return [value["@id"]] if isinstance(value, dict) else []


def files(crate: Path) -> set[str]:
    return {path.relative_to(crate).as_posix() for path in crate.rglob("*") if path.is_file()}


def test_every_file_is_listed_with_its_digest_as_another_program_reads_it(crate: Path) -> None:
    read = ROCrate(crate)
    assert read.root_dataset["license"].id == "https://spdx.org/licenses/CC-BY-4.0"
    found = entities(crate)
    listed = {part.id for part in read.root_dataset["hasPart"]}
    assert listed == files(crate) - {"ro-crate-metadata.json"}
    for name in listed:
        content = (crate / name).read_bytes()
        assert found[name]["sha256"] == hashlib.sha256(content).hexdigest()
        assert found[name]["description"]


def test_the_configuration_repeats_the_study(crate: Path, results: Path) -> None:
    recorded = json.loads((results / "study.json").read_text(encoding="utf-8"))["study"]
    assert Study.load(crate / "study.yaml") == Study.parse(recorded, "recorded")
    requirements = (crate / "requirements.txt").read_text(encoding="utf-8")
    assert requirements.splitlines() == ["# Python unknown", "plfl==0.1.0  # commit 0123abc"]


def test_an_archive_has_the_files_of_the_folder(results, crate, cited, tmp_path):
    publish(results, tmp_path / "one.zip", cited, DAY)
    with zipfile.ZipFile(tmp_path / "one.zip") as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
        assert names == files(crate)
        for name in names:
            assert archive.read(name) == (crate / name).read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["one.zip"]
    with naming(PlflError, "one.zip", "exists already"):
        publish(results, tmp_path / "one.zip", cited, DAY)


def test_readings_of_own_meters_stay(cited, tmp_path, monkeypatch):
    drawn_figures = {"fig2_bytes": ("fig2_bytes",)}  # drawing all of them takes long
    monkeypatch.setattr("plfl.report.figures.available", lambda study=None: drawn_figures)
    results = finished(tmp_path, OWN)
    shown = pd.read_parquet(results / "forecasts.parquet")
    report = (results / "index.html").read_text(encoding="utf-8")
    (said,) = publish(results, tmp_path / "crate", cited, DAY)
    assert "mean, standard deviation and span of each load remain" in said
    tables = ["forecasts", "baseline_forecasts"]
    for name in (f"{table}.parquet" for table in tables):
        table = pd.read_parquet(tmp_path / "crate" / name)
        assert table.empty
        assert list(table) == list(pd.read_parquet(results / name))
    anew = (tmp_path / "crate" / "index.html").read_text(encoding="utf-8")
    stamp = f"{shown['stamp'].iloc[0]:%Y-%m-%d}"
    assert stamp in report  # the day on which the shown week begins
    assert stamp not in anew
    assert "SHA-256" in anew  # the page is whole
    drawn = {path.stem for path in (tmp_path / "crate" / "figures").iterdir()}
    assert drawn == {"fig2_bytes"}
    description = entities(tmp_path / "crate")["./"]["description"]
    assert "not included" in description and "standard deviation and span" in description


def record(results: Path, **about: Any) -> None:
    """Write keys of study.json."""
    path = results / "study.json"
    before = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(before | about), encoding="utf-8")


def test_code_that_the_study_names_is_included(results, cited, tmp_path, monkeypatch):
    own = shutil.copytree(results.parents[1], tmp_path / "work") / "results" / "tiny"
    monkeypatch.chdir(tmp_path / "work")
    study = json.loads((own / "study.json").read_text(encoding="utf-8"))["study"]
    code = "from plfl.optimizers.server.fedavg import FedAvg\n\nclass Bare(FedAvg):\n"
    code += "    'Nothing.'\n\n    name = 'bare'\n"
    for file in (Path("../beside/bare.py"), Path("mine/bare.py")):
        file.parent.mkdir()
        file.write_text(code)
        plugins.trust(file)
    record(own, study={**study, "plugins": ["mine/bare.py"]})
    publish(own, Path("crate"), cited, DAY)
    record(own, study={**study, "plugins": ["../beside/bare.py"]})
    with naming(ResultsError, "beside", "move it there"):
        publish(own, Path("other"), cited, DAY)
    assert Path("crate/mine/bare.py").read_text() == code
    assert "mine/bare.py" in references(entities(Path("crate"))["#run"]["object"])
    monkeypatch.chdir("crate")
    assert Study.load(Path("study.yaml")).plugins == [Path("mine/bare.py")]


def test_what_lies_outside_is_refused(own, cited, tmp_path, monkeypatch):
    outside = tmp_path.parent / f"{tmp_path.name}.csv"
    outside.write_text("secret")
    monkeypatch.chdir(tmp_path)
    (own / "best.csv").symlink_to(outside)
    with naming(ResultsError, f"{tmp_path.name}/results/tiny/best.csv", "outside of the results"):
        publish(own, Path("crate"), cited, DAY)


def test_what_the_study_did_not_write_stays(own: Path, crate: Path, cited: Citation) -> None:
    """Such as forecasts of a home that were written into the results folder."""
    for name in ("next.csv", "next.parquet"):
        (own / name).write_bytes(b"timestamp,client,forecast")
    publish(own, own.parent / "crate", cited, DAY)
    assert files(own.parent / "crate") == files(crate)


def test_what_was_read_is_named(own, cited, tmp_path):
    record(own, sources={"CA": {"files": {"meters/school.csv": "0" * 64}}})
    publish(own, tmp_path / "crate", cited, DAY)
    found = entities(tmp_path / "crate")
    assert "#meters/school.csv" in references(found["#run"]["object"])
    assert found["#meters/school.csv"]["sha256"] == "0" * 64


@pytest.mark.parametrize(
    "about",
    [
        {"sources": {"../../esc": {"files": {}}}},
        {"variants": {"..": {}}},
        {"sources": {"CA": {"files": {"a": 1}}}},
        {"study": {"name": "a/.."}},
    ],
)
def test_names_cannot_leave_the_crate(about, own, cited, tmp_path):
    record(own, **about)
    with naming(PlflError, "study.json"):
        publish(own, tmp_path / "new", cited, DAY)
    assert not list(tmp_path.glob(".tmp-*")) and not (tmp_path / "new").exists()


def test_models_are_included_on_demand(own, cited, crate, tmp_path):
    with naming(ResultsError, own, "--models"):
        publish(own, tmp_path / "new", cited, DAY, includes_models=True)
    (own / "models").mkdir()
    (own / "models" / "CA-P2.safetensors").write_bytes(b"rows")
    errors = {f"models/{name}" for name in ("lead_times.csv", "new_meters.csv", "sums.csv")}
    for name in errors:
        (own / name).write_text("state\nCA\n")
    publish(own, tmp_path / "without", cited, DAY)
    assert files(tmp_path / "without") - files(crate) == errors
    publish(own, tmp_path / "new", cited, DAY, includes_models=True)
    assert files(tmp_path / "new") - files(crate) == {"models/CA-P2.safetensors", *errors}


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("summary.csv", [0, 200, None]),
        ("forecasts.parquet", [0, 200]),
        ("records.parquet", [200]),
        ("index.html", [None]),
    ],
)
def test_a_damaged_or_missing_file_is_refused(name, sizes, own, cited, tmp_path):
    whole = (own / name).read_bytes()
    for size in sizes:
        (own / name).unlink() if size is None else (own / name).write_bytes(whole[:size])
        with naming(ResultsError, name):
            publish(own, tmp_path / "new", cited, DAY)
        assert not (tmp_path / "new").exists()
        assert not list(tmp_path.glob(".tmp-*"))


def test_the_command(results, here, invoke):
    assert "holds no study" in invoke("publish", "results/none", "--to", "tiny.zip", status=2).err
    assert (
        "CITATION.cff: cannot be used" in invoke("publish", results, "--to", "a.zip", status=2).err
    )
    Path("CITATION.cff").write_text(EXAMPLE, encoding="utf-8")
    assert invoke("publish", results, "--to", "a.zip").out == "wrote a.zip, licence CC-BY-4.0\n"


@pytest.mark.parametrize(
    ("text", "lacking"),
    [
        ("title: a\nlicense: MIT", "authors"),
        ("authors: [{name: a}]", "title"),
        ("title: a\nauthors: [{affiliation: a}]\nlicense: MIT", "each needs a name"),
        ("- a", "the file"),
        ("a: [", "cannot be used"),
    ],
)
def test_what_a_citation_lacks_is_named(text: str, lacking: str, tmp_path: Path) -> None:
    path = tmp_path / "CITATION.cff"
    path.write_text(text, encoding="utf-8")
    with naming(PlflError, path, lacking):
        read_citation(path)


def test_the_repositorys_own_citation() -> None:
    found = read_citation(ROOT / "CITATION.cff")
    assert (found.authors, found.license) == ([{"name": "The plfl developers"}], "MIT")


def private_study(**federation: Any) -> dict[str, Any]:
    """A study of two rounds, z = 1, whose participants are drawn."""
    block = {"clip": 1.0, "noise": 1.0, "delta": 0.1}
    drawn = {"participation": 0.5, "selection": "poisson", "privacy": block} | federation
    return fake_results.TINY | {"federation": fake_results.TINY["federation"] | drawn}


def delta_by_hand(epsilon: float, mu: float) -> float:
    """δ of T Gaussian releases together: μ = √T / z (Dong et al. 2022, corollary 2.13)."""
    cdf = NormalDist().cdf
    return cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * cdf(-mu / 2 - epsilon / mu)


def test_a_private_study_is_published_with_the_epsilon_of_known_draws(cited, tmp_path, monkeypatch):
    # What an accountant of secret draws would say.
    monkeypatch.setattr(statement, "bounds", lambda rounds, delta: [Bound(0.01, "PLD")])
    results = finished(tmp_path, private_study())
    (text,) = publish(results, to := tmp_path / "crate", cited, DAY)
    assert text in (to / "ro-crate-metadata.json").read_text(encoding="utf-8")
    epsilon = float(re.search(r"known draws, ([\d.]+) at δ = 0.1 in each cell", text)[1])
    # With two rounds, in both of which a client may have been.
    assert delta_by_hand(epsilon, math.sqrt(2)) == pytest.approx(0.1, rel=0.01)
    secret = statement.statements(Tables(results).study)["epsilon"]
    assert set(secret) == {0, 0.01}, "which does not hold for readers"
    assert "readers can remove the noise" in text
    pd.testing.assert_frame_equal(
        pd.read_parquet(to / "records.parquet"), pd.read_parquet(results / "records.parquet")
    )


def test_the_noise_of_a_deployed_study_cannot_be_computed(cited, tmp_path):
    results = finished(tmp_path, private_study())
    about = json.loads((results / "study.json").read_text())
    (results / "study.json").write_text(json.dumps(about | {"engine": "flower"}))
    (text,) = publish(results, tmp_path / "crate", cited, DAY)
    assert "ε is that of known draws" in text and "seeds" not in text


@pytest.mark.parametrize("block", [{}, {"clip": 1.0, "noise": 0.0}])
def test_a_study_without_noise_states_no_epsilon(block, cited, tmp_path):
    results = finished(tmp_path, private_study(privacy=block, participation=1.0))
    assert publish(results, tmp_path / "crate", cited, DAY) == []
