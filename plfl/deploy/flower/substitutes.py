"""Replacements for private parts of Flower, installed by `programs`. Nothing here imports
Flower."""

import ipaddress
import os
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any

PAUSES = {3: 0.5, 0.5: 0.1}
"""Shorter pauses, in seconds, by the pauses of Flower's SuperNode that they replace: between two
polls for messages, and between two checks for a reply."""
FACTOR = 10.0
"""A pause lasts at least this many times as long as the work before it, but at most as long as
Flower's own pause. So a busy server is polled less often."""
FLEET = "/v1/fleet/"
"""The part of a SuperLink's interface that other machines may access. It requires authentication;
the other parts, such as starting a run or registering a key, do not."""

Scope = MutableMapping[str, Any]
Asgi = Callable[[Scope, Any, Any], Awaitable[None]]


def sleeper() -> Callable[[float], None]:
    """Replaces `time.sleep` in Flower's SuperNode, with shorter pauses."""
    woke = time.monotonic()

    def sleep(seconds: float) -> None:
        nonlocal woke
        worked = FACTOR * (time.monotonic() - woke)
        time.sleep(min(seconds, max(PAUSES.get(seconds, seconds), worked)))
        woke = time.monotonic()

    return sleep


def fork(program: Callable[[], object], command: list[str], **options: object) -> None:
    """Run a `program` with the arguments of a `command` in a copy of this process.

    The copy has done all imports, so it starts in milliseconds instead of a second.
    """
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    if os.fork():
        return
    status = 1
    try:
        sys.argv = command
        program()
    except SystemExit as end:
        status = 0 if end.code in (None, 0) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        # Skips the exit handlers, which belong to the parent.
        os._exit(status)


def guarded(app: Asgi) -> Asgi:
    """`app`, where other machines can only access `FLEET`; other paths get status 403."""

    async def guard(scope: Scope, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and not scope["path"].startswith(FLEET):
            (client, _), (server, _) = scope["client"] or ("", 0), scope["server"] or ("", 0)
            if not (client == server or _is_loopback(client)):
                await send({"type": "http.response.start", "status": 403, "headers": []})
                await send({"type": "http.response.body", "body": b"local access only"})
                return
        await app(scope, receive, send)

    return guard


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
