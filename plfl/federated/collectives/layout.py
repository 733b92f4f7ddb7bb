"""What LightGBM's machines send each other, byte by byte: no interface that LightGBM promises."""

import numpy as np

SPLITS = 2 * (94 + 4)
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
ROOT = np.dtype(
    {"names": ["hessian", "gradient", "count"], "formats": ["f8", "f8", "i4"], "itemsize": 24}
)
"""What LightGBM sends of all windows of a client before it grows a tree."""
