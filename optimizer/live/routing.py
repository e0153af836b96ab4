"""Addresses of the websockets."""

from __future__ import annotations

from typing import Any

from django.urls import re_path

from optimizer.live.consumers import Nowhere, RunConsumer

# RunConsumer.as_asgi() is typed as an ASGI application, which Django's stubs do not take for a view.
application: Any = RunConsumer.as_asgi()
websocket_urlpatterns: list[Any] = [
    re_path(r"^ws/runs/(?P<run_id>\d{1,18})/$", application),
    re_path(r"", Nowhere.as_asgi()),  # type: ignore[arg-type]
]
