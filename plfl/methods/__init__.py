"""Methods: what an algorithm adds to a round of federated learning, one file per algorithm.

In each round plfl asks the method what the server sends (`broadcast`), lets the clients train, and
gives the method what they did (`aggregate`). The method describes local training in a
`TrainInstructions`, in terms that every engine understands.

A method that keeps something between rounds defines a `MethodState`, which `init` returns. It
contains tensors with one row per client, and tensors of the server.

Server and clients communicate only through `f.channel`. Each side may use its own part of the state
and what it has received: in `plfl.deploy` the two sides are different machines, and both run the
method.

A method acts on the shared parameters only. Where nothing is shared (P3) it is never called.

The configuration imports every method. To start quickly, a file of a method imports torch inside
the functions that need it. `plfl.base` and `plfl.methods.annotations` have the types of torch
and of the federation for annotations.
"""

from functools import partial

from plfl.federated.hooks import ClusterState as ClusterState
from plfl.federated.hooks import Hooks
from plfl.federated.hooks import MethodState as MethodState
from plfl.plugins import registry


class Method(Hooks):
    """An algorithm: subclasses define its hyperparameters and override its hooks."""


available = partial(registry.available, __name__, Method)
