"""A study: how its file is read, and what fixes the numbers of a cell."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from plfl.base.errors import ConfigError
from plfl.study import Study
from tests.helpers.refusals import naming


def test_models_are_written_as_they_are_read() -> None:
    paper, other = Study(), Study.parse({"model": {"name": "gru", "hidden": 5}}, "other")
    model = paper.model_dump(mode="json")["model"]
    assert model == {"hidden": 25, "mlp": [150, 75], "output": "abs"}
    dumped = other.model_dump(mode="json")
    assert dumped["model"] == {"name": "gru", "hidden": 5, "mlp": [64]}
    assert Study.parse(dumped, "again") == other


def test_a_scheme_is_what_it_shares() -> None:
    """`body` is the paper's LSTM, so both ways to write P2 are the same training."""
    body, lstm = (
        Study.parse({"sharing": {"P2": [p]}, "grid": {"sharing": ["P2"]}}, "a")
        for p in ("body", "lstm.*")
    )
    assert body.plan.settings(body.cells[0]) == lstm.plan.settings(lstm.cells[0])
    assert body.plan.parameters(["body"]) == [
        n for n in body.plan.layout.names if n.startswith("lstm.")
    ]


def test_files_that_are_no_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the file does not exist"):
        Study.load(tmp_path / "none.yaml")
    broken = tmp_path / "broken.yaml"
    broken.write_text("name: x\ndata: {source: sample\n")
    with pytest.raises(ConfigError) as caught:
        Study.load(broken)
    (problem,) = map(str, caught.value.problems)
    assert "line 3, column 1" in problem and "line 2, column 7" in problem
    twice = tmp_path / "twice.yaml"
    twice.write_text("grid:\n  seeds: [1, 2]\nname: x\ngrid:\n  method: [ifca]\n")
    with naming(ConfigError, "line 4", "'grid'"):
        Study.load(twice)


@pytest.mark.parametrize("block", ["{}", "{{federation: {}}}", "{{grid: {}}}"])
@pytest.mark.parametrize(
    ("key", "shown"),
    [("a\nb", r"'a\nb': "), ("x" * 300, "'xxxxxxxxxxxxxxxxx...xxxxxxxxxxxxxxxxxx': ")],
)
def test_a_long_key_or_one_of_two_lines_is_shown_in_one_short_line(
    block: str, key: str, shown: str
) -> None:
    text = block.format(yaml.safe_dump({key: [1]}, default_flow_style=True, width=1000).strip())
    with pytest.raises(ConfigError) as caught:
        Study.parse(yaml.safe_load(text), "a")
    (problem,) = map(str, caught.value.problems)
    assert f"{shown}unknown key" in problem
    assert key not in problem


@pytest.mark.parametrize(
    ("line", "key", "number"),
    [
        ("grid: {seeds: [7, 010]}", "grid.seeds.1", "8"),
        ("federation: {rounds: 1:30}", "federation.rounds", "90"),
        ("federation: {participation: 0_0.5}", "federation.participation", "0.5"),
        ("data: {meters: {only: [1_2]}}", "data.meters.only.0", "12"),
    ],
)
def test_a_number_that_yaml_reads_as_another_is_refused(
    tmp_path: Path, line: str, key: str, number: str
) -> None:
    file = tmp_path / "my.yaml"
    file.write_text(line)
    with naming(ConfigError, f"{key}: YAML reads", f"the number {number};", "quotes"):
        Study.load(file)


def test_a_number_that_yaml_reads_as_another_hides_no_other_error(tmp_path: Path) -> None:
    file = tmp_path / "my.yaml"
    file.write_text(
        "federation: {rounds: yes, local_stepz: 3}\ngrid: {client_opt: [adamm], seeds: [010]}"
    )
    with pytest.raises(ConfigError) as caught:
        Study.load(file)
    told = "\n".join(map(str, caught.value.problems))
    for name in ("federation.rounds", "local_stepz", "adamm", "grid.seeds.0: YAML reads 010"):
        assert name in told
    assert caught.value.source == str(file)


def test_a_number_that_yaml_reads_as_it_is_written_is_read(tmp_path: Path) -> None:
    file = tmp_path / "my.yaml"
    file.write_text("grid: {seeds: [0, 007, 0x10, 08, 20]}")
    assert Study.load(file).grid.seeds == [0, 7, 16, 8, 20]


def settings(cell: str, **blocks: dict[str, Any]) -> dict[str, Any]:
    study = Study.parse(blocks, "test")
    return study.plan.settings(next(c for c in study.cells if str(c) == cell))


def test_a_cells_settings_are_what_fixes_its_numbers() -> None:
    cell = "CA-P2-fedopt-adam-fedyogi-10"
    assert settings(cell) == settings(cell, compute={"threads": 2}, tracking={"enabled": False})
    assert settings(cell) == settings(cell, hyperparameters={"client_opt": {"prox": {"lr": 0.5}}})
    assert settings(cell) != settings(cell, hyperparameters={"client_opt": {"adam": {"lr": 0.5}}})
    server = {"server_opt": {"fedyogi": {"lr": 0.5}}}
    assert settings(cell) != settings(cell, hyperparameters=server)
    assert settings(cell) != settings(cell, federation={"rounds": 3})


def test_without_sharing_the_server_does_not_matter() -> None:
    assert settings("CA-P3-fedopt-adam-fedyogi-10") == settings("CA-P3-fedopt-adam-fedavg-10")
    assert settings("CA-P2-fedopt-adam-fedyogi-10") != settings("CA-P2-fedopt-adam-fedavg-10")
    for split, same in (("P3", True), ("P2", False)):
        few, many = (
            settings(
                f"CA-{split}-fedopt-adam-fedavg-10",
                tuning={
                    "search": {"server_opt.*.lr": rates},
                    "alone": {"client_opt.*.lr": [0.1, 0.2, 0.3]},
                    "trials": 2,
                },
            )
            for rates in ([0.1, 1.0], [0.1, 0.5, 1.0])
        )
        assert (few == many) == same
