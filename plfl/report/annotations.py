"""Types of tables and figures, for annotations alone: the workflow names its files without pandas
and matplotlib."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Figure

    from plfl.results.tables import Tables as Tables
    from plfl.results.variants import Variant as Variant
else:
    Figure = Variant = Tables = Any
