"""What training asks of the data of a federation, whether they are series or images."""

from __future__ import annotations

from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from plfl.data.windows import Split
from plfl.layout import WindowShape


class Examples(Protocol):
    """Windows with targets, held by clients. A window is known by its start row."""

    @property
    def clients(self) -> NDArray[np.str_]:
        """Names of the N clients."""

    @property
    def features(self) -> NDArray[np.float32]:
        """Rows (R, F): the sequence of a window is `look_back` of them."""

    @property
    def context(self) -> NDArray[np.float32]:
        """Further inputs (R, G) of the window whose last row this is."""

    @property
    def targets(self) -> NDArray[np.float32]:
        """Target (R, ...) of the window whose last row this is."""

    @property
    def look_back(self) -> int:
        """Rows of a window."""

    @property
    def relative(self) -> bool:
        """Whether the first feature is relative to its value in the last row of the window."""

    @property
    def shape(self) -> WindowShape:
        """What a model reads of a window."""

    def starts(self, client: int, split: Split) -> NDArray[np.int64]:
        """Start rows of all windows of one split of a client."""

    def of_seed(self, seed: int) -> Self:
        """The data as the federation of this seed holds them."""

    def save(self, path: Any) -> None:
        """Write the data to a file."""
