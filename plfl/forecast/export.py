"""A client's model as a program that needs no plfl: for PyTorch (.pt2) or as ONNX (.onnx).

The program reads windows in the units of the data, scales them, forecasts, and returns loads. A
description inside the file says what the windows are.
"""

import json
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from plfl import __version__
from plfl.base.errors import ConfigError, PlflError
from plfl.base.files import atomic
from plfl.data.windows import Scaling
from plfl.experiments.trainer import network_of
from plfl.layout import WindowShape
from plfl.study import Study
from plfl.tasks import Task, task_of

ABOUT = "about.json"
"""Name of the description inside the file."""


class Forecasting(nn.Module):
    """A client's model with its scaling."""

    offset: Tensor
    scale: Tensor

    def __init__(
        self,
        module: nn.Module,
        scaling: Scaling,
        relative: bool,
        task: Task,
        widths: NDArray[np.float64] | None = None,
    ):
        """Wrap the `module`. The widths are in units of its outputs."""
        super().__init__()
        self.module, self.relative, self.task = module, relative, task
        self.widths = None if widths is None else torch.from_numpy(widths * scaling.scale[0])
        self.register_buffer("offset", torch.from_numpy(scaling.offset))
        self.register_buffer("scale", torch.from_numpy(scaling.scale))

    def forward(self, readings: Tensor, covariates: Tensor) -> Tensor:
        """Loads in kWh per interval (B,), or (B, H) of several targets; quantiles (B, H, Q).
        The readings (B, T, F) are float64, in the units of the data; the covariates (B, G) are
        float32."""
        sequence = ((readings - self.offset) / self.scale).float()
        if self.relative:
            load = sequence[:, :, :1] - sequence[:, -1:, :1]
            sequence = torch.cat([load, sequence[:, :, 1:]], dim=2)
        outputs = self.module(sequence, covariates).double()
        level = self.offset[0]
        if self.relative:
            level = readings[:, -1, 0]
            if outputs.dim() > 1:
                level = level[:, None]
        return self.task.exported(level + self.scale[0] * outputs, self.widths)


def export(
    path: Path,
    study: Study,
    shape: WindowShape,
    row: Tensor,
    scaling: Scaling,
    widths: NDArray[np.float64] | None,
    about: dict[str, Any],
) -> None:
    """Write a model for `torch.export.load`, or for an ONNX runtime if `path` ends in .onnx.
    `about`: facts to store in the file, in addition to the form of its inputs.

    Raises:
        ConfigError: the model is not one that PyTorch can export.
        PlflError: the file has another suffix, or packages for ONNX are missing.
    """
    if path.suffix not in (".pt2", ".onnx"):
        raise PlflError(f"{path}: name a file that ends in .pt2 (for PyTorch) or .onnx")
    module = network_of(study, shape).module()
    nn.utils.vector_to_parameters(row.clone(), module.parameters())
    relative, task = study.windows.is_relative, task_of(study)
    program = Forecasting(module, scaling, relative, task, widths).eval()
    described = {
        "plfl": __version__,
        "readings": ["windows", shape.look_back, shape.inputs],
        "covariates": ["windows", shape.covariates],
        **about,
    }
    exported, text = traced(program, shape, study.model.summary), json.dumps(described, indent=1)
    with atomic(path) as temporary:
        if path.suffix == ".onnx":
            _write_onnx(temporary, exported, text)
        else:
            torch.export.save(exported, temporary, extra_files={ABOUT: text})


def _write_onnx(path: Path, program: torch.export.ExportedProgram, about: str) -> None:
    if not all(map(find_spec, ("onnx", "onnxscript"))):
        raise PlflError('ONNX needs further packages; install them with pip install "plfl[onnx]"')
    # ONNX refuses to squeeze a dimension that is not 1; PyTorch leaves it unchanged.
    for node in list(program.graph.nodes):
        if node.target is torch.ops.aten.squeeze.dim:
            given, dimension = node.args
            if given.meta["val"].shape[dimension] != 1:
                node.replace_all_uses_with(given)
                program.graph.erase_node(node)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about operators that the model does not have
        made = torch.onnx.export(program, dynamo=True, verbose=False)
    assert made is not None
    made.model.metadata_props[ABOUT] = about
    made.save(path)


def traced(program: Forecasting, shape: WindowShape, name: str) -> torch.export.ExportedProgram:
    """The program without plfl, which gives the same forecasts for any number of windows."""
    random = torch.Generator().manual_seed(0)

    def windows(number: int) -> tuple[Tensor, Tensor]:
        sequence = torch.rand(
            *(number, shape.look_back, shape.inputs), generator=random, dtype=torch.float64
        )
        readings = program.offset + program.scale * sequence
        return readings, torch.rand(number, shape.covariates, generator=random)

    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the tracing
            any_number = {0: torch.export.Dim("windows")}
            exported = torch.export.export(
                program, windows(3), dynamic_shapes=(any_number, any_number), strict=False
            )
            called = exported.module()
            for number in (1, 5):
                given = windows(number)
                near = 1e-5 * float(program.scale[0])  # single precision
                torch.testing.assert_close(called(*given), program(*given), rtol=1e-5, atol=near)
        return exported
    except Exception as error:  # tracing can fail in many ways
        first = next(iter(str(error).strip().splitlines()), "")
        problem = (
            f"{name} cannot be exported, because PyTorch cannot trace it ({type(error).__name__}: "
            f"{first}); use `plfl forecast` instead"
        )
        raise ConfigError("model", [problem]) from error
