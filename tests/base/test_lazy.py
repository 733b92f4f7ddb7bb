"""Large packages are imported when they are first used."""

import os
import subprocess
import sys

from tests.helpers.repository import ROOT


def test_a_lazy_package_is_imported_at_the_first_use_of_an_attribute() -> None:
    code = (
        "import sys; from plfl.base.lazy import pandas as pd; print('pandas' in sys.modules); "
        "print(pd.Series([2, 3]).sum(), 'pandas' in sys.modules)"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    output = subprocess.check_output([sys.executable, "-c", code], env=environment, text=True)
    assert output == "False\n5 True\n"
