"""What LightGBM's machines send each other, byte by byte: no interface that LightGBM promises."""

from typing import Any

import numpy as np

BIN_PARAMETERS: dict[str, Any] = {
    "enable_bundle": False,  # bundles of features depend on one client's rows
    "feature_pre_filter": False,
    "min_data_in_bin": 1,
    "boost_from_average": False,
}
"""Parameters of a model whose bins come from public values."""
SETTINGS: dict[str, Any] = {
    "objective": "none",  # the gradients are computed here
    "min_child_samples": 20,
    "seed": 1,
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
    **BIN_PARAMETERS,
    "max_cat_threshold": 1,  # there are no categories; this shortens messages
    "pre_partition": True,
    "verbosity": -1,
}
"""Parameters of the LightGBMs of clients, with which their messages are those below."""
TESTED_VERSIONS = ("4.6", "4.7")
"""The versions of LightGBM for which this holds, as `self_test` has found."""
SPLITS_BYTES = 2 * (94 + 4)
"""Bytes of two `SplitInfo` of LightGBM with `max_cat_threshold: 1`, one for each new leaf."""
SPLIT = np.dtype(
    {
        "names": ["feature", "left", "right", "gain", "threshold", "values", "sums", "categories"],
        "formats": ["i4", "i4", "i4", "f8", "u4", "4f8", "2f8", "i4"],
        "offsets": [0, 4, 8, 12, 20, 24, 64, 90],
        "itemsize": 98,
    }
)
"""What is read of a `SplitInfo`, and where it is there."""
ROOT_TYPE = np.dtype(
    {"names": ["hessian", "gradient", "count"], "formats": ["f8", "f8", "i4"], "itemsize": 24}
)
"""What LightGBM sends of all windows of a client before it grows a tree."""
