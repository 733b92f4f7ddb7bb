"""Coded messages of a federation: the codecs, and what sender and receiver remember of messages.

v is what a client or the server wants to send, C the codec:

- without a memory: C(v) is sent.
- `ef14` (up): p = v + e_i; C(p) is sent; e_i ← p − C(p). What is sent over all rounds sums to the
  sum of v minus the last e_i. Source: Frank Seide, Hao Fu, Jasha Droppo, Gang Li and Dong Yu,
  "1-bit stochastic gradient descent and its application to data-parallel distributed training of
  speech DNNs", Interspeech 2014.
- `ef21` (up): both ends keep h_i, 0 at first; C(v − h_i) is sent; h_i ← h_i + C(v − h_i) arrives.
  Source: Peter Richtárik, Igor Sokolov and Ilyas Fatkhullin, "EF21: A New, Simpler, Theoretically
  Better, and Practically Faster Error Feedback", NeurIPS 2021, https://arxiv.org/abs/2106.05203.
- `delta` (down): as `ef21`, starting from the initial parameters, which both ends know.

Each end has its own memory, which changes only when the upload of the round is sent or arrives.
Therefore nothing changes if a client drops out or its answer is lost: a deployed client then goes
on from its state before that round.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from plfl.config.channel import ChannelSettings
from plfl.config.named import Chain
from plfl.federated.codecs import entropy
from plfl.federated.codecs.packing import Bytes, give_types, pack, unpack
from plfl.interfaces.codec import Blocks, Codec, CodecError, Random, Rows

Direction = Literal["down", "up"]
End = Literal["sender", "receiver"]


class _Streams(Sequence[np.random.Generator]):
    """The random numbers of clients, drawn when a codec asks: most need none for decoding."""

    def __init__(self, clients: list[int], make: Callable[[list[int]], Random]):
        self._clients, self._make = clients, make

    @cached_property
    def _generator(self) -> Random:
        return self._make(self._clients)

    def __len__(self) -> int:
        return len(self._clients)

    def __getitem__(self, index: Any) -> Any:
        return self._generator[index]


class Coder:
    """Codes and decodes the shared parameters of a federation.

    `lengths`: numbers of shared parameters in each tensor of the model, in the order of a row;
    `x0`: the parameters (d_s,) that both ends start from; `clients`: their number; `streams`:
    random numbers for a purpose, some clients and a round, one generator per client.
    """

    def __init__(
        self,
        settings: ChannelSettings,
        lengths: Iterable[int],
        x0: Tensor,
        client_count: int,
        streams: Callable[[str, list[int], int], Random],
    ):
        self.blocks = blocks_of(settings.scales, tuple(lengths))
        self.up, self.down = settings.chain("up"), settings.chain("down")
        if any(chain and chain.entropy for chain in (self.up, self.down)):
            entropy.check_installed()
        self.clients, self.streams, self._x0 = client_count, streams, _array(x0)
        self._all_clients = torch.arange(client_count)
        self.memory: dict[str, Tensor] = {}
        """Rows (N, d_s) by direction and end, made for the first message that needs them."""
        self.round = 0
        """The round, from 1; 0 before the first, when nothing is coded."""
        self._staged: list[tuple[str, Tensor, Tensor]] = []

    def codes(self, direction: Direction) -> bool:
        """Whether the messages of a direction are coded."""
        return self._chain(direction) is not None

    def begin(self, t: int) -> None:
        """Begin round `t` once. Messages that were not followed by an upload are forgotten."""
        if t != self.round:
            self.round = t
            self._staged.clear()

    def most_bytes(self, direction: Direction) -> int:
        """Largest number of bytes of a message."""
        chain, _ = self._stages(direction)
        return most_bytes(chain, self.blocks)

    def blank(self, direction: Direction, clients: Tensor) -> list[Tensor]:
        """Placeholders of the largest size for messages that the other side sends."""
        return [torch.zeros(self.most_bytes(direction), dtype=torch.uint8)] * len(clients)

    def encode(self, direction: Direction, clients: Tensor, rows: Tensor) -> list[Tensor]:
        """The message to or from each client, of type uint8, for `rows` (n, d_s); empty for a row
        that is not finite, or too large for the codec."""
        chain, codec = self._stages(direction)
        target = _array(rows)
        memory = self._memory(direction, "sender", clients)
        if memory is not None:
            target = target + memory if chain.memory == "ef14" else target - memory
        sound = np.asarray(np.abs(target).max(1) <= codec.largest)  # false for NaN, too
        messages = [torch.empty(0, dtype=torch.uint8)] * len(target)
        if not sound.any():
            return messages
        senders = clients
        if not sound.all():
            senders, target = clients[torch.from_numpy(sound).to(clients.device)], target[sound]
            memory = None if memory is None else memory[sound]
        fields = codec.encode(target, self.blocks, self._random(direction, senders))
        fields = give_types(codec.fields(self.blocks), fields)
        for i, array in zip(sound.nonzero()[0], self._pack(direction, fields), strict=True):
            messages[i] = torch.from_numpy(array)
        if memory is not None:
            decoded = codec.decode(
                fields, self.blocks, self._random(direction, senders), remembers=True
            )
            new_memory = target - decoded if chain.memory == "ef14" else memory + decoded
            self._stage(direction, "sender", senders, new_memory)
        return messages

    def decode(
        self, direction: Direction, clients: Tensor, messages: Iterable[Tensor], template: Tensor
    ) -> Tensor:
        """The rows (n, d_s) that the messages of `clients` stand for, with the type and device of
        `template`; NaN for an empty message."""
        chain, _ = self._stages(direction)
        arrays = [message.cpu().numpy() for message in messages]
        full = np.array([len(array) > 0 for array in arrays])
        decoded = np.full((len(arrays), self.blocks.width), np.nan, dtype=np.float32)
        if full.any():
            senders = clients[torch.from_numpy(full).to(clients.device)]
            values = self._unpack(direction, [a for a in arrays if len(a)], senders)
            memory = (
                None if chain.memory == "ef14" else self._memory(direction, "receiver", senders)
            )
            if memory is not None:
                values = memory + values
                self._stage(direction, "receiver", senders, values)
            decoded[full] = values
        return torch.from_numpy(decoded).to(template)

    def check(self, direction: Direction, message: Tensor) -> Tensor:
        """The row (d_s,) that a message alone stands for, without memories; in any order."""
        array = message.cpu().numpy()
        if not len(array):
            raise CodecError("the coded update is empty: it was not finite, or too large")
        return torch.from_numpy(self._unpack(direction, [array], None)[0])

    def commit(self, end: End, clients: Tensor) -> None:
        """Update an end's memory by the messages of `clients`, whose uploads it has sent or
        received."""
        keys = (f"up.{end}", "down.receiver" if end == "sender" else "down.sender")
        for key, staged_clients, rows in self._staged:
            if key in keys:
                indices = torch.isin(staged_clients, clients).nonzero()[:, 0]
                memory = self.memory[key]
                if torch.equal(staged_clients[indices].cpu(), self._all_clients):
                    self.memory[key] = rows.to(memory)
                    continue
                rows = rows.to(memory).index_select(0, indices.to(memory.device))
                memory.index_copy_(0, staged_clients[indices].to(memory.device), rows)

    def _chain(self, direction: Direction) -> Chain | None:
        return self.up if direction == "up" else self.down

    def _stages(self, direction: Direction) -> tuple[Chain, Codec]:
        chain = self._chain(direction)
        assert chain is not None
        assert isinstance(chain.codec, Codec)
        return chain, chain.codec

    def _random(self, direction: Direction, clients: Tensor | None) -> Random:
        if clients is None:
            return [np.random.default_rng(0)]
        purpose, t = f"codec/{direction}", self.round
        return _Streams(clients.tolist(), lambda some: self.streams(purpose, some, t))

    def _pack(self, direction: Direction, fields: list[NDArray[Any]]) -> Iterable[Bytes]:
        chain, codec = self._stages(direction)
        form = codec.fields(self.blocks)
        if not chain.entropy:
            return pack(form, fields)
        tails = [entropy.shorten(form[-1], codes) for codes in fields[-1]]
        heads = pack(form[:-1], fields[:-1])
        return map(np.concatenate, zip(heads, tails, strict=True))

    def _unpack(self, direction: Direction, arrays: list[Bytes], clients: Tensor | None) -> Rows:
        chain, codec = self._stages(direction)
        form = codec.fields(self.blocks)
        codes: list[NDArray[Any]] = []
        if chain.entropy:
            head = sum(field.size for field in form[:-1])
            codes = [np.stack([entropy.lengthen(form[-1], array[head:]) for array in arrays])]
            form, arrays = form[:-1], [array[:head] for array in arrays]
        for array in arrays:
            if len(array) != len(arrays[0]):
                unpack(form, array[None])  # raises: one of the two has a wrong length
        fields = unpack(form, np.stack(arrays)) + codes
        random = self._random(direction, clients)
        return codec.decode(fields, self.blocks, random, chain.memory is not None)

    def _memory(self, direction: Direction, end: End, clients: Tensor) -> Rows | None:
        """What an end remembers of `clients`, (n, d_s)."""
        chain, _ = self._stages(direction)
        if chain.memory is None:
            return None
        key = f"{direction}.{end}"
        if key not in self.memory:
            start = self._x0 if chain.memory == "delta" else np.zeros_like(self._x0)
            self.memory[key] = torch.from_numpy(start).expand(self.clients, -1).clone()
        memory = self.memory[key]
        if torch.equal(clients.cpu(), self._all_clients):
            return _array(memory)
        return _array(memory.index_select(0, clients.to(memory.device)))

    def _stage(self, direction: Direction, end: End, clients: Tensor, rows: Rows) -> None:
        self._staged.append((f"{direction}.{end}", clients, torch.from_numpy(rows)))


def most_bytes(chain: Chain, blocks: Blocks) -> int:
    """Largest number of bytes of a message; without range coding, of every message."""
    assert isinstance(chain.codec, Codec)
    return sum(field.size for field in chain.codec.fields(blocks)) + chain.entropy


def blocks_of(scales: str | int, lengths: tuple[int, ...]) -> Blocks:
    """The blocks of rows with tensors of these lengths; `scales` as `channel.scales`."""
    width = sum(lengths)
    if scales == "tensor":
        return Blocks(lengths)
    size = width if scales == "one" else int(scales)
    return Blocks(tuple(min(size, width - first) for first in range(0, width, size)))


def _array(rows: Tensor) -> Rows:
    array: Rows = rows.detach().cpu().to(torch.float32).numpy()
    return array
