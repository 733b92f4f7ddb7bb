import json
from pathlib import Path

import pytest

from plfl.cli import main as cli


def test_claims_prints_the_verdicts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["claims", str(folder)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("constructed (sample data)")
    assert "(c1) PL-FL (P2) beats FL (P1)\n  local: HOLDS; +1" in said
    assert "(a) Adam and AdamAMS beat" in said
    assert "AdamAMS, Prox, ProxAdam" in said


def test_claims_for_machines(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["claims", str(folder), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    (verdict,) = [v for v in said["verdicts"] if (v["claim"], v["model"]) == ("c1", "global")]
    assert verdict["answer"] == "holds"
    assert verdict["cells"] == ["NY-P2-fedopt-adam-fedavg", "NY-P1-fedopt-adam-fedavg"]
    assert verdict["low"] <= verdict["effect"] <= verdict["high"]
