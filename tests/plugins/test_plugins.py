"""Plug-ins: a user's own files, and modules of installed packages."""

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from plfl import plugins
from plfl.base.errors import ConfigError
from plfl.experiments.baselines import evaluate
from plfl.experiments.train import train
from plfl.interfaces.baseline import FitSettings
from plfl.optimizers.client.sgd import Sgd
from plfl.optimizers.server.fedavg import FedAvg
from plfl.pipeline.jobs import job
from plfl.pipeline.training_jobs import training_code
from plfl.plugins import registry
from plfl.results.words import baseline_label
from plfl.study import Study
from tests.helpers import tiny
from tests.helpers.problems import trajectory
from tests.helpers.refusals import naming
from tests.helpers.repository import blocks

CELL = "P2-clipped-signum-fedavg-10"


def example(guide: str, place: int = 0) -> str:
    """A Python example of a guide, by default the first."""
    return blocks(guide, "python")[place]


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is plugged in before a test or after it."""
    monkeypatch.setattr(registry, "PLUGGED", {})
    plugins.packaged_plugins.cache_clear()
    yield
    plugins.packaged_plugins.cache_clear()


class Project:
    """A study with the plug-ins of the guides, in a folder below the current one."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.write("clipped.py", example("docs/add-an-algorithm.md"))
        self.write("signum.py", example("CONTRIBUTING.md"))
        self.raw: dict[str, Any] = {
            "plugins": ["clipped.py", "signum.py"],
            "data": {"source": "sample", "states": ["NY"], "clients": 3},
            "grid": {"method": ["clipped"], "client_opt": ["signum"], "server_opt": ["fedavg"]},
        }

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(textwrap.dedent(text), encoding="utf-8")

    def load(self, **blocks: Any) -> Study:
        self.write("my.yaml", yaml.safe_dump(self.raw | blocks))
        return Study.load(self.folder / "my.yaml")


@pytest.fixture
def project(here: Path) -> Project:
    (here / "mine").mkdir()
    return Project(here / "mine")


def test_a_study_can_name_what_its_plugins_define(project: Project) -> None:
    keys = {"method": {"clipped": {"bound": 0.5}}}
    study = project.load(hyperparameters=keys)
    assert study.plugins == [Path("mine/clipped.py"), Path("mine/signum.py")]
    cell = next(cell for cell in study.cells if str(cell).endswith(CELL))
    assert study.hyperparameters.find_method(cell.method).model_dump() == {"bound": 0.5}
    assert study.hyperparameters.find_client_opt(cell.client_opt).lr == 1e-4
    assert study.description()["hyperparameters"]["method"]["clipped"] == {"bound": 0.5}
    # Its description, as the results and deployed processes have it, is the same study.
    assert Study.parse(study.model_dump(mode="json"), "again") == study


def test_the_example_method_bounds_what_a_client_moves(project: Project) -> None:
    study = project.load(hyperparameters={"method": {"clipped": {"bound": 0.2}}})
    *_, last = trajectory(
        Sgd(lr=0.1), FedAvg(), study.hyperparameters.find_method(study.cells[0].method), rounds=1
    )
    # Q2: the clients move by −0.38 and −0.64; both are cut to −0.2.
    assert last.x.item() == pytest.approx(1.8)
    traffic = last.report.traffic
    assert traffic["bytes_up"].tolist() == [8 + 4, 8 + 4]
    assert traffic["extras_up"].tolist() == [4, 4]


def test_a_changed_plugin_trains_its_cells_again(project: Project) -> None:
    def settings() -> dict[str, tuple[dict[str, Any], str]]:
        study = project.load(grid={"method": ["clipped", "fedopt"], "client_opt": ["sgd"]})
        return {
            f"{cell.sharing}-{cell.method}": (
                study.plan.settings(cell),
                training_code(study, [cell]),
            )
            for cell in study.cells
        }

    before = settings()
    project.write("clipped.py", example("docs/add-an-algorithm.md") + "\n# A change.\n")
    after = settings()
    changed = {cell for cell in before if before[cell] != after[cell]}
    assert changed == {"P1-clipped", "P2-clipped"}, "P3 has no server, fedopt is no plug-in"


