from django.apps import AppConfig
from django.db.models.signals import post_migrate


class HtamSiteConfig(AppConfig):
    name = "htam_site"
    verbose_name = "HTAM"

    def ready(self) -> None:
        from htam_site import checks  # noqa: F401 - registers the system checks
        from htam_site.accounts.roles import make_groups

        post_migrate.connect(make_groups, dispatch_uid="htam_site.make_groups")
