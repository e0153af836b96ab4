"""Changes as JSON."""

from __future__ import annotations

from typing import Any

from django.db.models import Count, IntegerField, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from memory.history.diffs import addresses, item_row, status
from memory.history.moments import parts_now
from memory.history.reverting import later_on
from memory.history.snapshots import kind_of
from memory.models import Change, ChangeItem, ChangeKind, Evidence

LEDGER_KINDS = ("bank", "direction", "strategy", "edge")
DIFF_STATUSES = ("added", "removed", "changed")


def with_parts(changes: QuerySet[Change]) -> QuerySet[Change]:
    """Changes with everything that their JSON reads: four queries however many there are."""
    taught = Evidence.objects.filter(bank_id=OuterRef("bank_id"), run_id=OuterRef("run_id"))
    counted = taught.order_by().values("run_id").annotate(number=Count("id")).values("number")
    return (
        changes.select_related("user")
        .annotate(taught=Coalesce(Subquery(counted, output_field=IntegerField()), 0))
        .prefetch_related("items", "marks", "reverted_by")
        .order_by("-pk")
    )


class FieldRowSerializer(serializers.Serializer[Any]):
    """One field before and after; any JSON value, null where the part was not there."""

    field = serializers.CharField()
    before = serializers.JSONField(allow_null=True)
    after = serializers.JSONField(allow_null=True)


class ItemSerializer(serializers.Serializer[Any]):
    """One part that a change touched. ``fields`` are names here, and before/after in a change's detail."""

    kind = serializers.ChoiceField(LEDGER_KINDS)
    id = serializers.IntegerField()
    label = serializers.CharField(  # type: ignore[assignment]
        help_text="fusion, fusion/whole-graph, START -> fusion"
    )
    status = serializers.ChoiceField(DIFF_STATUSES)
    fields = serializers.ListField(child=serializers.CharField())  # type: ignore[assignment]


class DiffRowSerializer(ItemSerializer):
    """One part that differs, field by field; references by stable name."""

    fields = FieldRowSerializer(many=True)  # type: ignore[assignment]


class ChangeSerializer(serializers.ModelSerializer[Change]):
    """One change. ``run`` is the run that made it, null for people, whose name is ``by``."""

    kind_label = serializers.CharField(source="get_kind_display", read_only=True)
    by = serializers.CharField(source="user.username", read_only=True, default=None)
    run = serializers.IntegerField(source="run_id", read_only=True, allow_null=True)
    step = serializers.IntegerField(source="step_id", read_only=True, allow_null=True)
    sentence = serializers.SerializerMethodField(help_text="What was done, in words.")
    items = serializers.SerializerMethodField()
    evidence_rows = serializers.SerializerMethodField(help_text="Rows that it recorded, moved or switched.")
    reverted_by = serializers.SerializerMethodField(help_text="Ids of changes that undid it.")

    class Meta:
        model = Change
        fields = [
            "id", "bank", "kind", "kind_label", "by", "run", "step", "reason", "at", "sentence", "items",
            "evidence_rows", "reverts", "reverted_by", "proposal",
        ]  # fmt: skip
        read_only_fields = fields

    @extend_schema_field(serializers.CharField())
    def get_sentence(self, change: Change) -> str:
        return sentence(change, self.get_evidence_rows(change))

    @extend_schema_field(ItemSerializer(many=True))
    def get_items(self, change: Change) -> list[dict[str, Any]]:
        return [item_head(item) for item in change.items.all()]

    @extend_schema_field(serializers.IntegerField())
    def get_evidence_rows(self, change: Change) -> int:
        if change.kind == ChangeKind.LEARNED:
            return getattr(change, "taught", 0)
        return sum(mark.count for mark in change.marks.all())

    @extend_schema_field(serializers.ListField(child=serializers.IntegerField()))
    def get_reverted_by(self, change: Change) -> list[int]:
        return [other.pk for other in change.reverted_by.all()]


class MarkSerializer(serializers.Serializer[Any]):
    """Evidence rows that moved or were switched together."""

    rows = serializers.IntegerField()
    before = serializers.DictField()
    after = serializers.DictField()


