from django.apps import AppConfig


class OptimizerConfig(AppConfig):
    name = "optimizer"
    verbose_name = "Optimizer"
    default_auto_field = "django.db.models.BigAutoField"
