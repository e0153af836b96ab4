"""What happens before Django sees a request: bodies in chunks are measured, sockets of other sites refused."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from channels.security.websocket import AllowedHostsOriginValidator
from django.conf import settings
from django.http.request import split_domain_port

from htam_site.middleware import body_limit

DEFAULT_PORTS = {"http": "80", "https": "443"}


class MeasuredBody:
    """Gives a body that comes in chunks the length it left out, so that `BodyLimit` refuses it like any other.

    A body that passes the limit is read no further, and arrives empty.
    """

    def __init__(self, application: Any) -> None:
        self.application = application

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if not any(name == b"transfer-encoding" for name, _ in scope["headers"]):
            await self.application(scope, receive, send)
            return
        held, size = await read_body(receive, body_limit(scope["path"]))
        declared = [header for header in scope["headers"] if header[0] != b"content-length"]
        measured = {**scope, "headers": [*declared, (b"content-length", str(size).encode())]}

        async def replay() -> dict[str, Any]:
            return held.pop(0) if held else await receive()

        await self.application(measured, replay, send)


async def read_body(receive: Any, limit: int) -> tuple[list[dict[str, Any]], int]:
    """The messages of a body and its length; one empty message as soon as the length passes the limit."""
    held: list[dict[str, Any]] = []
    size = 0
    while True:
        message = await receive()
        held.append(message)
        size += len(message.get("body", b""))
        if size > limit:
            return [{"type": "http.request", "body": b"", "more_body": False}], size
        if message["type"] != "http.request" or not message.get("more_body"):
            return held, size


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
