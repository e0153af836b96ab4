"""Routes of the REST API."""

from django.urls import include, path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

from htam_site.roles import Role, require_role

# The split view keeps its script in a file of its own, as our content security policy wants it.
docs = require_role(Role.VIEWER)(SpectacularSwaggerSplitView.as_view(url_name="schema"))

urlpatterns = [
    path("", include("optimizer.api.urls")),
    path("", include("memory.api.urls")),
    path("", include("htam_site.accounts.api_urls")),
    path("schema/", SpectacularAPIView.as_view(), name="schema"),
    path("docs/", docs, name="docs"),
]
