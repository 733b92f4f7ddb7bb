"""The mark of a figure that has nothing to show; the page looks for it without matplotlib."""

EMPTY = "without-content"
"""Id of an element in the SVG of a figure that has nothing to show; the page leaves it out."""
