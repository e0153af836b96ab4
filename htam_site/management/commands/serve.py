"""Start the web server and a worker together; Ctrl-C or SIGTERM ends both."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from htam_site.accounts.people import ensure_admin, login_path
from htam_site.management.commands.login_link import base_url
from htam_site.supervisor import PortBusy, Supervisor, claim_port


class Command(BaseCommand):
    help = __doc__ or ""

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default=settings.HOST, help="default HTAM_HOST or 127.0.0.1")
        parser.add_argument("--port", type=int, default=settings.PORT, help="default HTAM_PORT or 8000")
        parser.add_argument("--no-worker", action="store_true", help="web only; start workers elsewhere")

    def handle(self, *args: Any, **options: Any) -> None:
        host, port = options["host"], options["port"]
        try:
            claim_port(host, port)
        except PortBusy as error:
            raise CommandError(str(error)) from None
        supervisor = Supervisor(base_url(host, port), settings.BASE_DIR)
        supervisor.start_web(host, port)
        if not options["no_worker"]:
            supervisor.start_worker()
        status = supervisor.run(on_ready=lambda: self._announce(base_url(host, port)))
        if status:
            raise CommandError("A part of HTAM ended by itself; its message is above.", returncode=status)

    def _announce(self, base: str) -> None:
        self.stdout.write("")
        self.stdout.write(f"  HTAM answers at {base}/")
        self.stdout.write(f"  Sign in once, within an hour: {base}{login_path(ensure_admin())}")
        self.stdout.write("  Another link: python manage.py login_link. Ctrl-C stops web and worker.")
        self.stdout.write("")
        self.stdout.flush()
