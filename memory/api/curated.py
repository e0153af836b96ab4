"""What the routes of directions, strategies and edges share: filters, versions, refusals with the newer text."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from rest_framework import mixins, serializers, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from htam_site.roles import Role
from memory.api.context import evidence_context, flag_filter, id_filters
from memory.curation import create_part, edit_part
from memory.history import Conflict, Frozen, Refused, Stale
from memory.history.json import ChangeSerializer, ChangeSinceSerializer, changes_since
from memory.history.snapshots import kind_of
from memory.models import Change, CuratedPart


class RefusalsMixin(viewsets.GenericViewSet[Any]):
    """Refused changes as answers: 409 with what stands in the way, 400 for what cannot be."""

    def handle_exception(self, exc: Exception) -> Response:
        if isinstance(exc, Stale):
            return self.stale(exc)
        if isinstance(exc, Conflict):
            found = ChangeSerializer(exc.changes, many=True).data
            return Response({"detail": str(exc), "changes": found}, status=409)
        if isinstance(exc, Frozen):
            return Response({"detail": str(exc), "frozen": True}, status=409)
        if isinstance(exc, Refused):
            return Response({"detail": str(exc)}, status=400)
        return super().handle_exception(exc)

    def stale(self, exc: Stale) -> Response:
        """The stored object beside the one that was sent, and who changed what in between."""
        return Response(
            {
                "detail": str(exc),
                "current": self.current(exc.part),
                "changes": changes_since(exc.part, exc.version),
                "yours": self.request.data,
            },
            status=409,
        )

    def current(self, part: Any) -> Any:
        return None


class CuratedViewSet(
    RefusalsMixin,
    mixins.ListModelMixin,
    mixins.CreateModelMixin,
    mixins.RetrieveModelMixin,
    viewsets.GenericViewSet[Any],
):
    """Any role reads, curators write. A change names the version it edited; a stale one gets 409."""

    write_role = Role.CURATOR
    http_method_names = ["get", "post", "patch", "head", "options"]
    filter_ids: dict[str, str] = {}

    def get_queryset(self) -> QuerySet[Any]:
        rows = super().get_queryset()
        if self.action != "list" or getattr(self, "swagger_fake_view", False):
            return rows
        return rows.filter(
            **id_filters(self.request, self.filter_ids), **flag_filter(self.request, "retired")
        )

    def get_serializer_context(self) -> dict[str, Any]:
        context = dict(super().get_serializer_context())
        if self.request is not None:
            context["evidence_context"] = evidence_context(self.request)
            context["recent"] = self.action == "retrieve"
        return context

    def create(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """A new part. ``reason`` says why and goes into the history."""
        serializer = self.get_serializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        fields = dict(serializer.validated_data)
        reason = fields.pop("reason", "")
        part = create_part(self.get_queryset().model(**fields), user=request.user, reason=reason)
        return Response(self.current(part), status=201)

    def partial_update(self, request: Request, pk: str) -> Response:
        """Change fields of the version named. ``reason`` says why; retiring is ``{"retired": true}``.

        409 where somebody saved a newer version: ``current`` is that one, ``changes`` what was changed since
        yours, by whom and why, ``yours`` what you sent; send again with its version to save after all. 409
        with ``frozen`` where the bank is frozen.
        """
        part: Any = self.get_object()
        values, version, reason = self.checked(part, request.data)
        edit_part(part, values, version, user=request.user, reason=reason)
        return Response(self.current(part))

    def checked(self, part: CuratedPart, data: Any) -> tuple[dict[str, Any], int, str]:
        """The fields that a person sends for a part, the version they edited, and why."""
        serializer = self.get_serializer(part, data=data, partial=True)
        serializer.is_valid(raise_exception=True)
        values = dict(serializer.validated_data)
        return values, values.pop("version"), values.pop("reason", "")

    def edits(self, part: CuratedPart, data: dict[str, Any]) -> dict[str, Any]:
        """The fields that an operation sets anew on a part, checked as for PATCH."""
        return self.checked(part, {**data["changes"], "version": data["version"]})[0]

    def new_fields(self, sent: dict[str, Any], defaults: dict[str, Any]) -> dict[str, Any]:
        """The fields that are given for a part that a split makes, checked as for POST.

        ``defaults`` satisfy fields that must be there; left out of the answer, so that they are copied.
        """
        serializer = self.get_serializer(data={**defaults, **sent})
        serializer.is_valid(raise_exception=True)
        fields = {
            name: value
            for name, value in serializer.validated_data.items()
            if name in sent or name in defaults
        }
        fields.pop("reason", None)
        return fields

    def current(self, part: Any) -> Any:
        """The part as stored now. A larger operation is about parts of the view's own kind too."""
        rows: Any = type(self).queryset
        return self.get_serializer(rows.all().get(pk=part.pk)).data

    def done(self, change: Change, part: Any, status: int = 200) -> Response:
        """The answer to a larger operation: what was recorded, and the part that it was about."""
        return Response(
            {"change": ChangeSerializer(change).data, kind_of(part): self.current(part)}, status=status
        )


def stale_answer(name: str, serializer: Any) -> type[serializers.Serializer[Any]]:
    """The OpenAPI form of a 409."""
    fields = {
        "detail": serializers.CharField(),
        "current": serializer(required=False),
        "changes": ChangeSinceSerializer(many=True, required=False),
        "yours": serializers.DictField(required=False),
        "frozen": serializers.BooleanField(required=False),
    }
    return type(f"Stale{name}Serializer", (serializers.Serializer,), fields)
