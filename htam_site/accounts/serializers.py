"""JSON of people and tokens."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from knox.models import AuthToken
from rest_framework import serializers

from htam_site.accounts.forms import ROLE_CHOICES
from htam_site.roles import roles_of


class MeSerializer(serializers.ModelSerializer[User]):
    roles = serializers.SerializerMethodField()

    class Meta:
        model = User
        fields = ["id", "username", "is_superuser", "roles"]

    def get_roles(self, user: User) -> list[str]:
        return sorted(role.value for role in roles_of(user))


class UserSerializer(MeSerializer):
    class Meta:
        model = User
        fields = ["id", "username", "is_superuser", "is_active", "last_login", "roles"]


class UserWriteSerializer(serializers.Serializer[Any]):
    username = serializers.CharField(max_length=150)
    roles = serializers.MultipleChoiceField(choices=ROLE_CHOICES, default=set)


class UserChangeSerializer(serializers.Serializer[Any]):
    roles = serializers.MultipleChoiceField(choices=ROLE_CHOICES, required=False)
    is_active = serializers.BooleanField(required=False)


class TokenSerializer(serializers.ModelSerializer[AuthToken]):
    key = serializers.CharField(source="token_key", help_text="The token's first characters, which name it.")

    class Meta:
        model = AuthToken
        fields = ["key", "created", "expiry"]


class FreshTokenSerializer(TokenSerializer):
    token = serializers.CharField(help_text="The whole token. It is shown this once and stored hashed.")

    class Meta:
        model = AuthToken
        fields = ["key", "created", "expiry", "token"]


class LoginLinkSerializer(serializers.Serializer[Any]):
    link = serializers.CharField(help_text="Signs the user in once, within an hour.")
