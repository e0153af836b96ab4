"""Print a link that signs a user in once, within an hour."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, CommandParser

from htam_site.accounts.people import ADMIN, ensure_admin, login_path


def base_url(host: str, port: int) -> str:
    """The address to open in a browser for a server listening at ``host``."""
    name = "127.0.0.1" if host in {"0.0.0.0", "::", ""} else host
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


class Command(BaseCommand):
    help = __doc__ or ""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--user", default=ADMIN, help=f"user name (default {ADMIN}, which is made if missing)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(base_url(settings.HOST, settings.PORT) + login_path(self._user(options["user"])))

    def _user(self, name: str) -> User:
        if name == ADMIN:
            return ensure_admin()
        user = User.objects.filter(username=name, is_active=True).first()
        if user is None:
            raise CommandError(f"There is no active user called {name!r}.")
        return user
