"""The native kernel, and how it is compiled."""
