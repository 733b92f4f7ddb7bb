"""Methods: what an algorithm adds to a round of federated learning, one file per algorithm.

`plfl.interfaces.method` has their class. The well-known ones are here.
"""

from functools import partial

from plfl.interfaces.method import ClusterState as ClusterState
from plfl.interfaces.method import Method as Method
from plfl.interfaces.method import MethodState as MethodState
from plfl.plugins import registry

available = partial(registry.available, __name__, Method)
