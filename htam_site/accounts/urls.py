from django.contrib.auth.views import LogoutView
from django.urls import include, path

from htam_site.accounts import views

settings_patterns = [
    path("", views.profile, name="profile"),
    path("tokens/", views.tokens, name="tokens"),
    path("tokens/<slug:key>/revoke/", views.revoke_token, name="revoke-token"),
    path("users/", views.users, name="users"),
    path("users/<int:pk>/", views.change_user, name="change-user"),
    path("users/<int:pk>/link/", views.user_link, name="user-link"),
]

urlpatterns = [
    path("login/", views.SignIn.as_view(), name="login"),
    path("login/link/", views.login_link, name="login-link"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("healthz", views.health, name="health"),
    path("settings/", include((settings_patterns, "settings"))),
]
