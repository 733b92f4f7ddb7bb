"""Classification of images under skewed labels, as a plug-in of plfl.

It registers a task, sources of images, models and the reporting of results in the way that any
installed package can (docs/add-an-algorithm.md). plfl does not import it.
"""
