"""Initial parameters: one draw for everybody, or personal ones that each client draws by itself."""

from typing import Any

import pytest
import torch

from plfl.experiments.training_setup import TrainingSetup
from plfl.federated.federation import Federation
from plfl.layout import head_mask
from plfl.study import Study
from tests.helpers import tiny


def federation(study: Study, sharing: str, clients: int = 3) -> Federation:
    """The first cell of a sharing scheme, before round 1."""
    cell = next(cell for cell in study.cells if cell.sharing == sharing)
    setup = TrainingSetup.for_study(study, tiny.dataset(clients))
    return setup.make_federation(cell, study.plan.candidates(cell)[0])


def of(initial: str, **blocks: Any) -> Study:
    return tiny.study(federation={"initial": initial}, **blocks)


@pytest.mark.parametrize("sharing", ["P1", "P2", "P3"])
def test_by_default_everybody_starts_from_one_draw(sharing):
    f = federation(tiny.study(), sharing)
    assert torch.equal(f.local, f.initial.expand_as(f.local))


@pytest.mark.parametrize("sharing", ["P1", "P2", "P3"])
def test_local_draws_are_of_the_personal_parameters_alone(sharing):
    f = federation(of("local"), sharing)
    differ = (f.local[:, None] != f.local[None]).any(-1)
    personal, shared = f.local[:, ~f.study_mask], f.local[:, f.study_mask]
    assert torch.equal(shared, f.initial[f.study_mask].expand_as(shared))
    assert differ.fill_diagonal_(True).all() == (sharing != "P1")
    if sharing != "P1":
        assert (personal != f.initial[~f.study_mask]).any(1).all()
        # They are draws of the model's own distribution, not noise of another size.
        spread = [rows.std() for rows in (personal, f.initial[~f.study_mask])]
        assert 0.7 < spread[0] / spread[1] < 1.4


def test_the_draw_of_a_client_depends_on_its_name_and_the_seed() -> None:
    study = of("local", grid={"seeds": [1, 2]})
    few, many = (federation(study, "P3", clients) for clients in (2, 3))
    assert torch.equal(few.local, many.local[:2])
    (other,) = [cell for cell in study.cells if str(cell) == str(study.cells[-1])]
    setup = TrainingSetup.for_study(study, tiny.dataset())
    reseeded = setup.make_federation(other, study.plan.candidates(other)[0])
    assert (reseeded.local != many.local).any(1).all()


def test_the_server_starts_from_the_same_parameters_either_way() -> None:
    common, local = (federation(of(initial), "P2") for initial in ("common", "local"))
    assert torch.equal(common.server.x, local.server.x)


@pytest.mark.parametrize("sharing", ["P1", "P2"])
def test_the_heads_of_fedbabu_are_those_of_one_draw(sharing):
    study = of("local", grid={"method": ["fedbabu"]})
    f = federation(study, sharing)
    head = torch.from_numpy(head_mask(f.layout, "mlp"))
    assert torch.equal(f.local[:, head], f.initial[head].expand(3, -1))
