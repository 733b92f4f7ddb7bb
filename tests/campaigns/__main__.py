"""Long test campaigns: `make campaign NAME=...`; without a name, they are listed."""

import os
import subprocess
import sys
from typing import NamedTuple

PYTHON = sys.executable
PYTEST = (PYTHON, "-m", "pytest")
HERE = "tests/campaigns"


class Campaign(NamedTuple):
    """Commands that run one after the other, in the root of the repository."""

    about: str
    commands: tuple[tuple[str, ...], ...]
    extra: str = ""
    """The extra of plfl that is installed first."""


CAMPAIGNS = {
    "torture": Campaign(
        "hundreds of faulty downloads, kills and corrupted files; tens of minutes",
        ((*PYTEST, f"{HERE}/test_torture.py", "--numprocesses", "auto"),),
    ),
    "wheel": Campaign(
        "a study in an empty folder with the installed wheel; a minute",
        ((*PYTEST, f"{HERE}/test_wheel.py"),),
    ),
    "reference-data": Campaign(
        "files of NREL, the authors and BDG2, read and compared; needs the files",
        ((*PYTEST, f"{HERE}/test_golden.py", f"{HERE}/test_reference_data.py"),),
    ),
    "crate": Campaign(
        "a published study in the validators of RO-Crate and Croissant; minutes; needs a network",
        ((*PYTEST, f"{HERE}/test_crate.py"),),
    ),
    "gpu": Campaign(
        "training on a CUDA GPU against the CPU; minutes; needs a GPU",
        ((*PYTEST, f"{HERE}/test_gpu.py"),),
    ),
    "browser": Campaign(
        "the report and the MLflow pages in a browser; a minute; needs chromium",
        ((*PYTEST, f"{HERE}/test_page.py", f"{HERE}/test_ui.py"),),
    ),
    "deploy-hosts": Campaign(
        "the two-host federation of docs/deploy.md; needs root and iproute2",
        ((*PYTEST, f"{HERE}/test_hosts.py"),),
        extra="deploy",
    ),
    "deploy-torture": Campaign(
        "twenty kills of Flower processes in the middle of rounds; fifteen minutes",
        ((*PYTEST, f"{HERE}/test_deploy_torture.py"),),
        extra="deploy",
    ),
    "deploy-wire": Campaign(
        "the network traffic of P1 and P2, measured with a proxy; five minutes",
        tuple((PYTHON, "-u", "-m", "tests.campaigns.deploy_wire", p) for p in ("P1", "P2")),
        extra="deploy",
    ),
    "slurm": Campaign(
        "the workflow on a SLURM cluster created on this machine; needs root and SLURM",
        ((f"{HERE}/slurm.sh", *PYTEST, f"{HERE}/test_slurm.py"),),
        extra="slurm",
    ),
    "kubernetes": Campaign(
        "the workflow through the Kubernetes executor, against a simulated API; needs the plugins",
        ((*PYTEST, f"{HERE}/test_kubernetes.py"),),
    ),
}


def run(campaign: Campaign) -> int:
    """Run a campaign; the exit code of the first command that fails, else 0."""
    commands = list(campaign.commands)
    if campaign.extra:
        pip = (PYTHON, "-m", "pip", "install", "--quiet", "--editable", f".[{campaign.extra}]")
        commands.insert(0, pip)
    # setuptools warns of every editable installation.
    quiet = os.environ | {"PYTHONWARNINGS": "ignore::UserWarning"}
    codes = (subprocess.run(command, env=quiet, check=False).returncode for command in commands)
    return next((code for code in codes if code), 0)


def main(name: str = "") -> int:
    """Run the campaign of this name; without one, list them."""
    if name in CAMPAIGNS:
        return run(CAMPAIGNS[name])
    print("make campaign NAME=...")
    for other, campaign in CAMPAIGNS.items():
        print(f"  {other:15} {campaign.about}")
    return 2 if name else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
