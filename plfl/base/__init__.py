"""The base of all other packages: errors, files, text, Ctrl-C and whole numbers.

`Tensor` is torch's, in annotations of modules that must not wait for torch to be imported.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor as Tensor
else:
    Tensor = Any
