"""The fields of messages as bytes, little-endian, and back."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from plfl.interfaces.codec import LARGEST_SENT, CodecError, Field

Bytes = NDArray[np.uint8]


def give_types(fields: tuple[Field, ...], arrays: list[NDArray[Any]]) -> list[NDArray[Any]]:
    """The arrays with the types of a message's fields, as the receiver gets them. CodecError: a
    code is out of range, or a number is implausible, or not finite."""
    types = (np.uint8 if field.kind == "code" else field.kind for field in fields)
    parts = zip(fields, arrays, types, strict=True)
    return [_check_values(field, np.ascontiguousarray(array, kind)) for field, array, kind in parts]


def pack(fields: tuple[Field, ...], arrays: list[NDArray[Any]]) -> Bytes:
    """The messages (n, bytes) of n clients."""
    return np.concatenate([*map(_pack, fields, give_types(fields, arrays))], axis=1)


def unpack(fields: tuple[Field, ...], messages: Bytes) -> list[NDArray[Any]]:
    """The inverse of `pack`. CodecError: the messages have another length, or see `give_types`."""
    size = sum(field.size for field in fields)
    if messages.shape[1] != size:
        raise CodecError(f"the coded update has {messages.shape[1]} bytes, expected {size}")
    ends = np.cumsum([field.size for field in fields])[:-1]
    parts = np.split(messages, ends, axis=1)
    return [_unpack(field, part) for field, part in zip(fields, parts, strict=True)]


def _check_values(field: Field, array: NDArray[Any]) -> NDArray[Any]:
    """The array; values that no sender can have sent are refused."""
    if field.kind == "code" and array.size and array.max() >= field.levels:
        raise CodecError(
            f"the coded update has the code {array.max()}, which is not below {field.levels}"
        )
    if array.dtype.kind == "f" and not (np.abs(array.astype(np.float32)) <= LARGEST_SENT).all():
        raise CodecError("the coded update has numbers that are implausible, or not finite")
    return array


def _pack(field: Field, array: NDArray[Any]) -> Bytes:
    if field.kind != "code" or field.bits == 8:
        return array.view(np.uint8)
    bits = (array[..., None] >> np.arange(field.bits, dtype=np.uint8)) & 1
    return np.packbits(bits.reshape(len(array), -1), axis=1, bitorder="little")


def _unpack(field: Field, field_bytes: Bytes) -> NDArray[Any]:
    if field.kind != "code":
        return _check_values(field, np.ascontiguousarray(field_bytes).view(field.kind))
    bits = np.unpackbits(field_bytes, axis=1, bitorder="little")
    used_bits = field.count * field.bits
    if bits[:, used_bits:].any():
        raise CodecError("the coded update has bits after its last code")
    digits = bits[:, :used_bits].reshape(len(field_bytes), field.count, field.bits)
    places = np.arange(field.bits, dtype=np.uint8)
    return _check_values(field, (digits << places).sum(-1, dtype=np.uint8))
