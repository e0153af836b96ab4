"""REST of one's own account and tokens, and of people for superusers."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from knox.models import AuthToken
from rest_framework import mixins, status
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from rest_framework.viewsets import GenericViewSet

from htam_site.accounts import people
from htam_site.accounts.serializers import (
    FreshTokenSerializer,
    LoginLinkSerializer,
    MeSerializer,
    TokenSerializer,
    UserChangeSerializer,
    UserSerializer,
    UserWriteSerializer,
)
from htam_site.roles import Role


class IsSuperuser(BasePermission):
    message = "People are managed by an administrator."

    def has_permission(self, request: Request, view: APIView) -> bool:
        return bool(request.user.is_authenticated and request.user.is_superuser)


class MeView(APIView):
    """Who the caller is and which roles they hold."""

    @extend_schema(responses=MeSerializer)
    def get(self, request: Request) -> Response:
        user: Any = request.user
        return Response(MeSerializer(user).data)


class TokenViewSet(mixins.ListModelMixin, mixins.DestroyModelMixin, GenericViewSet[AuthToken]):
    """The caller's own API tokens."""

    queryset = AuthToken.objects.none()
    serializer_class = TokenSerializer
    write_role = Role.VIEWER
    lookup_field = "token_key"
    lookup_url_kwarg = "key"

    def get_queryset(self) -> QuerySet[AuthToken]:
        if not self.request.user.is_authenticated:
            return AuthToken.objects.none()
        return AuthToken.objects.filter(user=self.request.user).order_by("-created")

    @extend_schema(request=None, responses={201: FreshTokenSerializer})
    def create(self, request: Request) -> Response:
        token, secret = AuthToken.objects.create(user=request.user)
        data = {**TokenSerializer(token).data, "token": secret}
        return Response(data, status=status.HTTP_201_CREATED)


class UserViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, GenericViewSet[User]):
    """People and their roles; superusers only."""

    queryset = User.objects.prefetch_related("groups").order_by("username")
    serializer_class = UserSerializer
    permission_classes = [IsSuperuser]

    @extend_schema(request=UserWriteSerializer, responses={201: UserSerializer})
    def create(self, request: Request) -> Response:
        given = UserWriteSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        try:
            user = people.add_person(given.validated_data["username"], given.validated_data["roles"])
        except people.Refused as error:
            raise ValidationError({"detail": str(error)}) from None
        return Response(UserSerializer(user).data, status=status.HTTP_201_CREATED)

    @extend_schema(request=UserChangeSerializer, responses=UserSerializer)
    def partial_update(self, request: Request, pk: Any = None) -> Response:
        user = self.get_object()
        given = UserChangeSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        data = given.validated_data
        try:
            people.change_person(user, request.user, roles=data.get("roles"), active=data.get("is_active"))
        except people.Refused as error:
            raise ValidationError({"detail": str(error)}) from None
        return Response(UserSerializer(self.get_object()).data)

    @extend_schema(request=None, responses=LoginLinkSerializer)
    @action(detail=True, methods=["post"], url_path="login-link")
    def login_link(self, request: Request, pk: Any = None) -> Response:
        path = people.login_path(self.get_object())
        return Response({"link": request.build_absolute_uri(path)})
