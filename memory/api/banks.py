"""Banks: list, create, rename, freeze, draw, export, import, clone."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.http import HttpResponse
from django.utils.text import slugify
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema, inline_serializer
from rest_framework import mixins, serializers, viewsets
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.parsers import JSONParser, MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response

from htam_site.roles import Role
from memory.api.context import CONTEXT_PARAMETERS, evidence_context
from memory.api.parsers import RawJSONParser, TooLarge
from memory.bankfile import MAX_BYTES, BankError, parse_bank
from memory.counts import with_counts
from memory.exporting import dump_bank, export_bank
from memory.graph import graph_json
from memory.importing import import_bank
from memory.models import MemoryBank
from memory.serializers import BankSerializer, StatisticsSerializer


class GraphDirectionSerializer(StatisticsSerializer):
    id = serializers.IntegerField()
    key = serializers.CharField()
    title = serializers.CharField()
    intent = serializers.CharField()
    prior_utility = serializers.FloatField()
    retired = serializers.BooleanField()
    version = serializers.IntegerField()
    x = serializers.FloatField(allow_null=True)
    y = serializers.FloatField(allow_null=True)


class GraphStrategySerializer(StatisticsSerializer):
    id = serializers.IntegerField()
    key = serializers.CharField()
    title = serializers.CharField()
    direction = serializers.CharField(help_text="Key of its direction.")
    prior_utility = serializers.FloatField()
    retired = serializers.BooleanField()
    version = serializers.IntegerField()
    executable = serializers.BooleanField(help_text="A recipe can carry it out without an LLM.")


class GraphEdgeSerializer(StatisticsSerializer):
    id = serializers.IntegerField()
    source = serializers.CharField(allow_null=True, help_text="Key; null out of START.")  # type: ignore[assignment]
    source_key = serializers.CharField()
    target = serializers.CharField()
    prior_utility = serializers.FloatField()
    retired = serializers.BooleanField()
    version = serializers.IntegerField()


class GraphSerializer(serializers.Serializer[Any]):
    """A bank's graph; see memory.graph.graph_json."""

    bank = serializers.DictField()
    context = serializers.DictField()  # type: ignore[assignment]
    n0 = serializers.FloatField()
    directions = GraphDirectionSerializer(many=True)
    strategies = GraphStrategySerializer(many=True)
    edges = GraphEdgeSerializer(many=True)


class BankViewSet(
    mixins.ListModelMixin,
    mixins.CreateModelMixin,
    mixins.RetrieveModelMixin,
    mixins.UpdateModelMixin,
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

    def perform_create(self, serializer: serializers.BaseSerializer[MemoryBank]) -> None:
        serializer.save(created_by=self.request.user)

    @extend_schema(parameters=CONTEXT_PARAMETERS, responses=GraphSerializer)
    @action(detail=True, methods=["get"])
    def graph(self, request: Request, pk: str) -> Response:
        """Directions, strategies and edges with posterior utilities."""
        return Response(graph_json(self.get_object(), evidence_context(request)))

    @extend_schema(
        parameters=[
            OpenApiParameter("evidence", bool, description="false leaves the evidence log out; default true")
        ],
        responses={(200, "application/json"): OpenApiTypes.OBJECT},
    )
    @action(detail=True, methods=["get"])
    def export(self, request: Request, pk: str) -> HttpResponse:
        """The bank as a file that `import` reads (schema: memory/schema/bank-1.json)."""
        bank = self.get_object()
        with_evidence = request.query_params.get("evidence", "true") not in {"false", "0"}
        text = dump_bank(export_bank(bank, evidence=with_evidence))
        filename = f"{slugify(bank.name) or 'bank'}.json"
        return HttpResponse(
            text,
            content_type="application/json",
            headers={"Content-Disposition": f'attachment; filename="{filename}"'},
        )

    @extend_schema(
        parameters=[OpenApiParameter("name", str, description="name of the new bank, instead of the file's")],
        request={
            "application/json": OpenApiTypes.OBJECT,
            "multipart/form-data": inline_serializer("BankFile", {"file": serializers.FileField()}),
        },
        responses={
            201: BankSerializer,
            400: OpenApiResponse(description="What is wrong, with its JSON path."),
        },
    )
    @action(
        detail=False, methods=["post"], url_path="import", parser_classes=[RawJSONParser, MultiPartParser]
    )
    def import_file(self, request: Request) -> Response:
        """A new bank from an exported file, as the body or as the form field `file`."""
        try:
            data = parse_bank(_body(request))
            bank = import_bank(data, request.query_params.get("name"), created_by=request.user)
        except BankError as error:
            raise ValidationError({"detail": str(error)}) from None
        return self._created(bank)

    @extend_schema(
        request=inline_serializer("BankName", {"name": serializers.CharField(max_length=80)}),
        responses={201: BankSerializer},
    )
    @action(detail=True, methods=["post"])
    def clone(self, request: Request, pk: str) -> Response:
        """A copy of this bank with its evidence, under another name."""
        name = request.data.get("name") if isinstance(request.data, dict) else None
        if not isinstance(name, str) or not name.strip():
            raise ValidationError({"name": ["Name the copy."]})
        try:
            bank = import_bank(export_bank(self.get_object()), name, created_by=request.user)
        except BankError as error:
            raise ValidationError({"detail": str(error)}) from None
        return self._created(bank)

    def _created(self, bank: MemoryBank) -> Response:
        return Response(self.get_serializer(self.get_queryset().get(pk=bank.pk)).data, status=201)


def _body(request: Request) -> bytes:
    data: Any = request.data
    if isinstance(data, bytes):
        return data
    upload = data.get("file")
    if upload is None or isinstance(upload, str):
        raise ValidationError({"file": ["Send the bank file as the field 'file'."]})
    if upload.size > MAX_BYTES:
        raise TooLarge()
    return upload.read()
