"""Secrets never reach a log: a filter replaces their values, and whatever looks like a key, with a mark."""

from __future__ import annotations

import logging
import os
import re

MARK = "[redacted]"
_LOOKS_SECRET = re.compile(r"(sk-[A-Za-z0-9_-]{8,}|(?i:bearer|token)\s+[A-Za-z0-9._~+/-]{16,}=*)")
_SECRET_NAME = re.compile(r"(SECRET|PASSWORD|API_?KEY|TOKEN)", re.IGNORECASE)


def redact(text: str) -> str:
    """``text`` without the values of secret environment variables, SECRET_KEY, or key-shaped words."""
    from django.conf import settings

    secrets = [value for name, value in os.environ.items() if _SECRET_NAME.search(name) and len(value) >= 8]
    if settings.configured:
        secrets.append(settings.SECRET_KEY)
    for secret in secrets:
        text = text.replace(secret, MARK)
    return _LOOKS_SECRET.sub(MARK, text)


class PlainRefusals(logging.Filter):
    """A request that is refused (403) is no fault of ours: one line of log, without a traceback."""

    def filter(self, record: logging.LogRecord) -> bool:
        if getattr(record, "status_code", None) == 403:
            record.exc_info = record.exc_text = None
        return True


class RedactSecrets(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.msg = redact(record.getMessage())
        record.args = None
        return True
