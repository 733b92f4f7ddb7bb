"""Types that need cryptography, which comes with the extra `deploy`, for annotations alone."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plfl.deploy.keys import ClientKeys as ClientKeys
    from plfl.deploy.keys import Seal as Seal
    from plfl.deploy.keys import ServerKeys as ServerKeys
else:
    ClientKeys = Seal = ServerKeys = Any