def test_a_codec_of_a_plugin_codes_messages_and_is_part_of_the_code(project: Project) -> None:
    """The example of docs/channel.md."""

    def load(up: str, changed: str = "") -> Study:
        project.write("half.py", example("docs/channel.md", -1) + changed)
        grid = {"client_opt": ["adam"], "server_opt": ["fedavg"], "sharing": ["P2"]}
        return project.load(plugins=["half.py"], grid=grid, channel={"up": up})

    plain, changed = (
        study.plan.settings(study.cells[0])
        for study in (load("half", text) for text in ("", "\n# Changed.\n"))
    )
    assert plain != changed
    for up in ("half", "ef21+half"):
        channel = load(up).channel
        study = tiny.study(channel=channel.model_dump(), grid={"client_opt": ["adam"]})
        cell = next(cell for cell in study.cells if cell.sharing == "P2")
        records = train(study, [cell], tiny.dataset())[cell].records
        trained = records.query("split == 'train' and model == 'local'")
        assert (trained["bytes_up"] > 0).all()
        # P2 has four tensors.
        assert (trained["bytes_up"] == trained["bytes_down"] / 2 + 4 * 4).all()
        assert records.query("split == 'test'")["mase"].notna().all()
    with naming(ConfigError, "'f5' is no codec"):
        load("f5")


def test_a_job_knows_the_plugins_of_the_workflow(project: Project, tmp_path: Path) -> None:
    """The Snakefile gives jobs the paths from the working directory, where jobs start."""
    config = project.raw | {"plugins": list(map(str, project.load().plugins))}
    registry.PLUGGED.clear()
    run = SimpleNamespace(config=config, log=[str(tmp_path / "log")], wildcards={})
    with job(run) as study:
        assert study == project.load()


def test_all_problems_are_reported_at_once(project: Project) -> None:
    project.write("broken.py", "import os\nx = unknown\n")
    project.write("wrong.py", "def f(:\n    pass\n")
    project.write("empty.py", "x = 1\n")
    project.write("twin.py", example("CONTRIBUTING.md"))
    project.write("taken.py", example("CONTRIBUTING.md").replace('"signum"', '"adam"'))
    misspelt = example("CONTRIBUTING.md").replace('"signum"', '"sign"').replace("init(", "initt(")
    project.write("misspelt.py", misspelt)
    project.write("lacking.py", example("CONTRIBUTING.md").replace("step(", "step_of_mine("))
    names = ["signum", "lacking", "misspelt", "broken", "wrong", "empty", "twin", "taken"]
    told = (
        "plugins: mine/broken.py, line 2 cannot be imported: NameError: name 'unknown'",
        "plugins: mine/wrong.py, line 1 cannot be imported: SyntaxError: ",
        "plugins: mine/empty.py defines nothing that plfl knows",
        "mine/twin.py defines the local optimiser signum, as mine/signum.py does; rename one",
        "mine/taken.py defines the local optimiser adam, as plfl does; rename one",
        "plugins: mine/none.py: the file does not exist; correct the path",
        "mine/misspelt.py: Signum.initt is never called; did you mean 'init'?",
        "mine/lacking.py: Signum lacks step",
        "plugins: mine/notes.txt is not a Python file",
    )
    with naming(ConfigError, *told):
        project.load(plugins=[f"{name}.py" for name in names] + ["none.py", "notes.txt"])
    # A function of its own may have any name that begins with a line.
    project.write("misspelt.py", misspelt.replace("initt(", "_initt("))
    project.load(plugins=["misspelt.py"], grid={"method": ["fedopt"], "client_opt": ["sign"]})
    # A plug-in that cannot be imported may define what is unknown.
    with pytest.raises(ConfigError) as error:
        project.load(plugins=["none.py"])
    assert len(error.value.problems) == 1


def test_a_baseline_can_be_a_plugin(project: Project) -> None:
    project.write("damped.py", example("docs/baselines.md"))
    named = {"further": [{"name": "damped", "weight": 1.0}]}
    study = project.load(plugins=["damped.py"], baselines=named, grid={})
    assert Study.parse(study.model_dump(mode="json"), "again") == study
    few = FitSettings(trees=5)
    table = evaluate("XX", tiny.dataset(), few, additional=study.baselines.further).scores
    assert (table.query("baseline == 'damped' and client == 'a'")["mase"] == 1).all()
    assert baseline_label("damped") == "Damped"
    unknown = {"further": [{"name": "dampd"}, {"name": "damped", "wight": 1}]}
    with naming(ConfigError, "'damped'", "'weight'"):
        project.load(plugins=["damped.py"], baselines=unknown, grid={})
    project.write("ridge.py", example("docs/baselines.md").replace('"damped"', '"ridge"'))
    with pytest.raises(ConfigError, match="defines the baseline ridge, as plfl does"):
        project.load(plugins=["ridge.py"], grid={})


