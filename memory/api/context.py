"""Query parameters that the memory's routes share."""

from __future__ import annotations

from drf_spectacular.utils import OpenApiParameter
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request

from memory.policy import EvidenceContext

CONTEXT_PARAMETERS = [
    OpenApiParameter("device", str, description="weigh evidence as seen from this device (kind:name)"),
    OpenApiParameter("dtype", str, description="weigh evidence as seen from this dtype"),
    OpenApiParameter("family", str, description="weigh evidence as seen from this operator family"),
]


def evidence_context(request: Request) -> EvidenceContext:
    """Whence statistics are seen; without parameters all evidence counts alike."""
    query = request.query_params
    return EvidenceContext(query.get("device", ""), query.get("dtype", ""), query.get("family", ""))


def id_filters(request: Request, names: dict[str, str]) -> dict[str, int]:
    """Query parameters that hold ids, as ORM filters. ``names`` maps a parameter to its field."""
    filters = {}
    for name, field in names.items():
        text = request.query_params.get(name)
        if text is None or text == "":
            continue
        if not text.isascii() or not text.isdecimal() or len(text) > 18:
            raise ValidationError({name: [f"{name} must be an id: a whole number."]})
        filters[field] = int(text)
    return filters


def flag_filter(request: Request, name: str) -> dict[str, bool]:
    """A query parameter that holds true or false, as an ORM filter on the field of the same name."""
    text = request.query_params.get(name)
    if text is None or text == "":
        return {}
    if text not in {"true", "false"}:
        raise ValidationError({name: [f"{name} must be true or false."]})
    return {name: text == "true"}
