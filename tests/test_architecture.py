"""docs/architecture.md lists every package as a layer, and imports go down the layers.

Every import counts: those inside functions and, but for `plfl/interfaces`, those for type checkers.
"""

import ast
import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from plfl.plugins import KINDS_BY_PACKAGE, registry
from tests.helpers import file_list

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"
INTERFACES = "plfl.interfaces"
"""Abstract classes, whose annotations name types of the layers above for type checkers alone."""
API = "plfl"
"""`plfl/__init__.py` offers names of several layers and belongs to none."""


def layers(page: str) -> list[str]:
    """The packages on the page, top first: the first word of each line that is not indented."""
    listed = page.partition("## Packages")[2].partition("```text\n")[2].partition("```")[0]
    return [line.split()[0] for line in listed.splitlines() if line[:1].strip()]


def package(module: str) -> str:
    """The package or loose module of `plfl/` that a module belongs to."""
    return module.split(".")[1]


@cache
def modules() -> dict[str, Path]:
    """Files of plfl by the name under which they are imported."""
    found = {}
    for path in (ROOT / "plfl").rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imports() -> dict[str, set[str]]:
    """What each module imports from plfl; an attribute counts as the module that has it."""
    found: dict[str, set[str]] = {}
    for module, path in modules().items():
        names = list(imported(path, has_types=module.startswith(INTERFACES)))
        found[module] = {nearest(name) for name in names if name.split(".")[0] == "plfl"}
        found[module] -= {module, API}
    del found[API]
    return found


