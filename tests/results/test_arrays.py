"""Files of arrays: what is read is what was written, and bytes stay in the file."""

from pathlib import Path

import numpy as np
import pytest

from plfl.base.errors import ResultsError
from plfl.results.records import read_arrays, write_models


def written(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a file of trees and numbers."""
    random = np.random.default_rng(1)
    arrays = {
        "a/0.trees_0": random.integers(0, 255, 1001).astype(np.uint8),
        "a/0.unit": random.random(3),
        "b/0.trees_0": np.empty(0, np.uint8),
        "b/widths": random.random((2, 3)).astype(np.float32),
    }
    write_models(path, arrays, {"about": 1})
    return arrays


def test_bytes_are_read_where_they_are(tmp_path: Path) -> None:
    wanted = written(tmp_path / "file")
    arrays, about = read_arrays(tmp_path / "file")
    assert about == {"about": 1} and {*arrays} == {*wanted}
    for name, array in wanted.items():
        assert arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(arrays[name], array)
    whole_file = arrays["a/0.trees_0"].base
    assert whole_file is not None and np.size(whole_file) == (tmp_path / "file").stat().st_size
    # A change of what was read changes neither the file nor what is read again.
    arrays["a/0.trees_0"][0] ^= 1
    again, _ = read_arrays(tmp_path / "file")
    np.testing.assert_array_equal(again["a/0.trees_0"], wanted["a/0.trees_0"])


def test_a_changed_byte_is_found(tmp_path: Path) -> None:
    trees = written(tmp_path / "file")["a/0.trees_0"].tobytes()
    content = (tmp_path / "file").read_bytes()
    place = content.index(trees)
    changed = bytes([content[place] ^ 1])
    (tmp_path / "file").write_bytes(content[:place] + changed + content[place + 1 :])
    with pytest.raises(ResultsError, match="changed"):
        read_arrays(tmp_path / "file")
