"""The passes of any model on many rows at once, and the checks whether a module can be trained."""