@cache
def parsed(path: Path) -> ast.Module:
    """The syntax tree of a file, which nobody changes."""
    return ast.parse(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module", autouse=True)
def trees_of_these_tests() -> Iterator[None]:
    """The syntax trees, which are large, are gone after the last test of this file."""
    yield
    parsed.cache_clear()


@cache
def imported(path: Path, has_types: bool = False) -> list[str]:
    """The names that a file imports; `has_types`: but for those that only type checkers import."""
    names: list[str] = []
    body = parsed(path).body
    if has_types:
        body = [node for node in body if not is_for_type_checkers(node)]
    for node in (inner for statement in body for inner in ast.walk(statement)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}:{node.lineno}: write the whole name of the module"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def is_for_type_checkers(node: ast.stmt) -> bool:
    """Whether a statement is a block `if TYPE_CHECKING:`."""
    return (
        isinstance(node, ast.If)
        and isinstance(node.test, ast.Name)
        and node.test.id == "TYPE_CHECKING"
    )


def nearest(name: str) -> str:
    """The module that a dotted name is, or is defined in."""
    while name not in modules():
        name = name.rpartition(".")[0]
    return name


def cycle(graph: dict[str, set[str]]) -> list[str] | None:
    """The first cycle of a graph."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return None


def upward(graph: dict[str, set[str]], order: list[str]) -> list[str]:
    """Imports from a package in a higher layer."""
    level = {name: i for i, name in enumerate(order)}
    return sorted(
        f"{module} imports {other}"
        for module, others in graph.items()
        for other in others
        if level[package(other)] < level[package(module)]
    )


def test_the_page_lists_every_package_once() -> None:
    names = layers(PAGE.read_text(encoding="utf-8"))
    assert sorted(names) == sorted({package(module) for module in imports()})


def test_the_page_lists_every_file_as_its_docstring_says() -> None:
    assert file_list.written() == file_list.section(), "python -m tests.helpers.file_list writes it"


def test_the_reading_path_begins_at_the_plain_round_and_is_short() -> None:
    section = (
        PAGE.read_text(encoding="utf-8").partition("## Where to begin\n")[2].partition("\n## ")[0]
    )
    path = [ROOT / "examples" / "plain_round.py"]
    assert section.strip().startswith("[`examples/plain_round.py`](../examples/plain_round.py)")
    assert lines_of(path[0]) <= 60
    steps = [row.split("|")[2] for row in section.splitlines() if row.startswith("| ")][1:]
    path += [ROOT / name for step in steps for name in re.findall("`(.*?)`", step)]
    assert len(path) == len({*path})
    made = ["config/federation", "experiments/train", "federated/round", "experiments/evaluation"]
    made += ["experiments/evaluated_forecasts", "tasks/metrics", "experiments/recorder"]
    made += ["results/records", "results/collect"]
    files = [ROOT / "plfl" / f"{name}.py" for name in made]
    assert [file for file in path if file in files] == files, "the way of one number"
    total = sum(map(lines_of, path))
    assert total <= 9_000
    (stated,) = re.findall(r"about ([\d,]+) lines", section)
    assert abs(total - int(stated.replace(",", ""))) <= 200, total


def lines_of(path: Path) -> int:
    """How many lines a file has."""
    return len(path.read_text(encoding="utf-8").splitlines())


def test_no_import_points_upwards() -> None:
    assert upward(imports(), layers(PAGE.read_text(encoding="utf-8"))) == []


def test_plfl_does_not_import_the_packages_beside_it() -> None:
    for path in modules().values():
        assert not [name for name in imported(path) if name.startswith("plfl_")], path


def test_no_files_import_each_other_in_a_cycle() -> None:
    assert cycle(imports()) is None


def test_every_module_can_be_imported() -> None:
    # A name that only type checkers know, in a signature, shows when its module is imported.
    extras = {"flwr", "cryptography"}
    for name in sorted(modules()):
        if name == "plfl.__main__":  # runs the command
            continue
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            assert error.name is not None and error.name.partition(".")[0] in extras, name


def test_nothing_inside_imports_the_api() -> None:
    own = {"plfl.__version__"}
    for path in modules().values():
        names = {n for n in imported(path) if n.startswith("plfl.") and nearest(n) == API}
        assert names <= own, path


def test_reading_a_study_imports_what_it_names_only() -> None:
    """Of every kind, with the classes from which it derives."""
    code = """
import sys
from plfl.study import Study
study = Study.load("config/smoke.yaml")
assert study.cells
print(*sys.modules)
algorithms = [type(algorithm) for _, algorithm in study.plan.combinations.algorithms]
classes = [*algorithms, type(study.model), type(study.task), study.data.source_class]
print(*{parent.__module__ for cls in classes for parent in cls.__mro__})
"""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code]
    output = subprocess.check_output(command, cwd=ROOT, env=environment, text=True)
    imported_names, named = ({*line.split()} for line in output.splitlines())
    assert not imported_names & {"torch", "pandas"}
    assert named >= {"plfl.methods.fedopt", "plfl.optimizers.client.prox", "plfl.models.lstm_mlp"}
    for room in KINDS_BY_PACKAGE:
        of_room = {name for name, file in registry.files(room).items() if file in imported_names}
        algorithms = {name for name in of_room if registry.algorithm(room, name)}
        unnamed = {registry.files(room)[name] for name in algorithms} - named
        assert unnamed == set(), room


def test_no_test_imports_another_test_module() -> None:
    """What tests share stands in `tests/helpers` and, if fixtures, in a `conftest.py`."""
    found = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for name in imported(path)
        if re.match(r"tests\.(?!helpers\b)|(conftest|test_\w+)\b", name)
    ]
    assert found == []


def test_what_the_author_of_a_plug_in_reads_is_short() -> None:
    files = (ROOT / "plfl" / "interfaces").glob("*.py")
    lengths = {file.name: len(file.read_text(encoding="utf-8").splitlines()) for file in files}
    assert {name: length for name, length in lengths.items() if length > 150} == {}


def test_arguments_in_docstrings_are_those_of_the_function() -> None:
    """`name`: begins what a function says of an argument, or of a name in its body."""
    described = re.compile(r"(?:^|[.;:]\s+)`(\w+)`(?: \([^)]*\))?:\s")
    unknown = []
    for name, path in modules().items():
        for function in ast.walk(parsed(path)):
            if not isinstance(function, ast.FunctionDef):
                continue
            about_arguments = (ast.get_docstring(function) or "").partition("Returns:")[0]
            if names := {*described.findall(about_arguments)}:
                signature, body = ast.unparse(function.args), map(ast.unparse, function.body[1:])
                known = {*re.findall(r"\w+", " ".join([signature, *body]))}
                unknown += [f"{name}.{function.name}: {argument}" for argument in names - known]
    assert not unknown


def test_names_in_docstrings_exist() -> None:
    """A `name` in a docstring stands in the code, or is that of a file. Columns that are made of a
    name and a number or an ending are left out, and so are names of others."""
    names_of_others = {"SplitInfo", "use_attribute_docstrings"}
    names_of_others |= {"GasUsage", "GasUsageKwh", "homes_hourly_kwh", "KIND.NAME.KEY"}
    docstring, name = re.compile(r'"""(.*?)"""', re.DOTALL), re.compile(r"`([A-Za-z_][\w.]*)`")
    composed = re.compile(r"\w*\d\w*|\w+_(lower|upper|mean|best)")
    texts = {path: path.read_text(encoding="utf-8") for path in modules().values()}
    known = {part for path in ROOT.glob("plfl*/**/*") for part in (path.stem, *path.suffixes)}
    known |= {"setup", "py"}.union(
        *(re.findall(r"\w+", docstring.sub("", t)) for t in texts.values())
    )
    unknown = [
        f"{path.relative_to(ROOT)}: {words}"
        for path, text in texts.items()
        for words in name.findall("".join(docstring.findall(text)))
        if words not in names_of_others and not composed.fullmatch(words)
        if not {*words.split(".")} <= known
    ]
    assert unknown == []


def test_no_class_has_more_than_twenty_public_methods() -> None:
    """Inherited ones included, but for the hooks of plug-ins."""
    names_of: dict[str, set[str]] = {}
    hooks_of: dict[str, set[str]] = {}
    bases_of: dict[str, list[str]] = {}
    for module, file in modules().items():
        for node in ast.walk(parsed(file)):
            if isinstance(node, ast.ClassDef):
                functions = [part for part in node.body if isinstance(part, ast.FunctionDef)]
                names = {part.name for part in functions if not part.name.startswith("_")}
                assert len(names) <= 20, f"{module}.{node.name}: {len(names)} public methods"
                names_of[node.name] = names
                hooks_of[node.name] = names if module.startswith(INTERFACES) else set()
                bases_of[node.name] = [ast.unparse(base) for base in node.bases]

    def inherit(own: dict[str, set[str]], name: str) -> set[str]:
        return own.get(name, set()).union(*(inherit(own, base) for base in bases_of.get(name, [])))

    counts = {name: len(inherit(names_of, name) - inherit(hooks_of, name)) for name in names_of}
    assert {name: count for name, count in counts.items() if count > 20} == {}


def test_a_name_of_a_type_is_given_once() -> None:
    """One noun names one type, whether a class or an alias, public or of one file."""
    places: dict[str, list[str]] = {}
    for module, file in modules().items():
        classes = [node for node in ast.walk(parsed(file)) if isinstance(node, ast.ClassDef)]
        names = [node.name.lstrip("_") for node in classes]
        for node in parsed(file).body:
            target = node.targets[0] if isinstance(node, ast.Assign) else None
            target = node.target if isinstance(node, ast.AnnAssign) else target
            if isinstance(target, ast.Name) and re.match("_?[A-Z].*[a-z]", target.id):
                names.append(target.id.lstrip("_"))
        for name in names:
            places.setdefault(name, []).append(module)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
