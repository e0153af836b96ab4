"""Importing parts of a bank file into a bank: first a plan of what is new and what differs, then what was chosen."""

from __future__ import annotations

from typing import Any

from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema, inline_serializer
from rest_framework import serializers
from rest_framework.exceptions import APIException, ValidationError
from rest_framework.parsers import JSONParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from htam_site.roles import Role
from memory.api.parsers import FILE_PARSERS, file_of
from memory.bankfile import BankError, parse_bank
from memory.history import Refused
from memory.models import MemoryBank
from memory.partial import apply_import, plan_import

WORDS = ("new", "all")


class NewPartSerializer(serializers.Serializer[Any]):
    """A part that the bank lacks. ``needs``: ids that must be in the bank or be taken along."""

    id = serializers.CharField()
    kind = serializers.CharField()
    title = serializers.CharField()
    needs = serializers.ListField(child=serializers.CharField())


class ChangedPartSerializer(serializers.Serializer[Any]):
    """A part that says something else in the file: for each field the value here and the one in the file."""

    id = serializers.CharField()
    kind = serializers.CharField()
    title = serializers.CharField()
    version = serializers.IntegerField()
    fields = serializers.DictField()  # type: ignore[assignment]


class ImportPlanSerializer(serializers.Serializer[Any]):
    """What importing parts of a file would do; see memory.partial."""

    new = NewPartSerializer(many=True)
    changed = ChangedPartSerializer(many=True)
    same = serializers.IntegerField()
    only_here = serializers.IntegerField(
        help_text="Parts of the bank that the file does not mention; they stay."
    )
    evidence_left_out = serializers.IntegerField(help_text="Evidence comes with a whole bank only.")


class ImportRequestSerializer(serializers.Serializer[Any]):
    """The file's text again, and the parts to take: ids of the plan, or "new" or "all"."""

    text = serializers.CharField(trim_whitespace=False)
    take = serializers.JSONField()
    versions = serializers.DictField(child=serializers.IntegerField(), required=False)
    reason = serializers.CharField(max_length=2000, required=False, allow_blank=True, default="")

    def validate_take(self, value: Any) -> Any:
        ids = isinstance(value, list) and all(isinstance(item, str) for item in value)
        if not ids and value not in WORDS:
            raise serializers.ValidationError('take is a list of ids, "new" or "all".')
        return value


class ImportResultSerializer(serializers.Serializer[Any]):
    created = serializers.IntegerField()
    changed = serializers.IntegerField()
    change = serializers.IntegerField(
        allow_null=True, help_text="Number of the change in the bank's history."
    )


class Conflicting(APIException):
    status_code = 409


class PartialImportPreview(APIView):
    """What is new in a bank file and what differs from this bank. Saves nothing."""

    write_role = Role.CURATOR
    parser_classes = FILE_PARSERS
    serializer_class = ImportPlanSerializer

    @extend_schema(
        operation_id="banks_import_preview",
        request={
            "application/json": OpenApiTypes.OBJECT,
            "text/markdown": OpenApiTypes.STR,
            "multipart/form-data": inline_serializer("BankPartsFile", {"file": serializers.FileField()}),
        },
        responses=ImportPlanSerializer,
    )
    def post(self, request: Request, pk: int) -> Response:
        bank = get_object_or_404(MemoryBank, pk=pk)
        try:
            plan = plan_import(bank, parse_bank(file_of(request)))
        except BankError as error:
            raise ValidationError({"detail": str(error)}) from None
        return Response(plan.to_json())


class PartialImport(APIView):
    """Import chosen parts of a bank file: all of them or, where one is refused, none."""

    write_role = Role.CURATOR
    parser_classes = [JSONParser]
    serializer_class = ImportResultSerializer

    @extend_schema(
        operation_id="banks_import_parts",
        request=ImportRequestSerializer,
        responses={
            200: ImportResultSerializer,
            409: OpenApiResponse(description="The bank is frozen, or a part changed after the preview."),
        },
    )
    def post(self, request: Request, pk: int) -> Response:
        bank = get_object_or_404(MemoryBank, pk=pk)
        form = ImportRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        asked = form.validated_data
        try:
            result = apply_import(
                bank,
                parse_bank(asked["text"]),
                asked["take"],
                asked.get("versions"),
                user=request.user,
                reason=asked["reason"],
            )
        except BankError as error:
            raise ValidationError({"detail": str(error)}) from None
        except Refused as error:
            raise Conflicting(str(error)) from None
        return Response({"created": result.created, "changed": result.changed, "change": result.change})
