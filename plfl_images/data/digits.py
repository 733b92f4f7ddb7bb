"""Handwritten digits: 1,797 images of 8 × 8 pixels in ten classes, which scikit-learn contains.

Source: E. Alpaydin and C. Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning
Repository, 1998, doi:10.24432/C50P49. scikit-learn contains its test set.
"""

from __future__ import annotations

import numpy as np

from plfl_images.data.pool import ImagePool

PER_CLASS = 120
"""Images of each class to train on; the other 597 are held out."""
CLASSES = 10
GREY_LEVELS = 16.0
"""Value of the darkest pixel."""


def read() -> ImagePool:
    """The digits, scaled to [0, 1]; the held-out ones are always the same."""
    from sklearn.datasets import load_digits  # takes a second

    digits = load_digits()
    labels = digits.target.astype(np.int64)
    order = np.random.default_rng(0).permutation(len(labels))
    class_indices = [order[labels[order] == c] for c in range(CLASSES)]
    rows = np.concatenate(
        [indices[:PER_CLASS] for indices in class_indices]
        + [indices[PER_CLASS:] for indices in class_indices]
    )
    return ImagePool(
        pixels=digits.images[rows, None].astype(np.uint8),
        labels=labels[rows],
        training=PER_CLASS * CLASSES,
        offset=np.zeros(1),
        scale=np.full(1, GREY_LEVELS),
    )
