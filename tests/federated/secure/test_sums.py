"""Sums of clients of whom some drop out at each step."""

from collections.abc import Collection

import numpy as np
import pytest

from plfl.federated.secure.keys import Secrets, SimulatedSecrets, SystemSecrets
from plfl.federated.secure.masks import Fields
from plfl.federated.secure.neighbours import threshold_of
from plfl.federated.secure.shares import SIZE
from plfl.federated.secure.sums import PUBLIC, SEALED, DropoutError, SumClient, SumServer

FIELDS = Fields(np.full(40, 32, np.uint8))
NUMBERS = np.random.default_rng(0).integers(-(2**20), 2**20, size=(26, 40))


def total(
    secrets: Secrets, count: int, silent: Collection[int] = (), untold: Collection[int] = ()
) -> tuple[list[int], "np.ndarray[tuple[int, ...], np.dtype[np.int64]]"]:
    """The clients whose numbers are in the sum, and the sum, if some clients do not send their
    numbers, and others tell nothing afterwards."""
    clients = [SumClient(secrets, "sum", number) for number in range(count)]
    server = SumServer(secrets, "sum", count)
    publics = server.pass_on([client.introduce() for client in clients])
    shared = [client.share(public) for client, public in zip(clients, publics, strict=True)]
    sealed, degree = server.deliver(shared), server.neighbours.shape[1]
    assert {len(some) for some in publics} == {degree * PUBLIC}
    assert {len(some) for some in sealed} == {degree * SEALED}
    masked = {
        number: client.hide(sealed[number], FIELDS, NUMBERS[number])
        for number, client in enumerate(clients)
        if number not in silent
    }
    asked = server.add(masked, FIELDS)
    told = {
        number: clients[number].tell(bits) for number, bits in asked.items() if number not in untold
    }
    assert {len(some) for some in told.values()} == {degree * SIZE}
    lanes = server.unmask(told, FIELDS)
    return server.present, FIELDS.decode(lanes, -(2**31))


@pytest.mark.parametrize("secrets", [SystemSecrets(), SimulatedSecrets(1)])
@pytest.mark.parametrize(
    ("count", "silent", "untold"),
    [(3, (), ()), (5, (), ()), (5, (3,), ()), (12, (0, 7), (4,)), (26, (1, 2, 25), (0, 9))],
)
def test_the_sum_is_that_of_the_clients_that_stay(
    secrets: Secrets, count: int, silent: tuple[int, ...], untold: tuple[int, ...]
) -> None:
    arrived, found = total(secrets, count, silent, untold)
    assert arrived == [number for number in range(count) if number not in silent]
    assert (found == NUMBERS[arrived].sum(0)).all()


def test_too_many_dropouts_end_the_sum() -> None:
    with pytest.raises(DropoutError, match="3 of 6 clients have dropped out"):
        total(SystemSecrets(), 6, silent=(0, 1, 2))
    with pytest.raises(DropoutError, match="have told"):
        total(SystemSecrets(), 6, untold=(0, 1, 2))


def test_a_client_tells_once() -> None:
    clients = [SumClient(SystemSecrets(), "sum", number) for number in range(3)]
    server = SumServer(SystemSecrets(), "sum", 3)
    publics = server.pass_on([client.introduce() for client in clients])
    sealed = server.deliver([c.share(p) for c, p in zip(clients, publics, strict=True)])
    clients[0].hide(sealed[0], FIELDS, NUMBERS[0])
    assert clients[0].tell(b"\xc0") != b""
    with pytest.raises(ValueError, match="a second time is refused"):
        clients[0].tell(b"\x00")


def test_a_share_for_somebody_else_cannot_be_read() -> None:
    clients = [SumClient(SystemSecrets(), "sum", number) for number in range(4)]
    server = SumServer(SystemSecrets(), "sum", 4)
    publics = server.pass_on([client.introduce() for client in clients])
    sealed = server.deliver([c.share(p) for c, p in zip(clients, publics, strict=True)])
    with pytest.raises(ValueError, match="not encrypted with the agreed key"):
        clients[0].hide(sealed[1], FIELDS, NUMBERS[0])
    for changed in (sealed[0][:-1], sealed[0] + sealed[0][:SEALED]):
        with pytest.raises(ValueError, match=r"not some of|shorter|longer"):
            clients[0].hide(changed, FIELDS, NUMBERS[0])


def test_shares_below_the_threshold_are_too_few_for_the_server() -> None:
    """With t − 1 of them, another secret is recovered, and the sum stays masked."""
    count = 7
    clients = [SumClient(SystemSecrets(), "sum", number) for number in range(count)]
    server = SumServer(SystemSecrets(), "sum", count)
    publics = server.pass_on([client.introduce() for client in clients])
    sealed = server.deliver([c.share(p) for c, p in zip(clients, publics, strict=True)])
    masked = {n: c.hide(sealed[n], FIELDS, NUMBERS[n]) for n, c in enumerate(clients)}
    asked = server.add(masked, FIELDS)
    told = {n: clients[n].tell(asked[n]) for n in range(threshold_of(count - 1) - 1)}
    with pytest.raises(DropoutError, match="neighbours have told"):
        server.unmask(told, FIELDS)
