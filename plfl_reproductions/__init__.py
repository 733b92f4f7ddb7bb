"""Reproductions of published methods and models, in addition to those in `plfl.methods` and
`plfl.models`.

plfl finds their files like those of any installed package (docs/add-an-algorithm.md), and does not
import them by name.
"""
