"""Banks: list, create, rename, freeze, draw at any moment, export, import, clone, compare, merge."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpResponse
from django.utils.text import slugify
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema, inline_serializer
from rest_framework import mixins, serializers, viewsets
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.parsers import JSONParser
from rest_framework.request import Request
from rest_framework.response import Response

from htam_site.roles import Role
from memory.api.context import CONTEXT_PARAMETERS, evidence_context
from memory.api.curated import RefusalsMixin, stale_answer
from memory.api.graphs import AT, GraphSerializer
from memory.api.histories import BankHistoryMixin
from memory.api.pairs import BankPairsMixin
from memory.api.parsers import FILE_PARSERS, file_of
from memory.bankfile import BankError, parse_bank
from memory.counts import with_counts
from memory.curation import edit_bank
from memory.exchange import FORMATS, SUFFIXES, bank_text
from memory.graph import graph_json
from memory.history import opened, parse_moment
from memory.importing import import_bank
from memory.models import MemoryBank
from memory.serializers import BankSerializer


class BankViewSet(
    BankHistoryMixin,
    BankPairsMixin,
    RefusalsMixin,
    mixins.ListModelMixin,
    mixins.CreateModelMixin,
    mixins.RetrieveModelMixin,
    viewsets.GenericViewSet[MemoryBank],
):
    """Memory banks. Reading takes any role, changing the role curator."""

    write_role = Role.CURATOR
    http_method_names = ["get", "post", "patch", "head", "options"]
    parser_classes = [JSONParser]
    serializer_class = BankSerializer
    queryset = MemoryBank.objects.all()

    def get_queryset(self) -> QuerySet[MemoryBank]:
        return with_counts(MemoryBank.objects.select_related("created_by").order_by("name"))

    def create(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """An empty bank."""
        serializer = self.get_serializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        fields = dict(serializer.validated_data)
        reason = fields.pop("reason", "")
        user: Any = request.user
        with transaction.atomic():
            bank = MemoryBank.objects.create(created_by=user, **fields)
            opened(bank, user=user, reason=reason)
        return self._created(bank)

    @extend_schema(
        responses={
            200: BankSerializer,
            409: OpenApiResponse(
                stale_answer("Bank", BankSerializer), description="A stale save, or frozen."
            ),
        }
    )
    def partial_update(self, request: Request, pk: str) -> Response:
        """Rename, describe, freeze or thaw the version named. A frozen bank can only be thawed.

        409 as for parts: `current`, `changes` and `yours`, or `frozen`.
        """
        bank = self.get_object()
        serializer = self.get_serializer(bank, data=request.data, partial=True)
        serializer.is_valid(raise_exception=True)
        values = dict(serializer.validated_data)
        version, reason = values.pop("version"), values.pop("reason", "")
        edit_bank(bank, values, version, user=request.user, reason=reason)
        return Response(self.current(bank))

    def current(self, part: Any) -> Any:
        return self.get_serializer(self.get_queryset().get(pk=part.pk)).data

    @extend_schema(parameters=[*CONTEXT_PARAMETERS, AT], responses=GraphSerializer)
    @action(detail=True, methods=["get"])
    def graph(self, request: Request, pk: str) -> Response:
        """Directions, strategies and edges with posterior utilities, now or at a moment of the bank's life."""
        bank = self.get_object()
        text = request.query_params.get("at")
        moment = parse_moment(bank, text) if text else None
        return Response(graph_json(bank, evidence_context(request), moment=moment))

    @extend_schema(
        parameters=[
            OpenApiParameter("evidence", bool, description="false leaves the evidence log out; default true"),
            OpenApiParameter("form", str, enum=list(FORMATS), description="json (default) or markdown"),
        ],
        responses={(200, "application/json"): OpenApiTypes.OBJECT, (200, "text/markdown"): OpenApiTypes.STR},
    )
    @action(detail=True, methods=["get"])
    def export(self, request: Request, pk: str) -> HttpResponse:
        """The bank as a file that `import` reads: JSON (memory/schema/bank-1.json) or Markdown."""
        bank = self.get_object()
        form = request.query_params.get("form", "json")
        if form not in FORMATS:
            raise ValidationError({"form": [f"form is one of {', '.join(FORMATS)}."]})
        with_evidence = request.query_params.get("evidence", "true") not in {"false", "0"}
        try:
            text = bank_text(bank, form, evidence=with_evidence)
        except BankError as error:
            raise ValidationError({"detail": str(error)}) from None
        filename = f"{slugify(bank.name) or 'bank'}.{SUFFIXES[form]}"
        return HttpResponse(
            text,
            content_type="application/json" if form == "json" else "text/markdown; charset=utf-8",
            headers={"Content-Disposition": f'attachment; filename="{filename}"'},
        )

    @extend_schema(
        parameters=[OpenApiParameter("name", str, description="name of the new bank, instead of the file's")],
        request={
            "application/json": OpenApiTypes.OBJECT,
            "text/markdown": OpenApiTypes.STR,
            "multipart/form-data": inline_serializer("BankFile", {"file": serializers.FileField()}),
        },
        responses={
            201: BankSerializer,
            400: OpenApiResponse(description="What is wrong, with its JSON path."),
        },
    )
    @action(detail=False, methods=["post"], url_path="import", parser_classes=FILE_PARSERS)
    def import_file(self, request: Request) -> Response:
        """A new bank from an exported file, as the body or as the form field `file`."""
        try:
            data = parse_bank(file_of(request))
            bank = import_bank(data, request.query_params.get("name"), created_by=request.user)
        except BankError as error:
            raise ValidationError({"detail": str(error)}) from None
        return self._created(bank)

    def _created(self, bank: MemoryBank) -> Response:
        return Response(self.current(bank), status=201)
