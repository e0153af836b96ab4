"""Addresses: pages at the top, the API under /api/."""

from django.urls import include, path

urlpatterns = [
    path("", include("optimizer.urls")),
    path("memory/", include("memory.urls")),
    path("", include("htam_site.accounts.urls")),
    path("api/", include("htam_site.api_urls")),
]

handler400 = "htam_site.error_pages.bad_request"
handler403 = "htam_site.error_pages.forbidden"
handler404 = "htam_site.error_pages.not_found"
handler500 = "htam_site.error_pages.broken"