class ChangeDetailSerializer(ChangeSerializer):
    """A change with before and after of every field, and what would stand in the way of undoing it."""

    diff = serializers.SerializerMethodField()
    marks = serializers.SerializerMethodField()
    conflicts = serializers.SerializerMethodField(help_text="Later changes that must be undone first.")

    class Meta(ChangeSerializer.Meta):
        fields = [*ChangeSerializer.Meta.fields, "diff", "marks", "conflicts"]
        read_only_fields = fields

    @extend_schema_field(DiffRowSerializer(many=True))
    def get_diff(self, change: Change) -> list[dict[str, Any]]:
        names = addresses(parts_now(change.bank))
        return [item_row(item, names) for item in change.items.all()]

    @extend_schema_field(MarkSerializer(many=True))
    def get_marks(self, change: Change) -> list[dict[str, Any]]:
        names = addresses(parts_now(change.bank))
        return [
            {"rows": mark.count, "before": _mark(mark.before, names), "after": _mark(mark.after, names)}
            for mark in change.marks.all()
        ]

    @extend_schema_field(ChangeSerializer(many=True))
    def get_conflicts(self, change: Change) -> Any:
        return ChangeSerializer(later_on(change), many=True).data


def _mark(columns: dict[str, Any], names: dict[str, dict[int, str]]) -> dict[str, Any]:
    """Columns of evidence rows for people: parts by their stable names."""
    result = {}
    for column, value in columns.items():
        kind = column.removesuffix("_id")
        if kind in names:
            result[kind] = None if value is None else names[kind].get(value, "?")
        elif column != "exclusion_id":
            result[column] = value
    return result


def item_head(item: ChangeItem) -> dict[str, Any]:
    return {
        "kind": item.kind,
        "id": item.part,
        "label": item.label,
        "status": status(item.before, item.after),
        "fields": [name.removesuffix("_id") for name in (item.after or item.before or {})],
    }


def sentence(change: Change, rows: int) -> str:
    """ "Merged data-reuse into fusion." and the like."""
    facts = change.facts
    items = list(change.items.all())
    names = _listed([item.label for item in items])
    match change.kind:
        case ChangeKind.LEARNED:
            return f"Run {change.run_id} taught {_count(rows, 'evidence row')}."
        case ChangeKind.TRAVERSED:
            return f"Run {change.run_id} was the first to go {names}."
        case ChangeKind.MERGED:
            return f"Merged {facts.get('merged')} into {facts.get('kept')}; {_count(rows, 'evidence row')} moved."
        case ChangeKind.SPLIT:
            return f"Split {facts.get('new')} off {facts.get('from')}; {_count(rows, 'evidence row')} moved."
        case ChangeKind.MOVED:
            return f"Moved {facts.get('strategy')} from {facts.get('from')} to {facts.get('to')}."
        case ChangeKind.EXCLUDED:
            return f"Excluded {_count(rows, 'evidence row')}."
        case ChangeKind.INCLUDED:
            return f"Took {_count(rows, 'evidence row')} back in."
        case ChangeKind.PROPOSED:
            return f"Run {change.run_id} proposed: {facts.get('title')}."
        case ChangeKind.ACCEPTED:
            by = f"Run {change.run_id} accepted its proposal" if change.run_id else "Accepted"
            return f"{by}: {facts.get('title')} ({_count(facts.get('evidence', 0), 'confirmed step')})."
        case ChangeKind.REJECTED:
            return f"Rejected: {facts.get('title')}."
        case ChangeKind.REVERTED:
            if change.reverts_id is not None:
                return f"Undid change {change.reverts_id}."
            return f"Brought the bank back to {facts.get('at') or 'its beginning'}."
        case ChangeKind.EDITED | ChangeKind.BANK:
            fields = _listed(list(dict.fromkeys(name for item in items for name in item.after or {})))
            return f"Edited {names}: {fields}."
    return f"{change.get_kind_display()}: {names}." if names else f"{change.get_kind_display()}."


def _listed(names: list[str], most: int = 3) -> str:
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def changes_since(part: Any, version: int) -> list[dict[str, Any]]:
    """What was changed of a part after ``version``, oldest first: who, when, why, and each field."""
    kind = kind_of(part)
    items = ChangeItem.objects.filter(kind=kind, part=part.pk, version__gt=version)
    rows = []
    for item in items.select_related("change__user").order_by("pk"):
        change = item.change
        rows.append(
            {
                "id": change.pk,
                "kind": change.kind,
                "by": change.user.username if change.user else None,
                "run": change.run_id,
                "at": change.at,
                "reason": change.reason,
                "fields": [
                    {"field": name, "before": (item.before or {}).get(name), "after": value}
                    for name, value in (item.after or {}).items()
                ],
            }
        )
    return rows


class ChangeSinceSerializer(serializers.Serializer[Any]):
    """One change of a part between the version that was edited and the stored one."""

    id = serializers.IntegerField()
    kind = serializers.CharField()
    by = serializers.CharField(allow_null=True)
    run = serializers.IntegerField(allow_null=True)
    at = serializers.DateTimeField()
    reason = serializers.CharField()
    fields = FieldRowSerializer(many=True)  # type: ignore[assignment]
