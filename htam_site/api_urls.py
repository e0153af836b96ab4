"""Routes of the REST API."""

from django.urls import include, path

urlpatterns = [
    path("", include("optimizer.api.urls")),
    path("", include("memory.api.urls")),
    path("", include("htam_site.accounts.api_urls")),
]
