"""Addresses: pages at the top, the API under /api/."""

from django.urls import include, path

urlpatterns = [
    path("", include("optimizer.urls")),
    path("memory/", include("memory.urls")),
    path("", include("htam_site.accounts.urls")),
    path("api/", include("htam_site.api_urls")),
]
