"""Reproductions of published methods, one file per algorithm."""
