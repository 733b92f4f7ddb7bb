"""Sums of clients of whom some drop out at each step."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from plfl.federated.secure.encryption import Secrets, SimulatedSecrets, SystemSecrets, derive
from plfl.federated.secure.masks import Fields, Masks, pair_masks
from plfl.federated.secure.neighbours import threshold_of
from plfl.federated.secure.shares import SHARE_BYTES, recover
from plfl.federated.secure.sums import (
    PUBLIC_KEYS_BYTES,
    SEALED_BYTES,
    DropoutError,
    SumClient,
    SumServer,
)

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
    assert {len(some) for some in publics} == {degree * PUBLIC_KEYS_BYTES}
    assert {len(some) for some in sealed} == {degree * SEALED_BYTES}
    masked = {
        number: client.hide(sealed[number], FIELDS, NUMBERS[number])
        for number, client in enumerate(clients)
        if number not in silent
    }
    asked = server.add(masked, FIELDS)
    told = {
        number: clients[number].reveal_shares(bits)
        for number, bits in asked.items()
        if number not in untold
    }
    assert {len(some) for some in told.values()} == {degree * SHARE_BYTES}
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
    assert clients[0].reveal_shares(b"\xc0") != b""
    with pytest.raises(ValueError, match="a second time is refused"):
        clients[0].reveal_shares(b"\x00")


def test_a_share_for_somebody_else_cannot_be_read() -> None:
    clients = [SumClient(SystemSecrets(), "sum", number) for number in range(4)]
    server = SumServer(SystemSecrets(), "sum", 4)
    publics = server.pass_on([client.introduce() for client in clients])
    sealed = server.deliver([c.share(p) for c, p in zip(clients, publics, strict=True)])
    with pytest.raises(ValueError, match="not encrypted with the agreed key"):
        clients[0].hide(sealed[1], FIELDS, NUMBERS[0])
    for changed in (sealed[0][:-1], sealed[0] + sealed[0][:SEALED_BYTES]):
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
    told = {n: clients[n].reveal_shares(asked[n]) for n in range(threshold_of(count - 1) - 1)}
    with pytest.raises(DropoutError, match="neighbours have told"):
        server.unmask(told, FIELDS)


ALL = range(9)


def remainders(colluding: Sequence[int], seed: int) -> dict[int, "np.ndarray[Any, Any]"]:
    """What is left of each other client's message after the server and clients that collude with it
    have taken away all masks that they can compute from their keys and shares."""
    secrets = SimulatedSecrets(seed)
    clients = [SumClient(secrets, "sum", number) for number in ALL]
    server = SumServer(secrets, "sum", len(ALL))
    publics = server.pass_on([client.introduce() for client in clients])
    sealed = server.deliver([c.share(p) for c, p in zip(clients, publics, strict=True)])
    masked = {n: c.hide(sealed[n], FIELDS, NUMBERS[n]) for n, c in enumerate(clients)}
    seeds = {n: clients[n].reveal_shares(bits) for n, bits in server.add(masked, FIELDS).items()}
    # Who colludes has told the shares of seeds, as it should, and those of keys on the quiet.
    keys = {}
    for number in colluding:
        again = SumClient(secrets, "sum", number)
        again.share(publics[number])
        again.hide(sealed[number], FIELDS, NUMBERS[number])
        keys[number] = again.reveal_shares(bytes(2))

    def recovered(told: Mapping[int, bytes], client: int) -> bytes:
        shares_of_client = {}
        for number, text in told.items():
            if number != client:
                place = server.neighbours[number].tolist().index(client)
                where = server.neighbours[client].tolist().index(number) + 1
                share = text[place * SHARE_BYTES : (place + 1) * SHARE_BYTES]
                shares_of_client[where] = int.from_bytes(share, "little")
        return (recover(shares_of_client) % 2**256).to_bytes(32, "little")

    left = {}
    own_keys = {number: secrets.key("sum/masks", number) for number in ALL}
    for client in sorted({*ALL} - {*colluding}):
        own = own_keys[client].public
        known = {number: own_keys[number] for number in colluding}
        guess = secrets.restore("sum/masks", recovered(keys, client))
        if guess.public == own:
            known = {number: guess for number in ALL if number != client}
        pairs = {
            own_keys[number].public: key.agree(own_keys[number].public if key is guess else own)
            for number, key in known.items()
        }
        masks = pair_masks(own, {peer: derive(secret, "masks") for peer, secret in pairs.items()})
        zeros = FIELDS.encode(np.zeros(len(FIELDS.bits), np.int64))
        mask = FIELDS.sum_lanes(
            [masks.hide(FIELDS, zeros), Masks([recovered(seeds, client)]).hide(FIELDS, zeros)]
        )
        left[client] = FIELDS.sum_lanes([FIELDS.unpack(masked[client]), -mask])
    return left


def test_fewer_colluders_than_the_threshold_learn_the_sum_of_the_others_only() -> None:
    """They pool their keys and shares with the server: t − 1 of them get the sum of the others, of
    whom each one, and each two together, stay uniform. With one more, the same attack reads all."""
    enough = threshold_of(len(ALL) - 1)
    read = remainders(ALL[:enough], 0)
    assert len(read) == len(ALL) - enough
    for client, lanes in read.items():
        assert (FIELDS.decode(lanes, -(2**31)) == NUMBERS[client]).all()
    few, views = ALL[: enough - 1], []
    for seed in range(60):
        left = remainders(few, seed)
        total = FIELDS.decode(FIELDS.sum_lanes([*left.values()]), -(2**31))
        assert (total == NUMBERS[len(few) : len(ALL)].sum(0)).all()
        a, b, *_ = left.values()
        views.append([a, b, FIELDS.sum_lanes([a, b])])
    for values in np.moveaxis(np.array(views), 1, 0):
        for shift in (0, 28):
            part = (values >> np.uint32(shift)) & 15
            assert chisquare(np.bincount(part.ravel(), minlength=16)).pvalue > 1e-4
