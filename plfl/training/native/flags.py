"""How the kernels are compiled: their files, and the compiler's flags.

`setup.py`, which compiles it for wheels, reads this file without the rest of plfl.
"""

import hashlib
import platform
from pathlib import Path

NATIVE_FOLDER = Path(__file__).parent
SOURCE = "kernel.cpp"
HEADER_FILES = (
    *("vectors.h", "products.h", "model.h", "lstm.h", "mlp.h", "group.h"),
    *("optimisers.h", "training.h", "prediction.h", "draws.h"),
)
"""The headers that the source includes."""
FOREST = "forest.cpp"
"""What forecasts by trees. It includes none of them, and its `plain` build is as fast as others."""
# Without -ffast-math: a diverged model must show its NaN.
FLAGS = ["-std=c++17", "-O3", "-ffp-contract=fast", "-shared", "-fPIC", "-pthread"]
INSTRUCTIONS = {
    "avx512": ["-mavx512f", "-mavx512vl", "-mavx512bw", "-mavx512dq", "-mavx2", "-mfma"],
    "avx2": ["-mavx2", "-mfma"],
    "plain": [],
}
"""Further flags by instruction set, best first; `plain` is what every processor of a kind has."""
BUILDS = (*((SOURCE, name) for name in INSTRUCTIONS), (FOREST, "plain"))
"""The source and the instruction set of each build."""


def stem(instructions: str, source: str = SOURCE) -> str:
    """The name of a build for one of INSTRUCTIONS, made from source, flags and kind of machine."""
    files = (source, *HEADER_FILES) if source == SOURCE else (source,)
    content = ((NATIVE_FOLDER / name).read_bytes() for name in files)
    code = digest(*content, *FLAGS, *INSTRUCTIONS[instructions], platform.machine())
    return f"{Path(source).stem}-{instructions}-{code}"


def digest(*parts: str | bytes) -> str:
    """16 hexadecimal digits of a hash of `parts`."""
    content = b"\0".join(part.encode() if isinstance(part, str) else part for part in parts)
    return hashlib.sha256(content).hexdigest()[:16]
