"""A user's own module, found by its file: see docs/models.md."""

import inspect
from pathlib import Path
from typing import Any

from pydantic import Field
from torch import nn

from plfl.base.errors import PlflError
from plfl.base.files import sha256
from plfl.config.messages import allowed
from plfl.config.sections import Patterns
from plfl.layout import WindowShape
from plfl.models import Model
from plfl.plugins import import_file


class OwnModule(Model):
    """A class of a Python file, which is called with `inputs`, `look_back`, `covariates`, `outputs`
    and `arguments`."""

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
        built, sizes = self._class(), shape._asdict()
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
