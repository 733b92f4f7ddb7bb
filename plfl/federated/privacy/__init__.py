"""Differential privacy of what the server computes, for whole clients (`federation.privacy`).

- `gaussian`: ε and δ of Gaussian noise in closed form
- `accounting`: ε of the rounds, by every valid accountant
"""
