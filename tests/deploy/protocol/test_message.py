"""Messages as bytes."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from plfl.deploy.protocol.endpoints import Message, MessageError

DTYPES = [torch.float32, torch.float64, torch.int32, torch.int64]
facts = st.dictionaries(
    st.text(max_size=8),
    st.one_of(st.integers(-(2**53), 2**53), st.floats(allow_nan=False), st.text(max_size=9)),
    max_size=4,
)


@st.composite
def arrays(draw):
    """Arrays of any bits, among them the many that are not a number."""
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(st.lists(st.integers(0, 4), max_size=3))
    size = int(np.prod(shape)) * dtype.itemsize
    raw = bytearray(draw(st.binary(min_size=size, max_size=size)))
    flat = torch.frombuffer(raw, dtype=dtype) if size else torch.empty(0, dtype=dtype)
    return flat.reshape(shape)


@given(facts, st.dictionaries(st.text("abc019", min_size=1, max_size=3), arrays(), max_size=3))
def test_round_trip(about, sent):
    message = Message.unpack(Message(about, sent).pack())
    assert message.about == about
    assert message.arrays.keys() == sent.keys()
    for name, array in sent.items():
        arrived = message.arrays[name]
        assert (arrived.shape, arrived.dtype) == (array.shape, array.dtype)
        assert arrived.numpy().tobytes() == array.numpy().tobytes()


@given(st.binary(max_size=200))
def test_what_is_no_message_is_refused(data):
    with pytest.raises(MessageError, match="not a plfl message"):
        Message.unpack(data)


@given(st.integers(0, 400), st.integers(1, 255))
def test_a_damaged_message_is_refused_or_read_but_never_more(position, change):
    data = bytearray(Message({"kind": "train"}, {"0": torch.zeros(50)}).pack())
    data[position % len(data)] ^= change
    try:
        message = Message.unpack(bytes(data))
    except MessageError:
        return
    assert sum(a.numel() * a.element_size() for a in message.arrays.values()) <= len(data)