def test_models_can_be_plugins(project: Project) -> None:
    project.write(
        "more.py",
        '''
        """A linear model."""

        from torch import nn

        from plfl.models import Model


        class Net(nn.Module):
            def __init__(self, inputs):
                super().__init__()
                self.last = nn.Linear(inputs, 1)

            def forward(self, sequence, covariates):
                return self.last(sequence[:, -1])[:, 0]


        class Last(Model):
            """The last row, weighted."""

            name = "last"

            def build(self, shape):
                return Net(shape.inputs)
        ''',
    )
    blocks = {
        "plugins": ["more.py"],
        "model": {"name": "last"},
        "sharing": {"P1": ["*"]},
        "grid": {"sharing": ["P1"]},
    }
    study = project.load(**blocks)

    assert study.plan.layout.names == ["last.weight", "last.bias"]

    def code(study: Study) -> Any:
        return study.plan.settings(study.cells[0])["model"]["plugin"]

    before = code(study)
    project.write("more.py", (project.folder / "more.py").read_text() + "# A change.\n")
    study = project.load(**blocks)
    assert code(study) != before


def test_installed_packages_bring_plugins(project, tmp_path, monkeypatch, invoke):
    package, about = tmp_path / "site" / "gridopt", tmp_path / "site" / "gridopt-1.2.dist-info"
    package.mkdir(parents=True)
    about.mkdir()
    (package / "__init__.py").write_text("")
    (package / "signum.py").write_text(example("CONTRIBUTING.md"))
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: gridopt\nVersion: 1.2\n")
    (about / "entry_points.txt").write_text("[plfl.plugins]\nsignum = gridopt.signum\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    try:
        study = project.load(plugins=["clipped.py"])
        assert "signum" in study.plan.settings(study.cells[0])["plugins"]
        listed = yaml.safe_load(invoke("methods", "mine/my.yaml").out)
        assert listed["client_opt"]["signum"]["origin"] == "gridopt 1.2"
        assert listed["plug-ins"]["mine/clipped.py"] == ["method clipped"]
        with naming(ConfigError, "gridopt 1.2"):
            project.load()
    finally:
        for name in ("gridopt", "gridopt.signum"):
            sys.modules.pop(name, None)


def test_installed_packages_bring_files_that_are_read_when_they_are_named(tmp_path, monkeypatch):
    """A package whose folders are named like those of plfl, in the same group of entry points."""
    folder, about = (
        tmp_path / "gridroom" / "optimizers" / "client",
        tmp_path / "gridroom-1.dist-info",
    )
    folder.mkdir(parents=True)
    about.mkdir()
    for package in (folder, *folder.parents[:2]):
        (package / "__init__.py").write_text("")
    (folder / "signum.py").write_text(example("CONTRIBUTING.md"))
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: gridroom\nVersion: 1\n")
    (tmp_path / "gridroom" / "methods").mkdir()
    (tmp_path / "gridroom" / "methods" / "still.py").write_text("")
    (tmp_path / "gridroom" / "former").mkdir()
    (tmp_path / "gridroom" / "former" / "early.py").write_text("")
    points = "[plfl.plugins]\nall = gridroom\n[plfl.methods]\nold = gridroom.methods\n"
    points += "older = gridroom.former\n"
    (about / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(str(tmp_path))
    registry.find_entry_points.cache_clear()
    registry.files.cache_clear()
    module = "gridroom.optimizers.client.signum"
    try:
        assert registry.files("plfl.optimizers.client")["signum"] == module
        assert module not in sys.modules
        algorithm = registry.algorithm("plfl.optimizers.client", "signum")
        assert algorithm is not None
        assert (algorithm.__module__, plugins.find_plugin(algorithm)) == (module, None)
        assert "signum" not in registry.files("plfl.optimizers.server")
        assert registry.files("plfl.methods")["still"] == "gridroom.methods.still"  # named twice
        # By the group of former versions alone, one for each folder of plfl.
        assert registry.files("plfl.methods")["early"] == "gridroom.former.early"
        assert "early" not in registry.files("plfl.optimizers.client")
    finally:
        registry.find_entry_points.cache_clear()
        registry.files.cache_clear()
        for name in [name for name in sys.modules if name.partition(".")[0] == "gridroom"]:
            del sys.modules[name]
