"""A user's own module, found by its file: see docs/models.md."""

import inspect
from pathlib import Path
from typing import Any

from pydantic import Field
from torch import Tensor, nn

from plfl.base.errors import PlflError
from plfl.base.files import sha256
from plfl.config.messages import allowed
from plfl.config.sections import Patterns
from plfl.layout import WindowShape
from plfl.models import Model
from plfl.plugins import import_file


def given(shape: WindowShape) -> dict[str, int]:
    """The arguments of every module; `outputs` only if there are several."""
    sizes = shape._asdict()
    if shape.outputs == 1:
        del sizes["outputs"]
    return sizes


def _takes(forward: Any, arguments: int) -> bool:
    """Whether it is a function that can be called with this many arguments."""
    try:
        inspect.signature(forward).bind(*range(arguments))
    except TypeError:
        return False
    return True


def _adapted(module: type[nn.Module], reads_covariates: bool) -> type[nn.Module]:
    """The class, with a `forward` that returns one forecast per window (B,) where the class has (B,
    1), and that leaves out covariates which the class does not read."""

    def forward(self: nn.Module, sequence: Tensor, covariates: Tensor) -> Any:
        inputs = (sequence, covariates) if reads_covariates else (sequence,)
        forecasts = module.forward(self, *inputs)
        is_column = isinstance(forecasts, Tensor) and forecasts.shape[1:] == (1,)
        return forecasts[:, 0] if is_column else forecasts

    return type(module.__name__, (module,), {"forward": forward, "__module__": module.__module__})


class OwnModule(Model):
    """A class of a Python file, which is called with `inputs`, `look_back`, `covariates`,
    `arguments` and, if there are several, the number of `outputs`."""

    name = "own_module"

    module: str = Field(pattern=r"^.+\.py:[A-Za-z_]\w*$")
    """File and class: `mine.py:Net`. The path is relative to the working directory."""
    arguments: dict[str, Any] = Field({})
    """Further arguments of the class."""
    head: Patterns = Field([])
    """Patterns of the parameters in the group `head`. Empty: those of the last layer."""

    @property
    def head_patterns(self) -> list[str]:  # type: ignore[override]
        return self.head

    @property
    def settings(self) -> dict[str, Any]:
        """The keys, and a digest of the file, so that a change of it trains cells again."""
        return super().settings | {"sha256": self._digest}

    @property
    def summary(self) -> str:
        return self.module

    @property
    def _file(self) -> Path:
        return Path(self.module.rpartition(":")[0])

    @property
    def _digest(self) -> str:
        try:
            return sha256(self._file)
        except FileNotFoundError:
            problem = "the file does not exist; correct the path, which is relative to the working "
            raise PlflError(f"model.module: {self._file}: {problem}directory") from None
        except OSError as error:
            problem = error.strerror or "cannot be read"
            raise PlflError(f"model.module: {self._file}: {problem}; correct the path") from None

    def build(self, shape: WindowShape) -> nn.Module:
        built, sizes = self._class(), given(shape)
        for name in sizes.keys() & self.arguments.keys():
            raise PlflError(f"model.arguments: {name} follows from the study; remove it")
        try:
            inspect.signature(built).bind(**sizes, **self.arguments)
        except TypeError as error:
            names = ", ".join((*sizes, *self.arguments))
            raise PlflError(
                f"model.arguments: {self.module} cannot be called with {names}: {error}; correct "
                "model.arguments, or the arguments of __init__"
            ) from None
        module: nn.Module = built(**sizes, **self.arguments)
        forward = getattr(module, "forward", None)
        ignores = shape.covariates == 0 and not _takes(forward, 2) and _takes(forward, 1)
        if ignores or (shape.outputs == 1 and _takes(forward, 2)):
            module.__class__ = _adapted(type(module), not ignores)
        return module

    def _class(self) -> Any:
        name = self.module.rpartition(":")[2]
        try:
            content = vars(import_file(self._file, self._digest))
        except PlflError as error:
            raise PlflError(f"model.module: {error}") from None
        if name in content:
            return content[name]
        classes = [
            key
            for key, value in content.items()
            if isinstance(value, type) and issubclass(value, nn.Module) and not key.startswith("_")
        ]
        known = allowed(name, classes) if classes else "it defines no torch.nn.Module"
        raise PlflError(f"model.module: {self._file} has no class {name!r}; {known}")
