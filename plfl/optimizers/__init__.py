"""Local optimisers (`client`) and server optimisers (`server`), one file each.

The configuration imports every optimiser. To start quickly, their files import torch for type
checkers only.
"""
