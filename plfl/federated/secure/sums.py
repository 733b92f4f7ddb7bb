"""One sum over clients of whom some may drop out: what the clients and the server do, step by step.

1. up: two public keys, one for masks and one for encryption; down: those of the neighbours.
2. up: for each neighbour, encrypted, a share of the private key of the masks and one of the seed of
   a further mask of the client's own; down: those of the neighbours.
3. up: the masked numbers; down: which neighbours have sent theirs.
4. up: for each neighbour the share of the one secret that is needed: of the seed if its numbers
   have arrived, of the key if they have not.

The server removes the clients' own masks, and those that clients which dropped out would have
cancelled. A client answers step 4 once, so that nobody gets both secrets. Until step 3 nothing
depends on a client's numbers: if one is gone before, the others begin again with new keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from plfl.federated.secure import encryption, shares
from plfl.federated.secure.encryption import Secrets, decrypt, derive, encrypt
from plfl.federated.secure.masks import Fields, Lanes, Masks, Stream, pair_masks
from plfl.federated.secure.neighbours import degree_of, draw_neighbours, threshold_of

PUBLIC_KEYS_BYTES = 2 * encryption.KEY_BYTES
"""Bytes of the two public keys of a client."""
SEALED_BYTES = 2 * shares.SHARE_BYTES + encryption.TAG
"""Bytes of the encrypted shares for a neighbour."""


class DropoutError(Exception):
    """More clients have dropped out than a sum allows."""


def _cut(data: bytes, size: int) -> list[bytes]:
    """Chunks of equal size.

    Raises:
        ValueError: they do not fit.
    """
    if len(data) % size:
        raise ValueError(f"{len(data)} bytes are not some of {size} each")
    return [data[begin : begin + size] for begin in range(0, len(data), size)]


class SumClient:
    """A client's side of a sum."""

    def __init__(self, secrets: Secrets, purpose: str, client: int):
        self._secrets, self._purpose, self._client = secrets, purpose, client
        self._mask_key = secrets.key(f"{purpose}/masks", client)
        self._seal_key = secrets.key(f"{purpose}/seals", client)
        self._seed = self._read("own", encryption.KEY_BYTES)
        self._publics: list[bytes] = []
        self._received_shares: list[tuple[bytes, bytes]] = []
        self._has_revealed = False

    def introduce(self) -> bytes:
        """Step 1: the public keys."""
        return self._mask_key.public + self._seal_key.public

    def share(self, publics: bytes) -> bytes:
        """Step 2: sealed shares for the neighbours with these public keys, one after the other."""
        self._publics = _cut(publics, PUBLIC_KEYS_BYTES)
        count, parts = len(self._publics), []
        for purpose, secret in (("key", self._mask_key.private), ("seed", self._seed)):
            draw = partial(self._read, f"shares/{purpose}")
            secret_number = int.from_bytes(secret, "little")
            parts.append(shares.split(secret_number, count, threshold_of(count), draw))
        sealed = []
        for public, key_part, seed_part in zip(self._publics, *parts, strict=True):
            text = b"".join(n.to_bytes(shares.SHARE_BYTES, "little") for n in (key_part, seed_part))
            sealed.append(encrypt(self._seal(public, self._seal_key.public), text))
        return b"".join(sealed)

    def hide(self, sealed: bytes, fields: Fields, numbers: NDArray[np.int64]) -> bytes:
        """Step 3: the masked `numbers` (n,), after the sealed shares of the neighbours."""
        for public, text in zip(self._publics, _cut(sealed, SEALED_BYTES), strict=True):
            opened_shares = decrypt(self._seal(public, public[encryption.KEY_BYTES :]), text)
            self._received_shares.append(
                (opened_shares[: shares.SHARE_BYTES], opened_shares[shares.SHARE_BYTES :])
            )
        pair_secrets = {
            public[: encryption.KEY_BYTES]: derive(
                self._mask_key.agree(public[: encryption.KEY_BYTES]), "masks"
            )
            for public in self._publics
        }
        lanes = pair_masks(self._mask_key.public, pair_secrets).hide(fields, fields.encode(numbers))
        return fields.pack(Masks([self._seed]).hide(fields, lanes))

    def reveal_shares(self, presence: bytes) -> bytes:
        """Step 4: a share of one secret of each neighbour; `presence`: a bit for each of them.

        Raises:
            ValueError: it has been told before.
        """
        if self._has_revealed:
            raise ValueError("the shares of this sum have been told; a second time is refused")
        self._has_revealed = True
        count = len(self._received_shares)
        has_arrived = np.unpackbits(np.frombuffer(presence, np.uint8), count=count)
        pairs = zip(self._received_shares, has_arrived.tolist(), strict=True)
        return b"".join(share_pair[bit] for share_pair, bit in pairs)

    def _read(self, purpose: str, size: int) -> bytes:
        return self._secrets.draw_bytes(f"{self._purpose}/{purpose}", self._client, size)

    def _seal(self, public: bytes, sender: bytes) -> bytes:
        """The key of shares to or from a neighbour with these public keys; `sender`: the second
        public key of who sends them."""
        secret = self._seal_key.agree(public[encryption.KEY_BYTES :])
        return derive(secret, f"shares of {sender.hex()}")


