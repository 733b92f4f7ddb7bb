"""`plfl forecast` and `plfl run --models`: what is printed, and how mistakes end."""

from pathlib import Path

import pandas as pd
import pytest

from plfl.cli import main as cli
from plfl.cli.forecast import as_csv
from tests.cli.test_main import CELL, project

__all__ = ["project"]  # a fixture


@pytest.fixture
def model(project: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert cli.main(["run", "my.yaml", CELL, "--models", "m.safetensors"]) == 0
    capsys.readouterr()
    return "m.safetensors"


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> pd.DataFrame:
    assert cli.main(["forecast", *arguments]) == 0
    Path("printed.csv").write_text(capsys.readouterr().out)
    return pd.read_csv("printed.csv", parse_dates=["timestamp", "made_at"], index_col=0)


def test_the_next_hour_or_everything(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    last = pd.Timestamp(pd.read_csv("meters/a.csv")["timestamp"].iloc[-1], tz="UTC")
    following = printed(capsys, model, "meters/a.csv")
    assert list(following.index) == [last + pd.Timedelta(minutes=15 * i) for i in (1, 2, 3, 4)]
    whole = printed(capsys, model, "meters/a.csv", "--all")
    pd.testing.assert_frame_equal(whole[-4:], following)
    # Each client has a model of its own, and the server's is another one.
    others = [("--client", "b"), ("--model", "global")]
    for other in others:
        assert not printed(capsys, model, "meters/a.csv", *other).equals(following)


def test_midnights_have_a_time_too() -> None:
    stamps = pd.DatetimeIndex(["2018-12-01"], name="timestamp")
    table = pd.DataFrame({"forecast": [1.5], "made_at": stamps}, stamps)
    assert as_csv(table) == (
        "timestamp,forecast,made_at\n2018-12-01 00:00:00,1.5,2018-12-01 00:00:00\n"
    )


def test_a_register_is_no_load(model: str, caplog: pytest.LogCaptureFixture) -> None:
    register = pd.read_csv("meters/a.csv")
    register.assign(load=register["load"].cumsum()).to_csv("register.csv", index=False)
    for file, warned in (("meters/a.csv", False), ("register.csv", True)):
        caplog.clear()
        assert cli.main(["forecast", model, file, "--client", "a"]) == 0
        assert ("hardly ever decreases" in caplog.text) == warned


def test_mistakes(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    mistakes = {
        (model, "meters/a.csv", "--save", "x"): "--save and --epochs: only with --new",
        (model, "none.csv"): "none.csv: the file does not exist",
        ("my.yaml", "meters/a.csv"): "my.yaml: is no model that can be read",
        ("none.safetensors", "meters/a.csv"): "none.safetensors: the file does not exist",
    }
    for arguments, message in mistakes.items():
        assert cli.main(["forecast", *arguments]) == 2
        assert message in capsys.readouterr().err
    assert cli.main(["run", "my.yaml", CELL, "--models", "none/m.safetensors"]) == 2
    assert "folder none" in capsys.readouterr().err
