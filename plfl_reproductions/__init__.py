"""Reproductions of published methods, one file per algorithm, as a package of files for plfl.

It brings them to `plfl.methods` as any installed package can (docs/add-an-algorithm.md). plfl does
not import it.
"""
