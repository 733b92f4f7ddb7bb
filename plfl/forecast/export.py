"""A client's forecaster as a program that needs no plfl: a file of ONNX.

ONNX runtimes exist for Python, C#, Java, JavaScript, C++ and more. A description inside the file
says what the program reads.
"""

import json
import logging
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from plfl import __version__
from plfl.base.errors import ConfigError, PlflError, Problem
from plfl.base.extras import require
from plfl.base.files import atomic
from plfl.base.minutes import MINUTES_PER_WEEK
from plfl.forecast.programs import Program

ABOUT_FILE = "about.json"
"""Name of the description inside the file, a property of its metadata."""


def export(path: Path, program: Program, rows_after: int, facts: dict[str, Any]) -> None:
    """Write a program for ONNX runtimes, with `facts` about it in addition to the form of its
    inputs. `rows_after`: rows after the last reading that it reads, too. ConfigError: PyTorch
    cannot export the model. PlflError: the file has another suffix, or packages are missing."""
    if path.suffix != ".onnx":
        raise PlflError(Problem(path, "is no ONNX program", "name a file that ends in .onnx"))
    require("onnx", f"{path}: ONNX")
    row_count = program.row_count + rows_after
    form = {"readings": ["windows", row_count, len(program.scale)], "minute": ["windows"]}
    facts = {"plfl": __version__, **form, **facts}
    exported = trace(program, row_count)
    # ONNX refuses to squeeze a dimension that is not 1; PyTorch leaves it unchanged.
    for node in list(exported.graph.nodes):
        if node.target is torch.ops.aten.squeeze.dim:
            arguments, dimension = node.args
            if arguments.meta["val"].shape[dimension] != 1:
                node.replace_all_uses_with(arguments)
                exported.graph.erase_node(node)
    with torch.no_grad(), warnings.catch_warnings(), atomic(path) as temporary:
        warnings.simplefilter("ignore")  # about operators that the model does not have
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        try:
            onnx_program = torch.onnx.export(exported, dynamo=True, verbose=False)
        except Exception as error:  # operators can be missing
            raise _refusal(program, error) from error
        assert onnx_program is not None
        onnx_program.model.metadata_props[ABOUT_FILE] = json.dumps(facts, indent=1)
        onnx_program.save(temporary)


def trace(program: Program, row_count: int) -> torch.export.ExportedProgram:
    """The program without plfl, with the same forecasts for any number of windows of these rows."""
    random = torch.Generator().manual_seed(0)

    def windows(number: int) -> tuple[Tensor, Tensor]:
        size = number, row_count, len(program.scale)
        share = torch.rand(size, generator=random, dtype=torch.float64)
        minute = torch.randint(MINUTES_PER_WEEK, (number,), generator=random)
        return program.offset + program.scale * share, minute

    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the tracing
            any_number = {0: torch.export.Dim("windows")}
            exported = torch.export.export(
                program, windows(3), dynamic_shapes=(any_number, any_number), strict=False
            )
            exported_module = exported.module()
            for number in (1, 5):
                window_arguments = windows(number)
                near = 1e-5 * float(program.scale[0])  # single precision
                torch.testing.assert_close(
                    exported_module(*window_arguments),
                    program(*window_arguments),
                    rtol=1e-5,
                    atol=near,
                )
        return exported
    except PlflError:
        raise
    except Exception as error:  # tracing can fail in many ways
        raise _refusal(program, error) from error


def _refusal(program: Program, error: Exception) -> ConfigError:
    lines = [line for line in str(error).splitlines() if line.strip()]
    name = program.model.baseline or program.model.study.model.summary
    kind, reason = type(error).__name__, lines[0].strip() if lines else ""
    return ConfigError.at_key(
        "model", f"{name} cannot become a program of ONNX ({kind}: {reason})", "use `plfl forecast`"
    )
