"""Reproductions of published models, one file per model."""
