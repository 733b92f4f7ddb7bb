"""The base of all other packages: errors, files, text, Ctrl-C and whole numbers.

`Tensor` and `Module` are torch's and `DataFrame` is pandas', in annotations of modules that must
not wait for these to be imported.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pandas import DataFrame as DataFrame
    from torch import Tensor as Tensor
    from torch.nn import Module as Module
else:
    Tensor = Module = DataFrame = Any
