"""The review queue over REST: read what runs propose, accept with or without edits, reject."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema, extend_schema_view
from rest_framework import mixins, serializers, viewsets
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from htam_site.roles import Role
from memory.api.context import id_filters
from memory.api.curated import RefusalsMixin
from memory.api.operations import IdField, asked
from memory.history.json import ChangeSerializer
from memory.history.json import with_parts as changes_with_parts
from memory.models import Change, Proposal, ProposalKind, ProposalStatus
from memory.review import BadFields, accept, reject
from memory.review.checking import SERIALIZERS
from memory.review.json import ProposalSerializer, step_ids, with_parts
from memory.serializers import ReasonField

IDS = {
    "bank": "bank_id",
    "direction": "direction_id",
    "strategy": "strategy_id",
    "edge": "edge_id",
    "run": "run_id",
}


class RejectSerializer(serializers.Serializer[Any]):
    reason = ReasonField()


class AcceptSerializer(RejectSerializer):
    """``changes`` replaces proposed fields; a new strategy may get another ``direction``."""

    changes = serializers.DictField(default=dict)
    version = IdField(required=False, help_text="Of the edited part, as you saw it: 409 if it is newer.")


class DecidedSerializer(serializers.Serializer[Any]):
    """Revert ``change`` to undo the decision: the proposal then waits again."""

    proposal = ProposalSerializer()
    change = ChangeSerializer()


DECIDED = {
    200: DecidedSerializer,
    400: OpenApiResponse(description="What is wrong, in a sentence, or by field under `changes`."),
    409: OpenApiResponse(
        description="Decided already (`changes`), the part changed meanwhile (`current`), or frozen (`frozen`)."
    ),
}


@extend_schema_view(
    list=extend_schema(
        parameters=[
            *(OpenApiParameter(name, int) for name in IDS),
            OpenApiParameter(
                "status", str, enum=ProposalStatus.values, description="one or several, joined by commas"
            ),
            OpenApiParameter("kind", str, enum=ProposalKind.values),
        ]
    )
)
class ProposalViewSet(RefusalsMixin, viewsets.GenericViewSet[Proposal], mixins.ListModelMixin):
    """What runs propose, newest first. Curators decide."""

    write_role = Role.CURATOR
    http_method_names = ["get", "post", "head", "options"]
    serializer_class = ProposalSerializer
    queryset = Proposal.objects.all()

    def get_queryset(self) -> QuerySet[Proposal]:
        rows = with_parts(Proposal.objects.order_by("-id"))
        if self.action != "list" or getattr(self, "swagger_fake_view", False):
            return rows
        rows = rows.filter(**id_filters(self.request, IDS))
        for name, known in (("status", ProposalStatus.values), ("kind", ProposalKind.values)):
            if text := self.request.query_params.get(name):
                rows = rows.filter(**{f"{name}__in": words(name, text, known)})
        return rows

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        page: Any = self.paginate_queryset(self.get_queryset())
        return self.get_paginated_response(self.shown(page))

    def retrieve(self, request: Request, pk: str) -> Response:
        """One proposal: its fields as they are now and as proposed, and the steps that speak for it."""
        return Response(self.shown([self.get_object()])[0])

    @extend_schema(request=AcceptSerializer, responses=DECIDED)
    @action(detail=True, methods=["post"])
    def accept(self, request: Request, pk: str) -> Response:
        """Apply it, with `changes` in place of proposed fields. One change of the bank, which can be undone."""
        proposal = self.get_object()
        data = asked(AcceptSerializer, request)
        try:
            change = accept(
                proposal,
                user=request.user,
                reason=data["reason"],
                edits=data["changes"],
                version=data.get("version"),
            )
        except BadFields as error:
            raise ValidationError({"detail": str(error), "changes": error.fields}) from None
        return self.decided(proposal, change)

    @extend_schema(request=RejectSerializer, responses=DECIDED)
    @action(detail=True, methods=["post"])
    def reject(self, request: Request, pk: str) -> Response:
        """Decline it; it is not made again. One change of the bank, which can be undone."""
        proposal = self.get_object()
        data = asked(RejectSerializer, request)
        return self.decided(proposal, reject(proposal, user=request.user, reason=data["reason"]))

    def decided(self, proposal: Proposal, change: Change) -> Response:
        shown = changes_with_parts(Change.objects.filter(pk=change.pk)).get()
        again = with_parts(Proposal.objects.filter(pk=proposal.pk)).get()
        return Response({"proposal": self.shown([again])[0], "change": ChangeSerializer(shown).data})

    def shown(self, proposals: Sequence[Proposal]) -> Any:
        from optimizer.services.decisions import step_addresses

        context = {"addresses": step_addresses(step_ids(proposals))}
        return ProposalSerializer(proposals, many=True, context=context).data

    def current(self, part: Any) -> Any:
        return SERIALIZERS[type(part)](part, context={"recent": False}).data


def words(name: str, text: str, known: Sequence[str]) -> list[str]:
    """The words of a filter. Raises ValidationError at one that is not known."""
    wanted = text.split(",")
    unknown = [word for word in wanted if word not in known]
    if unknown:
        raise ValidationError({name: [f"{unknown[0]!r} is none of {', '.join(known)}."]})
    return wanted
