"""Types that need cryptography, which comes with the extra `deploy`, for annotations alone."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plfl.deploy.certificates import ClientKeys as ClientKeys
    from plfl.deploy.certificates import Seal as Seal
    from plfl.deploy.certificates import ServerKeys as ServerKeys
else:
    ClientKeys = Seal = ServerKeys = Any
