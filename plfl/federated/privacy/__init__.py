"""Differential privacy of what the server computes, for whole clients (`federation.privacy`).

- `gaussian`: ε and δ of Gaussian noise in closed form
- `accounting`: ε of the rounds, by every valid accountant
- `mechanism`: clipped updates and noise on their sum, in the round
- `audit`: canary clients, and whether the parameters betray their presence
- `statement`: ε of a study's cells, and what it does not cover
"""
