"""What is refused before Django sees it: bodies of any length in chunks, and sockets that another site opens."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

from channels.security.websocket import AllowedHostsOriginValidator
from django.conf import settings
from django.http.request import split_domain_port

DEFAULT_PORTS = {"http": "80", "https": "443"}


class BoundedBody:
    """Answers 413 as soon as a request's body passes the limit, whatever its Content-Length says or leaves out."""

    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        limit = settings.MAX_REQUEST_BYTES
        held: list[dict[str, Any]] = []
        size = 0
        if any(name == b"transfer-encoding" for name, _ in scope["headers"]):
            while True:
                message = await receive()
                held.append(message)
                size += len(message.get("body", b""))
                if size > limit:
                    await refuse(send, f"This server takes {limit / 1e6:.0f} MB at most.")
                    return
                if message["type"] != "http.request" or not message.get("more_body"):
                    break

        async def replay() -> dict[str, Any]:
            return held.pop(0) if held else await receive()

        await self.application(scope, replay, send)


async def refuse(send: Any, sentence: str) -> None:
    """A whole 413 answer."""
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps({"detail": sentence}).encode()})


class SameOrigin:
    """Lets a socket through when its Origin is the address it was sent to (port included) or a trusted origin.

    Channels' own validator, which runs as well, compares host names only: another program's page on the same host
    could then open sockets with this site's cookies.
    """

    def __init__(self, application: Any) -> None:
        self.validated = AllowedHostsOriginValidator(application)

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> Any:
        headers = dict(scope["headers"])
        origin = headers.get(b"origin", b"").decode("latin1")
        host = headers.get(b"host", b"").decode("latin1")
        if origin and not is_same_origin(origin, host):
            await send({"type": "websocket.close"})  # before the handshake: the client sees 403
            return None
        return await self.validated(scope, receive, send)


def is_same_origin(origin: str, host: str) -> bool:
    """Whether ``origin`` (scheme://host:port) names ``host``, or is one of CSRF_TRUSTED_ORIGINS."""
    if origin in settings.CSRF_TRUSTED_ORIGINS:
        return True
    parts = urlsplit(origin)
    name, port = split_domain_port(parts.netloc)
    wanted_name, wanted_port = split_domain_port(host)
    default = DEFAULT_PORTS.get(parts.scheme, "")
    return bool(name) and (name, port or default) == (wanted_name, wanted_port or default)
