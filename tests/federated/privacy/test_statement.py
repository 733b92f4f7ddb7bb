"""What `plfl privacy` states of a study."""

import math
from pathlib import Path

import pytest
import yaml

from plfl.base.errors import ConfigError
from plfl.federated.privacy.accounting import bounds, unamplified_bound
from plfl.federated.privacy.statement import (
    THREAT,
    bound_of_known_draws,
    least_bound,
    remarks_outside,
    rounds_of,
    statements,
    threat,
)
from plfl.methods.fedopt import FedOpt
from plfl.study import Study

GRID = {"client_opt": ["adam"], "server_opt": ["fedavg"]}


def study(*, privacy, federation=None, **blocks):
    raw = {"data": {"source": "sample", "states": ["CA"]}, "grid": GRID}
    return Study.parse(
        raw | blocks | {"federation": (federation or {}) | {"privacy": privacy}}, "x"
    )


def test_each_cell_has_its_own_epsilon_and_noise():
    stated = statements(study(privacy={"clip": 1, "noise": 4, "delta": 1e-2})).set_index("cell")
    P1, P2, P3 = (stated.loc[f"CA-{name}-fedopt-adam-fedavg-10"] for name in ("P1", "P2", "P3"))
    assert (P1.epsilon, P2.epsilon, P3.epsilon) == pytest.approx((4.3222, 4.3222, 0), abs=1e-4)
    assert (P1.noise, P2.noise) == pytest.approx((81.84, 19.72), abs=0.01)
    assert set(statements(study(privacy={})).epsilon) == {math.inf, 0}
    assert statements(study(privacy={"clip": 1})).epsilon[0] == math.inf, "no noise"
    adapted = study(privacy={"clip": 1}, grid=GRID | {"method": ["fine_tuning"]})
    assert statements(adapted).epsilon.tolist() == [math.inf, math.inf, 0], "nothing is sent"


def test_a_study_without_privacy_may_draw_clients_in_any_way():
    """No accountant knows the draw `data_aware`."""
    _, study = Study.load("config/fedadc-aware.yaml").variants.values()
    assert study.federation.selection == "data_aware"
    assert set(statements(study)["accountant"]) == {"no federation.privacy"}
    assert set(statements(study, has_known_draws=True)["epsilon"]) == {math.inf}


def test_a_method_may_have_a_hyperparameter_with_the_name_noise(monkeypatch):
    """Only what a method says of its own noise counts."""
    monkeypatch.setattr(FedOpt, "noise", 1.0, raising=False)
    assert set(statements(study(privacy={})).epsilon) == {math.inf, 0}


def test_noise_is_on_what_a_method_sends():
    """The heads that FedBABU shares under P1 do not leave their clients."""
    private = study(
        privacy={"clip": 1, "noise": 4, "delta": 1e-2}, grid=GRID | {"method": ["fedbabu"]}
    )
    noise = statements(private).set_index("cell")["noise"]
    assert noise["CA-P1-fedbabu-adam-fedavg-10"] == noise["CA-P2-fedbabu-adam-fedavg-10"]
    assert noise["CA-P1-fedbabu-adam-fedavg-10"] == pytest.approx(19.72, abs=0.01)


def test_epsilon_is_that_of_the_worst_federation():
    """31 clients in federations of about 12 are 11, 10 and 10 clients."""
    draws = {"participation": 0.25, "rounds": 10}
    private = study(
        privacy={"clip": 1, "noise": 6},
        federation=draws,
        data={"source": "sample", "states": ["CA"], "clients": 31, "federations": 12},
    )
    assert private.data.federation_sizes == [10, 11]
    each = [bounds(rounds_of(private.federation, size), 1e-3)[0].epsilon for size in (10, 11, 12)]
    assert least_bound(private, 1e-3).epsilon == max(each[:2])
    assert statements(private).epsilon[0] == max(each[:2]) >= each[2]


