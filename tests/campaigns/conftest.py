"""What campaigns need that is not on every machine. Where it is missing, its tests are skipped."""

from tests.report.test_page import browser

__all__ = ["browser"]
