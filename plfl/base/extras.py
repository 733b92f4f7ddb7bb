"""What only some users need is installed by extras of the package, such as `pip install
'plfl[study]'`. `require` says which one is missing."""

from importlib.util import find_spec

from plfl.base.errors import PlflError, Problem
from plfl.base.text import list_names

_OF_STUDIES = (
    "cryptography",
    *("snakemake", "jinja2", "altair", "vl_convert"),
    *("matplotlib", "seaborn", "scikit_posthocs"),
)
EXTRAS: dict[str, tuple[str, ...]] = {
    "study": _OF_STUDIES,
    "comstock": ("boto3",),
    "xlsx": ("openpyxl",),
    "holidays": ("holidays",),
    "publish": (*_OF_STUDIES, "rocrate"),
    "mlflow": ("mlflow",),
    "onnx": ("onnx", "onnxscript"),
    "pretrained": ("onnxruntime", "fracast"),
    "rc": ("constriction",),
    "secure": ("cryptography",),
    "deploy": ("cryptography", "flwr", "httpx", "uvicorn"),
}
"""The packages of each extra that plfl imports, by the names under which they are imported."""


def install_command(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install 'plfl[{extra}]'"


def require(extra: str, purpose: str) -> None:
    """Refuse a purpose, such as `plfl study`, whose extra is not installed.

    Raises:
        PlflError: a package is missing; the message names the command that installs it.
    """
    if missing := [name for name in EXTRAS[extra] if find_spec(name) is None]:
        raise PlflError(
            Problem(
                "",
                f"{purpose} needs packages that are not installed ({list_names(missing, 3)})",
                f"run {install_command(extra)}",
            )
        )
