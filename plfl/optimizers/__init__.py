"""How clients and servers step.

The configuration imports every optimiser. To start quickly, their files import torch for type
checkers only.
"""
