"""What is generated from the configuration's models is what is committed."""

import json
import re
import tomllib
from pathlib import Path

import jsonschema
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import plfl
from plfl.config.tuning import Tuning
from plfl.data.meters.formats.reference import FORMAT_KEYS_PAGE, reference
from plfl.data.meters.formats.schema import shipped_formats
from plfl.study import Study
from plfl.study import generated as schema

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def generated() -> dict[str, str]:
    return schema.generate_files() | {FORMAT_KEYS_PAGE: reference()}


def test_the_committed_files_are_not_stale(generated: dict[str, str]) -> None:
    for name, text in generated.items():
        committed = (ROOT / name).read_text(encoding="utf-8")
        assert committed == text, f"{name}: run `plfl schema` and commit what it writes"


def test_config_yaml_is_the_default_study_with_three_seeds_and_rates_to_choose() -> None:
    """It names what the paper fixes: a new default cannot change the paper's study."""
    raw = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
    study = Study.parse(raw, "config.yaml")
    plain = {"tuning": Tuning(), "grid": study.grid.model_copy(update={"seeds": [10]})}
    plain["claims"] = []
    defaults = Study.parse({"federation": {"evaluate_every": 10}}, "the defaults")
    assert study.model_copy(update=plain) == defaults
    assert study.grid.seeds == [10, 11, 12]
    for cell in study.cells:
        candidates = study.plan.candidates(cell)
        own, other = (
            [getattr(candidate, kind).lr for candidate in candidates]
            for kind in ("client_opt", "server_opt")
        )
        if study.plan.trains_alone(cell):
            own, other = other, own
        server_rates = (
            [3e-4, 3e-3, 3e-2] if cell.server_opt == "fedavgadaptive" else [0.01, 0.1, 1.0]
        )
        assert other == ([3e-4, 1e-3, 3e-3] if study.plan.trains_alone(cell) else server_rates)
        assert len(set(own)) == 1
        # What the study has by itself is within what is tried.
        rates = (
            study.hyperparameters.find_client_opt(cell.client_opt),
            study.hyperparameters.find_server_opt(cell.server_opt),
        )
        assert min(other) <= rates[not study.plan.trains_alone(cell)].lr <= max(other)


def test_the_reference_has_every_key_with_its_meaning(generated: dict[str, str]) -> None:
    rows = re.findall(r"^\| (.*) \|$", generated["docs/configuration.md"], re.MULTILINE)
    assert all(row.split(" | ")[-1] for row in rows)


def test_the_reference_of_formats_has_every_key_with_its_meaning(
    generated: dict[str, str],
) -> None:
    rows = re.findall(r"^\| `(\w+).* \| (.*) \|$", generated[FORMAT_KEYS_PAGE], re.MULTILINE)
    assert all(meaning for _, meaning in rows)
    keys = {key for key, _ in rows}
    used = {key for form in shipped_formats().values() for key in form.time.model_fields_set}
    assert {"name", "header", "registers", "only_first", "kwh", *used} <= keys


def test_the_schema_accepts_what_the_models_accept(generated: dict[str, str]) -> None:
    content = json.loads(generated["workflow/schemas/config.schema.json"])
    validator = jsonschema.Draft202012Validator(content)
    for path in [ROOT / "config.yaml", *(ROOT / "config").glob("*.yaml")]:
        validator.validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    assert list(validator.iter_errors({"federation": {"roundz": 3}}))


CONDA_NAMES = {
    "torch": "pytorch",
    "matplotlib": "matplotlib-base",
    "seaborn": "seaborn-base",
    "snakemake": "snakemake-minimal",
}


def developed_with() -> list[Requirement]:
    """What a developer of plfl needs beside an extra for the deployment."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    texts = [*project["dependencies"], *extras["study"], *extras["comstock"], *extras["dev"]]
    return [one for one in map(Requirement, texts) if not one.marker or one.marker.evaluate()]


def test_environment_yml_asks_for_what_pyproject_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    listed = dict(
        line.partition(" ")[::2] for line in environment["dependencies"] if isinstance(line, str)
    )
    wanted = {"python": project["requires-python"]}
    # The tests run there, except those that skip themselves without a package.
    not_for_tests = {"ruff", "clang-format", "mypy", "snakefmt", "playwright", "constriction"}
    not_for_tests |= {"fracast", "mlcroissant"}  # only on PyPI
    for requirement in developed_with():
        if requirement.name in not_for_tests or re.match("types-|.*-stubs", requirement.name):
            continue
        wanted[CONDA_NAMES.get(requirement.name, requirement.name)] = str(requirement.specifier)
    # Options of pip do not go with `--editable` in a file; conda has met the dependencies.
    assert environment["dependencies"][-1] == {"pip": ["--editable ."]}
    tools = {"cxx-compiler", "make", "pip", "flask", "flask-cors"}  # pip: moto[server]
    assert listed.keys() - tools == wanted.keys()
    for name, specifier in wanted.items():
        assert SpecifierSet(listed[name]) == SpecifierSet(specifier), name


def test_the_conda_recipe_asks_for_what_the_core_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    recipe = yaml.safe_load((ROOT / "release" / "recipe.yaml").read_text(encoding="utf-8"))
    assert recipe["context"]["version"] == plfl.__version__
    listed = dict(line.partition(" ")[::2] for line in recipe["requirements"]["run"])
    wanted = {"python": ""}  # conda-forge chooses those that it builds for
    for requirement in map(Requirement, project["dependencies"]):
        if not requirement.marker or requirement.marker.evaluate({"sys_platform": "linux"}):
            name = CONDA_NAMES.get(requirement.name, requirement.name)
            wanted[name] = str(requirement.specifier)
    assert listed.keys() == wanted.keys()
    for name, specifier in wanted.items():
        assert SpecifierSet(listed[name]) == SpecifierSet(specifier), name


def test_the_lock_meets_pyproject() -> None:
    locks = ((ROOT / name).read_text("utf-8") for name in ("requirements.lock", "torch.lock"))
    locked = dict(re.findall(r"^([\w.-]+)==(\S+)", "".join(locks), re.MULTILINE))
    for requirement in developed_with():
        name = requirement.name.lower()
        assert requirement.specifier.contains(locked[name]), f"run `make lock` for {name}"