class SumServer:
    """The server's side of a sum over `count` clients, which are numbered from 0."""

    def __init__(self, secrets: Secrets, purpose: str, count: int):
        degree = degree_of(count, has_shares=True)
        self._secrets, self._purpose = secrets, purpose
        random = secrets.generator(f"{purpose}/neighbours")
        self.neighbours = draw_neighbours(count, degree, random)
        """The neighbours (n, k) of each client."""
        self.present: list[int] = []
        """The clients whose numbers are in the sum."""
        self._publics: list[bytes] = []
        self._masked: Lanes | None = None

    def pass_on(self, publics: Sequence[bytes]) -> list[bytes]:
        """Step 1: the public keys of the neighbours of each client."""
        self._publics = [*publics]
        return [b"".join(publics[peer] for peer in row) for row in self.neighbours]

    def deliver(self, sealed: Sequence[bytes]) -> list[bytes]:
        """Step 2: the sealed shares from the neighbours of each client."""
        chunks = [_cut(client_shares, SEALED_BYTES) for client_shares in sealed]
        return [
            b"".join(chunks[j][self._places[j][i]] for j in row)
            for i, row in enumerate(self.neighbours)
        ]

    def add(self, masked_rows: Mapping[int, bytes], fields: Fields) -> dict[int, bytes]:
        """Step 3: for each client whose masked numbers have arrived, which neighbours' have, too.

        Raises:
            DropoutError: of too many they have not.
        """
        self.present = sorted(masked_rows)
        self._masked = fields.sum_lanes(
            [fields.unpack(masked_rows[client]) for client in self.present]
        )
        bits = np.isin(self.neighbours, self.present)
        # Each client has t neighbours that tell their shares, or there is no use in asking.
        if (bits.sum(axis=1) < self.threshold).any():
            absent_count = len(self.neighbours) - len(self.present)
            raise DropoutError(f"{absent_count} of {len(self.neighbours)} clients have dropped out")
        return {client: np.packbits(bits[client]).tobytes() for client in self.present}

    @property
    def threshold(self) -> int:
        """Shares t that recover a secret."""
        return threshold_of(self.neighbours.shape[1])

    def unmask(self, answers: Mapping[int, bytes], fields: Fields) -> Lanes:
        """Step 4: the lanes (n,) of the sum, given what clients have told.

        Raises:
            DropoutError: too few have told.
            ValueError: what they have told is not the shares of the clients' secrets.
        """
        assert self._masked is not None
        shares_by_client: list[dict[int, int]] = [{} for _ in self.neighbours]
        for client, answer in answers.items():
            for j, share in zip(
                self.neighbours[client], _cut(answer, shares.SHARE_BYTES), strict=True
            ):
                shares_by_client[j][self._places[j][client] + 1] = int.from_bytes(share, "little")
        total, publics = (
            self._masked.copy(),
            [public[: encryption.KEY_BYTES] for public in self._publics],
        )
        for client, client_shares in enumerate(shares_by_client):
            if len(client_shares) < self.threshold:
                raise DropoutError(f"{len(client_shares)} of {self.threshold} neighbours have told")
            secret = shares.recover(dict([*client_shares.items()][: self.threshold]))
            if secret >= 2 ** (8 * encryption.KEY_BYTES):
                raise ValueError("shares do not belong together")
            private = secret.to_bytes(encryption.KEY_BYTES, "little")
            if client in self.present:
                total -= Stream(private).draw(fields)
                continue
            key = self._secrets.restore(f"{self._purpose}/masks", private)
            if key.public != publics[client]:
                raise ValueError("shares do not belong together")
            for peer in self.neighbours[client]:
                if peer in self.present:
                    mask = Stream(derive(key.agree(publics[peer]), "masks")).draw(fields)
                    total += mask if publics[client] < publics[peer] else -mask
        return fields.sum_lanes([total])

    @cached_property
    def _places(self) -> list[dict[int, int]]:
        """Where each client stands among the neighbours of each other one."""
        return [{int(j): x for x, j in enumerate(row)} for row in self.neighbours]
