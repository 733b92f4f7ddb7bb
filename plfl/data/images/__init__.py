"""Labelled images: where they come from, and how they are dealt to clients."""
