"""HTTP to Django, websockets to the live view, origins and sessions checked on the way."""

import os

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "htam_site.settings")
django_application = get_asgi_application()

from optimizer.live.routing import websocket_urlpatterns  # noqa: E402 - needs the app registry

application = ProtocolTypeRouter(
    {
        "http": django_application,
        "websocket": AllowedHostsOriginValidator(AuthMiddlewareStack(URLRouter(websocket_urlpatterns))),
    }
)
