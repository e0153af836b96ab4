"""Template vocabulary of the pages: outcomes, speed-ups, times, and the frame's navigation."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django import template
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.html import format_html
from django.utils.safestring import SafeString

from htam_site import figures
from htam_site.navigation import SECTIONS
from optimizer.choices import OUTCOMES, OperatorStatus, ReverificationStatus, RunStatus

register = template.Library()

# Status of an operator or run -> colour class of its badge (static/css/verdicts.css).
STATUS_COLOURS = {
    OperatorStatus.PENDING: "waiting",
    OperatorStatus.READY: "good",
    OperatorStatus.BLOCKED: "held",
    OperatorStatus.INVALID: "bad",
    RunStatus.QUEUED: "waiting",
    RunStatus.RUNNING: "live",
    RunStatus.PAUSED: "held",
    RunStatus.FINISHED: "good",
    RunStatus.STOPPED: "ended",
    RunStatus.CANCELLED: "ended",
    RunStatus.FAILED: "bad",
    ReverificationStatus.WAITING: "waiting",
    ReverificationStatus.DONE: "good",
}


@register.simple_tag
def page(name: str, fallback: str, *args: Any) -> str:
    """The address of a named page, or ``fallback`` where this installation has none."""
    try:
        return reverse(name, args=args)
    except NoReverseMatch:
        return fallback


@register.simple_tag(takes_context=True)
def sections(context: template.Context) -> list[dict[str, Any]]:
    """Entries of the rail, the current one marked."""
    request: HttpRequest | None = context.get("request")
    here = request.path if request else ""
    return [
        {
            "label": section.label,
            "icon": section.icon,
            "href": section.href,
            "current": here.startswith(section.href),
        }
        for section in SECTIONS
    ]


@register.simple_tag(takes_context=True)
def with_query(context: template.Context, **changes: Any) -> str:
    """The current query string with some parameters replaced; None removes one."""
    query = context["request"].GET.copy()
    for name, value in changes.items():
        if value is None:
            query.pop(name, None)
        else:
            query[name] = str(value)
    return query.urlencode()


@register.filter
def role_names(roles: Iterable[str] | None) -> str:
    return ", ".join(sorted(str(role) for role in roles or [])) or "no role yet"


@register.inclusion_tag("components/outcome.html")
def outcome_badge(outcome: str, title: str = "") -> dict[str, Any]:
    """Icon and word of an outcome (a key of `optimizer.choices.OUTCOMES`) in its colour."""
    label, css, icon = OUTCOMES.get(outcome, (outcome or "Pending", "slower", "dots"))
    return {"outcome": {"key": outcome, "label": label, "css": css, "icon": icon, "title": title or label}}


@register.simple_tag
def status_badge(status: str, label: str = "") -> SafeString:
    """The status of an operator or a run as a dot and a word."""
    colour = STATUS_COLOURS.get(status, "ended")  # type: ignore[call-overload]
    return format_html('<span class="status-word status-word-{}"><i></i>{}</span>', colour, label or status)


@register.simple_tag
def speedup(value: float | None, low: float | None = None, high: float | None = None) -> SafeString:
    """``1.84x [1.79, 1.90]``; muted when the interval contains 1."""
    if value is None:
        return format_html('<span class="speedup muted">{}</span>', figures.DASH)
    noise = figures.inside_noise(low, high)
    return format_html(
        '<span class="speedup{}" title="{}">{} <small>{}</small></span>',
        " muted" if noise else "",
        "Inside noise: the 95 % interval contains 1" if noise else "Median ratio, 95 % bootstrap interval",
        figures.ratio(value),
        figures.interval(low, high),
    )


def known(value: Any) -> float | None:
    """A template gives "" for what is missing."""
    return None if value in (None, "") else float(value)


@register.filter
def us(value: Any) -> str:
    """A time in microseconds as us, ms or s."""
    return figures.duration_us(known(value))


@register.filter
def size(value: Any) -> str:
    """Bytes in binary units."""
    return figures.size_bytes(known(value))


@register.simple_tag
def ago(moment: datetime | None) -> SafeString:
    """A relative time with the absolute on hover; `frame.js` keeps it current."""
    if moment is None:
        return format_html('<span class="muted">{}</span>', figures.DASH)
    seconds = (timezone.now() - moment).total_seconds()
    return format_html(
        '<time datetime="{}" title="{}" data-ago>{}</time>',
        moment.isoformat(timespec="milliseconds"),
        f"{moment:%Y-%m-%d %H:%M:%S} UTC",
        figures.ago(seconds),
    )


@register.simple_tag
def ago_iso(moment: str | None) -> SafeString:
    """`ago` of a time as the serializers give it."""
    return ago(parse_datetime(str(moment)) if moment else None)


@register.inclusion_tag("components/refuted.html")
def refuted(version: int | None) -> dict[str, Any]:
    """The mark of a result that a newer checker no longer finds correct; nothing without a version."""
    return {"version": version}


@register.filter
def words(name: str | None) -> str:
    """``row_reduction`` as ``Row reduction``."""
    text = (name or "").replace("_", " ").replace("-", " ").strip()
    return text[:1].upper() + text[1:]


@register.filter
def split(text: str) -> list[str]:
    return text.split()


@register.filter
def add_text(text: str, more: Any) -> str:
    """Join as text, whatever ``more`` is."""
    return f"{text}{more}"


@register.filter
def field(form: Any, name: str) -> Any:
    return form[name]
