"""Types of tables, for annotations alone: the workflow names its files without pandas."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plfl.results.collect import JobFiles as JobFiles
    from plfl.results.records import BaselineTables as BaselineTables
    from plfl.results.variants import Variant as Variant
else:
    BaselineTables = JobFiles = Variant = Any
