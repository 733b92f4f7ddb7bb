"""Trains a private cell with canary clients, and tests its ε."""

from collections.abc import Callable

from plfl.base.errors import PlflError
from plfl.config.study import Cell, Study
from plfl.data.examples import Examples
from plfl.experiments.trainer import Trainer
from plfl.federated.federation import Federation
from plfl.federated.privacy.accounting import bounds
from plfl.federated.privacy.audit import DELTA, Canaries, Verdict, verdict
from plfl.federated.privacy.statement import clients_of, rounds_of
from plfl.federated.round import run


def audit(
    study: Study,
    cell: Cell,
    examples: Examples,
    canaries: int,
    progress: Callable[[int], None] = lambda t: None,
    made: Callable[[Federation], None] = lambda f: None,
) -> Verdict:
    """Train a cell with the study's own hyperparameters and `canaries` canary clients.

    `progress` is called with the number of every finished round, `made` with the federation before
    round 1.

    Raises:
        PlflError: the cell has no ε to test, or canaries cannot test it.
    """
    trainer = Trainer.of(study, examples)
    f = trainer.federation(cell, study.combinations.untuned(*cell.combination))
    block = study.federation.privacy
    if f.privacy is None or not block.noise or block.noise_as_of is not None:
        raise PlflError(
            f"{cell}: has no ε to audit; choose a cell that shares parameters, set "
            "federation.privacy.clip and noise, and remove noise_as_of, which is an extrapolation"
        )
    added = Canaries(canaries, f.channel.shared, f.selection)
    f.privacy.admit(added)
    made(f)
    run([f], trainer.engine, range(1, study.federation.rounds + 1), lambda r: progress(r[0].t))
    change = (f.server.x - f.x0).cpu().double().numpy()
    delta = min(DELTA, block.delta)
    epsilon = bounds(rounds_of(study.federation, clients_of(study)), delta)[0].epsilon
    return verdict(added.scores(change), added.is_in, epsilon, delta)