def test_known_participants_are_named():
    block = {"clip": 1, "noise": 2}
    drawn = study(privacy=block, federation={"participation": 0.1, "selection": "poisson"})
    (line,) = [line for line in remarks_outside(drawn) if "took part" in line]
    known = unamplified_bound(rounds_of(drawn.federation, 12), 1e-3).epsilon
    assert f"{known:.3g}" in line
    assert not any("took part" in line for line in remarks_outside(study(privacy=block)))


def test_as_of_more_clients_there_is_less_noise_for_the_same_epsilon():
    as_of = {"clip": 1, "noise": 4, "delta": 1e-2, "noise_as_of": 360}
    stated = statements(study(privacy=as_of)).iloc[1]
    assert stated.epsilon == pytest.approx(4.3222, abs=1e-4)
    assert stated.noise == pytest.approx(19.72 / 30, abs=0.01)
    assert stated.clients == 360


@pytest.mark.parametrize(
    ("key", "blocks"),
    [
        ("windows.scaling", {}),
        ("tuning", {"tuning": {"search": {"client_opt.*.lr": [0.1, 0.01]}}}),
        ("windows.history", {"windows": {"scaling": "per_client", "history": 4}}),
        ("EXTRAPOLATION", {"privacy": {"noise_as_of": 100}}),
        (
            "federation.calibration.variant",
            {"federation": {"loss": "mse", "calibration": {"epochs": 1, "variant": "kd"}}},
        ),
    ],
)
def test_what_epsilon_does_not_count_is_named(key, blocks):
    block = {"clip": 1, "noise": 1}
    private = {"windows": {"scaling": "per_client"}}
    plain = study(privacy=block, **private)
    given = blocks | {"privacy": block | blocks.get("privacy", {})}
    told = study(**given) if key == "windows.scaling" else study(**private | given)
    assert any(line.startswith(key) for line in remarks_outside(told))
    assert not any(line.startswith(key) for line in remarks_outside(plain))


def test_the_command_prints_variants(tmp_path: Path, invoke):
    raw = {"data": {"source": "sample", "states": ["CA"]}}
    raw["grid"] = GRID | {"sharing": ["P2"], "federation.privacy.noise": [1, 4]}
    raw["federation"] = {"privacy": {"clip": 1, "delta": 1e-2, "noise_as_of": 100}}
    file = tmp_path / "private.yaml"
    file.write_text(yaml.safe_dump(raw))
    said = invoke("privacy", file).out
    assert "33.9" in said
    assert "4.32" in said
    assert said.count("noise=4/CA-P2") == 1
    assert said.count("EXTRAPOLATION") == 1


def test_with_masks_epsilon_holds_against_the_server() -> None:
    """It knows the draws, so its ε is that of known draws."""
    blocks = {"clip": 1.0, "noise": 4.0, "delta": 1e-3}
    drawn = {"participation": 0.8}
    plain = study(privacy=blocks, federation=drawn)
    masked = study(privacy=blocks, federation=drawn, channel={"secure": True})
    assert threat(plain) == THREAT
    known = bound_of_known_draws(masked).epsilon
    assert f"for it ε = {known:.3g} at δ = 0.001" in threat(masked)
    assert least_bound(masked, 1e-3).epsilon <= known


def test_with_masks_the_number_of_participants_is_no_secret() -> None:
    """Their noise tells it. So ε compares other data, and draws that hide it are refused."""
    block, secure = {"clip": 1.0, "noise": 4.0, "delta": 1e-3}, {"secure": True}
    masked = study(privacy=block, channel=secure)
    assert "took part is no secret" in threat(masked)
    assert statements(masked)["relation"].dropna().unique() == "replace one client's data by none"
    drawn = study(privacy=block, channel=secure, federation={"participation": 0.5})
    assert statements(drawn)["relation"].dropna().unique() == "replace one client"
    for selection in ("poisson", "allocation"):
        federation = {"selection": selection, "participation": 0.5}
        with pytest.raises(ConfigError, match=rf"federation.selection: '{selection}' promises"):
            study(privacy=block, channel=secure, federation=federation)
        study(privacy=block, channel=secure, federation=federation | {"participation": 1})
        study(privacy=block | {"noise": 0.0}, channel=secure, federation=federation)
