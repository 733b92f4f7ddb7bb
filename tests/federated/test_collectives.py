"""What plfl knows of LightGBM's private messages, and how it notices another LightGBM."""

import re
from pathlib import Path

import lightgbm
import numpy as np
import pytest

from plfl.base.errors import PlflError
from plfl.federated.collectives import self_test
from plfl.federated.collectives.message_layout import SPLIT, SPLITS_BYTES, TESTED_VERSIONS
from plfl.federated.collectives.self_test import check_layout

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def nothing_is_checked_yet() -> None:
    check_layout.cache_clear()


def test_the_installed_lightgbm_has_the_messages_that_are_read() -> None:
    check_layout()


@pytest.mark.parametrize("version", ["4.5.0", "4.8.1", "5.0.0"])
def test_a_lightgbm_that_was_not_tested_is_refused(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lightgbm, "__version__", version)
    with pytest.raises(PlflError, match=re.escape(f"LightGBM {version}: its messages")) as error:
        check_layout()
    assert "\n" not in str(error.value)
    assert 'pip install "lightgbm>=4.6,<4.8"' in str(error.value)


@pytest.mark.parametrize("field", ["left", "right", "gain", "values", "sums"])
def test_a_split_whose_numbers_lie_elsewhere_is_noticed(
    field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert SPLIT.names is not None and SPLIT.fields is not None
    offsets = [SPLIT.fields[name][1] + 4 * (name == field) for name in SPLIT.names]
    formats = [SPLIT.fields[name][0] for name in SPLIT.names]
    moved = np.dtype(
        {"names": SPLIT.names, "formats": formats, "offsets": offsets, "itemsize": SPLIT.itemsize}
    )
    monkeypatch.setattr(self_test, "SPLIT", moved)
    with pytest.raises(PlflError, match="its messages are not known"):
        check_layout()


def test_splits_of_another_size_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_test, "SPLITS_BYTES", SPLITS_BYTES - 32)
    with pytest.raises(PlflError, match="its messages are not known"):
        check_layout()


@pytest.mark.parametrize("file", ["pyproject.toml", "environment.yml"])
def test_only_tested_versions_are_installed(file: str) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    least, below = re.findall(r"lightgbm ?>=(\d+\.\d+),<(\d+\.\d+)", text)[0]
    first, last = (int(version.partition(".")[2]) for version in (least, below))
    assert [f"4.{minor}" for minor in range(first, last)] == [*TESTED_VERSIONS]
