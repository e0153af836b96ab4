from django.urls import include, path
from rest_framework.routers import SimpleRouter

from htam_site.accounts import api

router = SimpleRouter()
router.register("tokens", api.TokenViewSet, basename="token")
router.register("users", api.UserViewSet, basename="user")

urlpatterns = [
    path("me/", api.MeView.as_view(), name="me"),
    path("", include(router.urls)),
]
