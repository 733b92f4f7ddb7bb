"""Which minibatches and rates the steps of a routine use."""

from types import SimpleNamespace
from typing import Any

import torch

from plfl.federated.session import Session
from plfl.optimizers.client.sgd import Sgd
from plfl.training.task import Anchor, LookAhead, Mixture
from tests.federated.test_calibration import TWO, head, models

EVERYONE, ROWS = torch.arange(2), models(TWO)


def watched(t: int, minibatches: int, **settings: Any) -> tuple[Session, list[Any]]:
    """A session whose engine trains nothing, and the tasks that it is given."""
    tasks: list[Any] = []

    def keep(task: Any) -> torch.Tensor:
        tasks.append(task)
        return torch.zeros(len(task.rows))

    f: Any = SimpleNamespace(
        client_data=TWO,
        settings=TWO.settings.model_copy(update=settings),
        client_opt=Sgd(lr=0.4),
        shared=head(TWO),
    )
    engine: Any = SimpleNamespace(train=keep)
    return Session(f, engine, t, EVERYONE, ROWS, minibatches), tasks


def test_every_step_has_the_minibatches_that_it_should() -> None:
    """With a look-ahead, each step takes two; near an anchor, several steps take the same one."""
    session, tasks = watched(1, 5)
    drawn = TWO.minibatches(EVERYONE, 1, 5)
    session.train(ROWS, 1, 2, lookahead=LookAhead(0.1, session.minibatches(3, 2)))
    assert torch.equal(tasks[-1].minibatches.starts, drawn[:, 1:3])
    assert torch.equal(tasks[-1].terms.lookahead.minibatches.starts, drawn[:, 3:])
    keys = TWO.keys(EVERYONE, 1, 5)
    assert torch.equal(tasks[-1].minibatches.keys, keys[:, 1:3])
    assert torch.equal(tasks[-1].terms.lookahead.minibatches.keys, keys[:, 3:])
    session.gradient(ROWS, 4)
    assert torch.equal(tasks[-1].minibatches.starts, drawn[:, 4:])
    session.gradient(ROWS, 4, torch.tensor([False, True]))
    assert torch.equal(tasks[-1].minibatches.starts, drawn[1:, 4:])
    session.train(ROWS, 0, 3, mixture=Mixture(ROWS, {}, ROWS[:, 0], 0.1, 0))
    assert torch.equal(tasks[-1].minibatches.starts, drawn[:, :3])
    session.train(ROWS, 0, 2, repeats=3, anchor=Anchor(ROWS, 3, 0.1))
    assert torch.equal(tasks[-1].minibatches.starts, drawn[:, [0, 0, 0, 1, 1, 1]])
    assert session.steps.tolist() == [4 + 1 + 6 + 6, 4 + 1 + 1 + 6 + 6]


def test_the_first_rate_is_that_of_the_round() -> None:
    session, _ = watched(3, 2, decay=0.5)
    assert session.first_rate == 0.1
