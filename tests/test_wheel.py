"""The wheel of the sdist, installed beside nothing but its dependencies, is the whole product."""

import platform
import re

import pytest

from plfl import __version__
from plfl.training.native import flags
from tests.helpers.installed import Installed, write_study_with_plugin
from tests.helpers.repository import ROOT, tracked

SHIPPED = (
    "Snakefile",
    "config",
    "config.yaml",
    "docs",
    "leaderboard",
    "profiles",
    "tasks",
    "workflow",
)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("installed")
    compiler = folder / "compiler"  # takes no time; the campaign `wheel` uses a true one
    compiler.write_text('#!/bin/sh\nfor last; do :; done; echo "$@" > "$last"\n')
    compiler.chmod(0o755)
    return Installed(folder, str(compiler))


def test_it_has_every_file_that_the_product_needs(installed: Installed) -> None:
    package = installed.packages / "plfl"
    shipped = [file for file in tracked(*SHIPPED) if not file.startswith(("docs/images/",))]
    shipped = [file for file in shipped if not re.match(r"docs/.*\.(py|yaml)$", file)]
    wanted = {package / "shipped" / file for file in shipped}
    own = tracked("plfl", "plfl_images", "plfl_reproductions")
    wanted |= {package.parent / file for file in own}
    assert {path for path in wanted if not path.is_file()} == set()
    (points,) = installed.packages.glob("plfl-*.dist-info/entry_points.txt")
    assert "images-data = plfl_images.data\n" in points.read_text()


def test_its_page_on_pypi_has_links_that_lead_there(installed: Installed) -> None:
    (about,) = installed.packages.glob("plfl-*.dist-info/METADATA")
    page = about.read_text(encoding="utf-8")
    files = tracked()
    targets = re.findall(r"(!?)\[[^]]*\]\(([^)#\s]+)", page)
    root = "(github.com/.*/blob|raw.githubusercontent.com/.*)"
    own = [(mark, re.fullmatch(rf"https://{root}/v{__version__}/(.*)", t)) for mark, t in targets]
    assert all(match and match[2] in files for _, match in own if match), "of this version"
    assert all(target.startswith("https://") for _, target in targets)
    pictures = {match[2] for mark, match in own if mark and match and "raw" in match[1]}
    assert "docs/images/map.png" in pictures
    assert {"docs/findings.md", "CHANGELOG.md"} <= {match[2] for _, match in own if match}
    assert "Description-Content-Type: text/markdown" in page


def test_it_has_the_kernels_for_every_instruction_set(installed: Installed) -> None:
    folder = installed.packages / "plfl" / "training" / "native"
    is_x86 = platform.machine() == "x86_64"
    # A compiler of the machine is not used where the wheel has brought a build of this source.
    builds = {
        folder / f"{flags.stem(name, source)}.so": flags.INSTRUCTIONS[name]
        for source, name in flags.BUILDS
        if is_x86 or name == "plain"
    }
    assert set(folder.glob("*.so")) == builds.keys()
    for build, options in builds.items():
        assert {*flags.FLAGS, *options} < set(build.read_text().split())
    (about,) = installed.packages.glob("plfl-*.dist-info/WHEEL")
    assert re.search(r"^Tag: py3-none-(?!any)", about.read_text(), re.MULTILINE)


def test_a_study_with_a_plugin_can_run_in_an_empty_folder(installed: Installed) -> None:
    (installed.work / "click.py").write_text("raise SystemExit('a file of the user was imported')")
    listed = installed.plfl("init")
    for file in (ROOT / "config").glob("*.yaml"):
        assert f"\n{file.stem} " in f"\n{listed}"
    write_study_with_plugin(installed.work / "mine")
    planned = installed.plfl(
        "study", "mine/own.yaml", "--", "figures/own/fig3_mase_local.svg", "--dry-run"
    )
    assert re.search(r"^train +1$", planned, re.MULTILINE)
    left = {path.name for path in installed.work.iterdir()}
    assert left == {"click.py", "mine", ".snakemake"}


def test_it_forecasts_raw_exports_without_a_study(installed: Installed) -> None:
    exports = installed.work.parent / "exports"
    exports.mkdir()
    rows = [
        f"2024-03-{day:02} {hour:02}:00,{0.2 + hour / 100}"
        for day in range(1, 11)
        for hour in range(24)
    ]
    (exports / "home.csv").write_text("\n".join(["time,kWh", *rows]), encoding="utf-8")
    options = ["--kind", "homes", "--timezone", "Europe/Paris", "--read-stamp", "start"]
    printed = installed.plfl("forecast", str(exports), *options)
    rows = re.findall(r"^2024-03-11 .*,home,(\d\.\d+),.*$", printed, re.MULTILINE)
    assert len(rows) == 23, printed  # the 24th ends at midnight
    assert all(0.2 < float(load) < 0.45 for load in rows)
    assert "model of public homes" in printed
