"""Types of arrays that annotations name everywhere."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Starts: TypeAlias = NDArray[np.int64]
"""Start rows (W,) of windows in the table of a dataset."""
Arrays: TypeAlias = Mapping[str, NDArray[Any]]
"""What is saved, by name. A baseline saves float64, float32 or uint8: data only, no code."""
