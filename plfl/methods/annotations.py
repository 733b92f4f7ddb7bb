"""Types for the annotations of methods. The configuration imports every method, and must not wait
for the federation, which imports torch."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plfl.federated.federation import Federation as Federation
    from plfl.federated.session import Session as Session
else:
    Federation = Session = Any
