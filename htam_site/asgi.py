"""HTTP to Django, websockets to the live view, origins and sessions checked on the way."""

import os

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "htam_site.settings")
django_application = get_asgi_application()

from htam_site.transport import MeasuredBody, SameOrigin  # noqa: E402 - need the app registry
from optimizer.live.routing import websocket_urlpatterns  # noqa: E402

application = ProtocolTypeRouter(
    {
        "http": MeasuredBody(django_application),
        "websocket": SameOrigin(AuthMiddlewareStack(URLRouter(websocket_urlpatterns))),
    }
)
