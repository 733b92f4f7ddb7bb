"""A device that is not the CPU, on machines that have no other.

Its tensors are the CPU's in disguise: they call themselves PyTorch's `meta` device, do not mix with
those of the CPU, and have no memory that NumPy could look into, just as on a GPU. Each wait for
the GPU, and each number sent to it, is counted by the line of ours that asked for it.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import plfl

HERE, THERE = torch.device("cpu"), torch.device("meta")
ROOT = Path(plfl.__file__).parents[1]
OURS = str(ROOT / "plfl")
"""How the paths of our packages begin."""
WAITING = {"_local_scalar_dense", "nonzero", "_unique2", "unique_dim", "masked_select", "equal"}
"""Operations whose outcome, or the shape of it, the program goes on with."""


class Disguised(Tensor):
    """A tensor that is `there`, for the others; its numbers are `here`."""

    here: Tensor

    @staticmethod
    def __new__(cls, here: Tensor) -> "Disguised":
        found: Disguised = Tensor._make_wrapper_subclass(
            cls,
            here.shape,
            strides=here.stride(),
            storage_offset=here.storage_offset(),
            dtype=here.dtype,
            device=THERE,
        )
        found.here = here
        return found

    @classmethod
    def __torch_dispatch__(cls, func: Any, *args: object) -> NoReturn:
        raise RuntimeError(f"{func} outside of `elsewhere`")

    def numpy(self, *, force: bool = False) -> NoReturn:
        raise TypeError("this tensor is elsewhere; use Tensor.cpu() to copy it")

    def tolist(self) -> Any:
        return self.cpu().tolist()


class _Made(TorchFunctionMode):
    """Tensors of Python numbers are made here and brought there, as on a GPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is Tensor.new_tensor and isinstance(args[0], Disguised):
            return torch.tensor(args[1], dtype=kwargs.get("dtype", args[0].dtype)).to(THERE)
        if func in (torch.tensor, torch.as_tensor) and kwargs.get("device") == THERE:
            device = kwargs.pop("device")
            return func(*args, **kwargs).to(device)
        return func(*args, **kwargs)


class _Dispatched(TorchDispatchMode):
    """Does `there` what it is asked, here."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled; to skip takes a wrapper around each operation

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.waits: Counter[str] = Counter()
        self.whole: set[Any] = set()
        """Operations that have no parts."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func not in self.whole:
            with self:
                in_parts = func.decompose(*args, **kwargs)
            if in_parts is not NotImplemented:
                return in_parts
            self.whole.add(func)
        name, device = func.name().removeprefix("aten::").split(".")[0], kwargs.get("device")
        if device is not None:
            kwargs["device"] = HERE
        tensors: list[Tensor] = []

        def here(x: Tensor) -> Tensor:
            tensors.append(x)
            return x.here if isinstance(x, Disguised) else x

        args_here, kwargs_here = _map_tensors(here, args), _map_tensors(here, kwargs)
        there = [x for x in tensors if isinstance(x, Disguised)]
        stays = bool(there) if device is None else torch.device(device) == THERE
        if name == "copy_":
            stays = isinstance(args[0], Disguised)
        self._check(func, name, tensors, args)
        sent = stays and name in ("_to_copy", "copy_") and not isinstance(tensors[-1], Disguised)
        if sent or (there and (name in WAITING or not stays or _is_masked(name, args))):
            self._wait()
        out = func(*args_here, **kwargs_here)
        if not stays:
            return out
        # What was changed in place is still the same tensor.
        known = {id(x.here): x for x in there}

        def disguised(x: Tensor) -> Tensor:
            return known[id(x)] if id(x) in known else Disguised(x)

        return _map_tensors(disguised, out)

    def _check(self, func: Any, name: str, tensors: list[Tensor], args: Any) -> None:
        """Raise a RuntimeError where a GPU would."""
        for x in tensors:
            assert isinstance(x, Disguised) or x.device == HERE, f"{func}: has lost its numbers"
        if name == "_to_copy" or name == "copy_":
            return
        if name.startswith(("index", "_index")) and isinstance(args[0], Disguised):
            tensors = [args[0], *args[2:]]  # an index may be here: it is brought there
        if len({x.device for x in tensors if isinstance(x, Tensor) and x.dim()}) > 1:
            raise RuntimeError(f"{func}: expected all tensors to be on the same device")

    def _wait(self) -> None:
        frame: FrameType | None = sys._getframe()
        while frame is not None and not frame.f_code.co_filename.startswith(OURS):
            frame = frame.f_back
        if frame is not None:
            file = Path(frame.f_code.co_filename).relative_to(ROOT)
            self.waits[f"{file}:{frame.f_lineno}"] += 1


def _map_tensors(function: Callable[[Tensor], Tensor], value: Any) -> Any:
    """A value of an operation, a tensor or a list, tuple or dictionary of values, with `function`
    of each tensor in its place. PyTorch's own function takes several times as long."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, list | tuple):
        return type(value)([_map_tensors(function, part) for part in value])
    if isinstance(value, dict):
        return {key: _map_tensors(function, part) for key, part in value.items()}
    return value


def _is_masked(name: str, args: Any) -> bool:
    """Whether a mask is the index, so that the number of values has to be found out."""
    indices = args[1] if name in ("index", "index_put_", "_index_put_impl_") else ()
    return any(isinstance(index, Tensor) and index.dtype == torch.bool for index in indices)


@contextmanager
def elsewhere() -> Iterator[Counter[str]]:
    """Makes `THERE` a device to compute on; how often a GPU is waited for, by line of ours."""
    dispatched = _Dispatched()
    # A disguise cannot be made in inference mode of what was made out of it.
    with torch.inference_mode(), dispatched, _Made():
        yield dispatched.waits
