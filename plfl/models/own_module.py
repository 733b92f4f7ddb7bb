"""A user's own module, found by its file: see docs/models.md."""

import inspect
import logging
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import Field
from torch import nn

from plfl.base.errors import PlflError, Problem
from plfl.base.files import sha256
from plfl.base.keys import Key
from plfl.config.error_messages import list_allowed
from plfl.config.values import Patterns
from plfl.interfaces.model import Model
from plfl.layout import WindowShape
from plfl.plugins import import_file

log = logging.getLogger(__name__)

SIZE_ARGUMENTS = {
    "inputs": "input_size input_dim in_dim input_features in_features n_features num_features "
    "n_inputs num_inputs in_channels input_channels enc_in",
    "look_back": "lookback seq_len seq_length sequence_length window_size input_window "
    "input_length context_length",
    "covariates": "n_covariates num_covariates covariate_size covariate_dim",
    "outputs": "output_size output_dim out_dim out_features n_outputs num_outputs horizon horizons "
    "pred_len prediction_length forecast_horizon",
}
"""The sizes of a `WindowShape`, with other names that the arguments of a class have for them."""
USUAL: dict[str, float] = {
    name: value
    for names, value in (
        ("hidden hidden_size hidden_dim hidden_units n_hidden units width", 32),
        ("d_model embed_dim channels n_channels", 32),
        ("num_layers n_layers layers depth", 1),
        ("nhead num_heads n_heads heads", 4),
        ("dim_feedforward d_ff ff_dim", 64),
        ("kernel_size kernel", 3),
        ("dropout dropout_rate p_dropout", 0.1),
    )
    for name in names.split()
}
"""Values of arguments that a class must have and `model.arguments` does not name."""
_SIZE_OF = {name: size for size, names in SIZE_ARGUMENTS.items() for name in (size, *names.split())}


class OwnModule(Model):
    """A class of a Python file, which is called with the sizes of a window that it takes, such as
    `inputs`, `look_back`, `covariates` and `outputs`, and with `arguments`."""

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
            raise PlflError(
                Problem(
                    Key("model.module"),
                    f"{self._file}: the file does not exist",
                    "correct the path, which is relative to the working directory",
                )
            ) from None
        except OSError as error:
            problem = error.strerror or "cannot be read"
            raise PlflError(
                Problem(Key("model.module"), f"{self._file}: {problem}", "correct the path")
            ) from None

    def build(self, shape: WindowShape) -> nn.Module:
        module_class, sizes = self._class(), shape._asdict()
        if follows := sizes.keys() & self.arguments.keys():
            names = ", ".join(sorted(follows))
            raise PlflError(Problem(_ARGUMENTS, f"{names} follows from the study", "remove it"))
        module: nn.Module = module_class(**self._choose_arguments(module_class, sizes))
        return module

    def _choose_arguments(
        self, module_class: Callable[..., nn.Module], sizes: dict[str, int]
    ) -> dict[str, Any]:
        """What the class is called with. PlflError: all that is missing or has no place."""
        parameters = inspect.signature(module_class).parameters
        names = [name for name, p in parameters.items() if p.kind in (_EITHER, _BY_NAME)]
        arguments: dict[str, Any] = {n: sizes[_SIZE_OF[n]] for n in names if n in _SIZE_OF}
        takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        if takes_any:
            arguments |= sizes
        arguments |= self.arguments
        required = [n for n in names if parameters[n].default is inspect.Parameter.empty]
        usual = {n: USUAL[n] for n in required if n in USUAL and n not in arguments}
        problems = []
        if missing := [n for n in required if n not in arguments | usual]:
            values = ", ".join(f"{name}: …" for name in missing)
            text = f"{self.module} needs {', '.join(missing)}"
            problems.append(Problem(_ARGUMENTS, text, f"add {{{values}}}"))
        for name in self.arguments:
            if not takes_any and name not in names:
                choices = [choice for choice in names if choice not in sizes]
                remedy = list_allowed(name, choices) if choices else "remove it"
                text = f"{name!r} is no argument of {self.module}"
                problems.append(Problem(_ARGUMENTS, text, remedy))
        if problems:
            raise PlflError(*problems)
        if usual:
            _log_usual_values(
                self.module, ", ".join(f"{name} {value}" for name, value in usual.items())
            )
        return arguments | usual

    def _class(self) -> Any:
        name = self.module.rpartition(":")[2]
        try:
            content = vars(import_file(self._file, self._digest))
        except PlflError as error:
            raise error.locate_in(Key("model.module")) from None
        if name in content:
            return content[name]
        classes = [
            key
            for key, value in content.items()
            if isinstance(value, type) and issubclass(value, nn.Module) and not key.startswith("_")
        ]
        suggestion = list_allowed(name, classes) if classes else "it defines no torch.nn.Module"
        raise PlflError(
            Problem(Key("model.module"), f"{self._file} has no class {name!r}", suggestion)
        )


_ARGUMENTS = Key("model.arguments")
_EITHER, _BY_NAME = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY


@cache
def _log_usual_values(module: str, values: str) -> None:
    """Log, once, which values nobody chose."""
    log.info("model.arguments: %s is called with usual values: %s", module, values)
