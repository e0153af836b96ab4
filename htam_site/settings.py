"""Settings. Each has a default that needs no service; HTAM_* environment variables change it (see README)."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from htam_site import env
from htam_site.database import database_from_url
from htam_site.frontend import vendor_dirs
from htam_site.secret import secret_key
from memory.limits import MAX_BANK_BYTES

BASE_DIR = Path(__file__).resolve().parent.parent
VAR_DIR = Path(env.text("HTAM_VAR_DIR") or BASE_DIR / "var")  # database, secret key, scratch

DEBUG = env.flag("HTAM_DEBUG", False)
SECRET_KEY = secret_key(VAR_DIR)
HOST = env.text("HTAM_HOST") or "127.0.0.1"  # where `manage.py serve` listens
PORT = env.number("HTAM_PORT", 8000)
EVERY_ADDRESS = {"0.0.0.0", "::"}
ALLOWED_HOSTS = env.words("HTAM_ALLOWED_HOSTS", ["localhost", "127.0.0.1", "[::1]"])
if HOST not in {*ALLOWED_HOSTS, *EVERY_ADDRESS}:
    ALLOWED_HOSTS = [*ALLOWED_HOSTS, HOST]
CSRF_TRUSTED_ORIGINS = env.words("HTAM_TRUSTED_ORIGINS", [])

INSTALLED_APPS = [
    "daphne",  # first: it replaces runserver with an ASGI one
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "channels",
    "rest_framework",
    "knox",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_q",
    "htam_site",
    "memory",
    "optimizer",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "htam_site.middleware.StaticFiles",
    "htam_site.middleware.ContentSecurityPolicy",
    "htam_site.middleware.BodyLimit",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "htam_site.urls"
ASGI_APPLICATION = "htam_site.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "htam_site.context.frame",
            ],
        },
    }
]

DATABASES = {"default": database_from_url(env.text("HTAM_DATABASE_URL"), VAR_DIR)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}

AUTHENTICATION_BACKENDS = [
    "django.contrib.auth.backends.ModelBackend",
    "sesame.backends.ModelBackend",
]
SESAME_ONE_TIME = True
SESAME_MAX_AGE = timedelta(hours=1)
LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "login"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = env.flag("HTAM_HTTPS", False)
X_FRAME_OPTIONS = "DENY"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_TZ = True

STATIC_URL = "static/"
STATIC_ROOT = env.text("HTAM_STATIC_ROOT") or None  # only for `collectstatic`; pages need none
NODE_MODULES = BASE_DIR / "node_modules"
STATICFILES_DIRS: list[Path | tuple[str, Path]] = [BASE_DIR / "static", *vendor_dirs(NODE_MODULES)]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
WHITENOISE_USE_FINDERS = True
WHITENOISE_ALLOW_ALL_ORIGINS = False
SILENCED_SYSTEM_CHECKS = ["staticfiles.W004"]  # htam.W001 says it with the fix

DATA_UPLOAD_MAX_MEMORY_SIZE = 2 * 1024 * 1024
MAX_REQUEST_BYTES = 8 * 1000 * 1000  # operators and plans are kilobytes
MAX_IMPORT_BYTES = (
    MAX_BANK_BYTES + 1_000_000
)  # a bank file, and what a form or a choice of parts puts around it
CSRF_FAILURE_VIEW = "htam_site.error_pages.csrf_failure"

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "knox.auth.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["htam_site.roles.HasRole"],
    "DEFAULT_PAGINATION_CLASS": "htam_site.pagination.Pages",
    "PAGE_SIZE": 50,
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "EXCEPTION_HANDLER": "htam_site.errors.api_exception_handler",
}
REST_KNOX = {"TOKEN_TTL": timedelta(days=90), "AUTH_HEADER_PREFIX": "Token"}
SPECTACULAR_SETTINGS = {
    "TITLE": "HTAM API",
    "VERSION": "1",
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
    "SERVE_INCLUDE_SCHEMA": False,
    "ENUM_NAME_OVERRIDES": {
        "OperatorStatus": "optimizer.choices.OperatorStatus",
        "RunStatus": "optimizer.choices.RunStatus",
        "ReverificationStatus": "optimizer.choices.ReverificationStatus",
        "SteerStatus": "optimizer.choices.SteerStatus",
        "SteerKind": "optimizer.choices.SteerKind",
        "EvaluationKind": "optimizer.choices.EvaluationKind",
        "ChangeKind": "memory.models.ChangeKind",
        "ProposalKind": "memory.models.ProposalKind",
        "PartKind": "memory.api.preview.KINDS",
        "LedgerKind": "memory.history.json.LEDGER_KINDS",
        "DiffStatus": "memory.history.json.DIFF_STATUSES",
        "ProposalStatus": "memory.models.ProposalStatus",
    },
    "SERVE_PERMISSIONS": ["htam_site.roles.HasRole"],
}

REDIS_URL = env.text("HTAM_REDIS_URL")
CHANNEL_LAYERS = (
    {"default": {"BACKEND": "channels_redis.core.RedisChannelLayer", "CONFIG": {"hosts": [REDIS_URL]}}}
    if REDIS_URL
    else {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
)

# One queue per GPU: Q_CLUSTER_NAME picks it. `timeout` exceeds the longest step, `retry` exceeds `timeout`.
Q_CLUSTER = {
    "name": "htam",
    "orm": "default",
    "workers": env.number("HTAM_WORKERS", 1),
    "queue_limit": 1,  # a prefetched task's retry clock runs while it waits
    "timeout": 3600,
    "retry": 3900,
    "max_attempts": 0,
    "ack_failures": True,
    "catch_up": False,
    "poll": 0.2,
    "guard_cycle": 0.5,
    "label": "Queue",
    "ALT_CLUSTERS": {name: {} for name in env.words("HTAM_QUEUES", [])},
}

SENTINELS = env.flag(
    "HTAM_SENTINELS", True
)  # a worker tries known plans on its device before it judges others

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {
        "redact": {"()": "htam_site.logs.RedactSecrets"},
        "plain_refusals": {"()": "htam_site.logs.PlainRefusals"},
    },
    "formatters": {"line": {"format": "{asctime} {levelname} {name} {message}", "style": "{"}},
    "handlers": {
        "console": {
            "class": "logging.StreamHandler",
            "formatter": "line",
            "filters": ["plain_refusals", "redact"],
        }
    },
    "loggers": {"daphne": {"level": "WARNING"}, "django-q": {"level": "WARNING"}},
    "root": {"handlers": ["console"], "level": env.text("HTAM_LOG_LEVEL", "INFO")},
}
