"""Reproductions of published methods and models, which join those in `plfl.methods` and
`plfl.models`.

plfl finds their files as it would find those of any installed package (docs/add-an-algorithm.md),
and does not import them by name.
"""
