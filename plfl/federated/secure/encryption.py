"""Keys of clients: agreement of two, what is derived from it, and encryption of shares.

All primitives are those of the package `cryptography`: X25519, HKDF with SHA-256 and
ChaCha20-Poly1305.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b, shake_256
from typing import Any, Protocol

import numpy as np

from plfl.base.lazy import aead, exceptions, hashes, hkdf, x25519
from plfl.training.batches import stream

KEY_BYTES = 32
"""Bytes of a key."""
TAG = 16
"""Bytes that encryption adds to a text."""


class PrivateKey(Protocol):
    """A private key, with the public key that belongs to it."""

    @property
    def private(self) -> bytes:
        """What only its owner knows."""

    @property
    def public(self) -> bytes:
        """What the others see."""

    def agree(self, public: bytes) -> bytes:
        """The secret (32 bytes) that the owners of both keys can compute, and nobody else."""


class CurveKey:
    """A key of X25519 (RFC 7748)."""

    def __init__(self, private: bytes):
        self.private = private
        self._key = x25519.X25519PrivateKey.from_private_bytes(private)
        self.public = self._key.public_key().public_bytes_raw()

    def agree(self, public: bytes) -> bytes:
        return self._key.exchange(x25519.X25519PublicKey.from_public_bytes(public))


@dataclass(frozen=True)
class SimulatedKey:
    """A key of a simulation, of the same size: whoever knows the seed knows all secrets. It costs
    no operation on the curve."""

    private: bytes
    seed: bytes

    @cached_property
    def public(self) -> bytes:
        """What the other clients see."""
        return blake2b(self.private, digest_size=KEY_BYTES).digest()

    def agree(self, public: bytes) -> bytes:
        """The secret of both owners, whichever of them computes it."""
        public_keys = b"".join(sorted((self.public, public)))
        return blake2b(public_keys, key=self.seed, digest_size=KEY_BYTES).digest()


class Secrets(Protocol):
    """Where clients and server get random numbers from. `purpose` names the sum and what the
    numbers are for, `client` who draws them."""

    def key(self, purpose: str, client: int) -> PrivateKey:
        """A new key."""

    def restore(self, purpose: str, private: bytes) -> PrivateKey:
        """The key of this purpose with this private part."""

    def draw_bytes(self, purpose: str, client: int, size: int) -> bytes:
        """That many bytes."""

    def generator(self, purpose: str) -> np.random.Generator:
        """Random numbers that need not be secret."""


class SystemSecrets:
    """Numbers that nobody can guess or repeat, from the operating system's entropy."""

    def key(self, purpose: str, client: int) -> CurveKey:
        return CurveKey(os.urandom(KEY_BYTES))

    def restore(self, purpose: str, private: bytes) -> CurveKey:
        return CurveKey(private)

    def draw_bytes(self, purpose: str, client: int, size: int) -> bytes:
        return os.urandom(size)

    def generator(self, purpose: str) -> np.random.Generator:
        return np.random.default_rng()


@dataclass(frozen=True)
class SimulatedSecrets:
    """Numbers that follow from a seed, so that a simulation can be repeated."""

    seed: int

    def key(self, purpose: str, client: int) -> SimulatedKey:
        return self.restore(purpose, self.draw_bytes(f"{purpose}/key", client, KEY_BYTES))

    def restore(self, purpose: str, private: bytes) -> SimulatedKey:
        return SimulatedKey(private, shake_256(f"{self.seed}/{purpose}".encode()).digest(KEY_BYTES))

    def draw_bytes(self, purpose: str, client: int, size: int) -> bytes:
        return shake_256(f"{self.seed}/{purpose}/{client}".encode()).digest(size)

    def generator(self, purpose: str) -> np.random.Generator:
        return stream(self.seed, f"/secure/{purpose}", 0)


def derive(secret: bytes, purpose: str) -> bytes:
    """The key (32 bytes) for one purpose that follows from a secret."""
    info = f"plfl secure aggregation 1: {purpose}".encode()
    key: bytes = hkdf.HKDF(hashes.SHA256(), KEY_BYTES, salt=None, info=info).derive(secret)
    return key


def encrypt(key: bytes, text: bytes) -> bytes:
    """A text that only owners of the `key` can read or change; a key encrypts a single text."""
    sealed: bytes = _cipher(key).encrypt(bytes(12), text, None)
    return sealed


def decrypt(key: bytes, sealed: bytes) -> bytes:
    """The inverse of `encrypt`.

    Raises:
        ValueError: it was not encrypted with this key.
    """
    try:
        text: bytes = _cipher(key).decrypt(bytes(12), sealed, None)
    except exceptions.InvalidTag:
        raise ValueError(f"{len(sealed)} bytes are not encrypted with the agreed key") from None
    return text


def _cipher(key: bytes) -> Any:
    return aead.ChaCha20Poly1305(key)
