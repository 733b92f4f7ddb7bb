"""Differential privacy of what the server computes, for whole clients (`federation.privacy`).

- `mechanism`: clipped updates and noise on their sum, in the round
- `accounting`: ε of the rounds, by every valid accountant
- `statement`: ε of a study's cells, and what it does not cover
"""
