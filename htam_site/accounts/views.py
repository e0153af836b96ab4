"""Signing in by password or by a one-time link, one's own settings, and people for superusers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.contrib.auth import login, update_session_auth_hash
from django.contrib.auth.decorators import login_not_required, login_required
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm, SetPasswordForm
from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_GET, require_http_methods, require_POST
from knox.models import AuthToken
from sesame.utils import get_user

from htam_site.accounts import people, throttle
from htam_site.accounts.forms import ROLE_CHOICES, PersonForm, RolesForm
from htam_site.roles import Role, roles_of


class SignIn(LoginView):
    template_name = "accounts/login.html"
    redirect_authenticated_user = True

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """After too many failures the password is not even looked at."""
        if not throttle.is_blocked(request, self.username):
            return super().post(request, *args, **kwargs)
        form = AuthenticationForm(request)
        context = self.get_context_data(form=form, blocked_minutes=throttle.WINDOW // 60)
        answer = self.render_to_response(context, status=429)
        answer.headers["Retry-After"] = str(throttle.WINDOW)
        return answer

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        throttle.forget(self.request, self.username)
        return super().form_valid(form)

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        throttle.note_failure(self.request, self.username)
        return super().form_invalid(form)

    @property
    def username(self) -> str:
        return self.request.POST.get("username", "").strip()


@login_not_required
@never_cache
@require_GET
def login_link(request: HttpRequest) -> HttpResponse:
    """Sign in by the token in the address, once; without a valid one, say what to do."""
    user = get_user(request)
    if user is None:
        return render(request, "accounts/link_spent.html", status=403)
    login(request, user, backend="sesame.backends.ModelBackend")
    return redirect("/")


@login_required
def profile(request: HttpRequest) -> HttpResponse:
    """Who one is here, which roles one holds, and the password."""
    user: Any = request.user
    form_class = PasswordChangeForm if user.has_usable_password() else SetPasswordForm
    form = form_class(user, request.POST or None)
    if request.method == "POST" and form.is_valid():
        form.save()
        update_session_auth_hash(request, user)
        messages.success(request, "The password is set.")
        return redirect("settings:profile")
    return render(request, "accounts/profile.html", {"form": form})


profile = sensitive_post_parameters()(require_http_methods(["GET", "POST"])(profile))


@login_required
@never_cache
@require_http_methods(["GET", "POST"])
def tokens(request: HttpRequest) -> HttpResponse:
    """One's own API tokens. A new one shows once, in the answer to the POST, and is stored hashed."""
    if Role.VIEWER not in roles_of(request.user):
        raise PermissionDenied("Tokens need a role; ask an administrator for one.")
    fresh = AuthToken.objects.create(user=request.user)[1] if request.method == "POST" else ""
    mine = AuthToken.objects.filter(user=request.user).order_by("-created")
    return render(request, "accounts/tokens.html", {"tokens": mine, "fresh": fresh})


@login_required
@require_POST
def revoke_token(request: HttpRequest, key: str) -> HttpResponse:
    token = get_object_or_404(AuthToken, user=request.user, token_key=key)
    token.delete()
    messages.success(request, f"The token {key[:8]} is revoked.")
    return redirect("settings:tokens")


def superuser_only(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not getattr(request.user, "is_superuser", False):
            raise PermissionDenied("People are managed by an administrator.")
        return view(request, *args, **kwargs)

    return login_required(wrapped)


@superuser_only
@never_cache
def users(request: HttpRequest) -> HttpResponse:
    """Everyone with their roles; adds people."""
    form = PersonForm(request.POST or None)
    link = ""
    if request.method == "POST" and form.is_valid():
        try:
            user = people.add_person(form.cleaned_data["username"], form.cleaned_data["roles"])
            link = request.build_absolute_uri(people.login_path(user))
            form = PersonForm()
        except people.Refused as error:
            form.add_error("username", str(error))
    return render(request, "accounts/users.html", users_page(form, link))


def users_page(form: PersonForm, link: str) -> dict[str, Any]:
    everyone = User.objects.prefetch_related("groups").order_by("username")
    rows = [{"user": user, "roles": {group.name for group in user.groups.all()}} for user in everyone]
    return {"rows": rows, "form": form, "link": link, "role_choices": ROLE_CHOICES}


@superuser_only
@require_POST
def change_user(request: HttpRequest, pk: int) -> HttpResponse:
    user = get_object_or_404(User, pk=pk)
    form = RolesForm(request.POST)
    if not form.is_valid():
        messages.error(request, "That is not a role.")
        return redirect("settings:users")
    try:
        people.change_person(
            user, request.user, roles=form.cleaned_data["roles"], active=form.cleaned_data["active"]
        )
        messages.success(request, f"{user.username} is changed.")
    except people.Refused as error:
        messages.error(request, str(error))
    return redirect("settings:users")


@superuser_only
@never_cache
@require_POST
def user_link(request: HttpRequest, pk: int) -> HttpResponse:
    """A fresh one-time login link for somebody, shown once."""
    user = get_object_or_404(User, pk=pk, is_active=True)
    link = request.build_absolute_uri(people.login_path(user))
    return render(request, "accounts/users.html", users_page(PersonForm(), link))


@login_not_required
@never_cache
@require_GET
def health(request: HttpRequest) -> HttpResponse:
    """For load balancers and `manage.py serve`: the web process answers."""
    return HttpResponse("ok", content_type="text/plain")
