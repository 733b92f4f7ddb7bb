"""Formats of exports: one file each, which says how it is recognised and what its parts mean.

`recognition` finds the format of a file, `reading` reads a file as its format says, `schema` has
the keys of a format file, and `records` and `trees` make tables of files that are none.
"""
