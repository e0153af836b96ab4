"""Proposals as JSON: what would change, what speaks for it, who decided."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import Prefetch, QuerySet
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from memory.models import START, Evidence, Proposal, ProposalKind
from memory.review.checking import Part, without_ends
from memory.review.deciding import merged_away

STEPS = 20  # of the evidence that are listed with the proposal; all of them: /api/evidence/?proposal=
EVIDENCE_FIELDS = (
    "id", "run_id", "step_id", "operator_id", "verdict", "improved", "utility", "speedup", "device", "family",
    "setting", "human_touched", "excluded", "excluded_reason", "created_at", "mark_id", "exclusion_id",
)  # fmt: skip


def with_parts(rows: QuerySet[Proposal]) -> QuerySet[Proposal]:
    """Proposals with everything that their JSON reads: three queries however many there are."""
    evidence = Evidence.objects.only(*EVIDENCE_FIELDS).order_by("-id")
    return rows.select_related(
        "bank", "direction", "strategy__direction", "edge__source", "edge__target", "decided_by"
    ).prefetch_related(Prefetch("evidence", evidence), "applied")


def step_ids(rows: Sequence[Proposal]) -> set[int]:
    """The steps that the JSON of these proposals lists."""
    listed = [row for proposal in rows for row in list(proposal.evidence.all())[:STEPS]]
    return {row.step_id for row in listed if row.step_id is not None}


class ProposedFieldSerializer(serializers.Serializer[Any]):
    """One field: as it is stored now (null for a new part), as proposed, and as decided (null until then)."""

    field = serializers.CharField()
    now = serializers.JSONField(allow_null=True)
    proposed = serializers.JSONField(allow_null=True)
    decided = serializers.JSONField(allow_null=True)


class ProposalStepSerializer(serializers.Serializer[Any]):
    """One measured step. ``speedup`` is its ratio: time before over time after."""

    evidence = serializers.IntegerField()
    run = serializers.IntegerField(allow_null=True)
    step = serializers.IntegerField(allow_null=True)
    url = serializers.CharField(allow_null=True, help_text="The page of the step; null where it is gone.")
    operator = serializers.IntegerField(allow_null=True)
    verdict = serializers.CharField()
    improved = serializers.BooleanField()
    utility = serializers.FloatField()
    speedup = serializers.FloatField(allow_null=True)
    device = serializers.CharField()
    family = serializers.CharField()
    setting = serializers.CharField()
    human_touched = serializers.BooleanField()
    excluded = serializers.BooleanField()
    excluded_reason = serializers.CharField()
    at = serializers.DateTimeField()


class ProposalEvidenceSerializer(serializers.Serializer[Any]):
    """What speaks for a proposal. Excluded rows are listed and counted in ``excluded`` only."""

    rows = serializers.IntegerField()
    confirmed = serializers.IntegerField(help_text="Rows that count.")
    improved = serializers.IntegerField()
    excluded = serializers.IntegerField()
    operators = serializers.IntegerField(help_text="How many operators they come from, where known.")
    devices = serializers.ListField(child=serializers.CharField())
    speedup_median = serializers.FloatField(allow_null=True)
    speedup_low = serializers.FloatField(allow_null=True, help_text="The smallest ratio.")
    speedup_high = serializers.FloatField(allow_null=True)
    utility_mean = serializers.FloatField(allow_null=True)
    steps = ProposalStepSerializer(many=True)
    more = serializers.CharField(help_text="All rows, paged.")


class NodeHeadSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    key = serializers.CharField()
    title = serializers.CharField()


class EdgeHeadSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField(allow_null=True, help_text="Null while no run or person made it.")
    source_key = serializers.CharField()
    target_key = serializers.CharField()


class ProposalSerializer(serializers.ModelSerializer[Proposal]):
    """``version`` is what accepting an edit must name; ``blocked`` says why it cannot be accepted, "" if it can."""

    bank_name = serializers.CharField(source="bank.name", read_only=True)
    kind_label = serializers.CharField(source="get_kind_display", read_only=True)
    status_label = serializers.CharField(source="get_status_display", read_only=True)
    direction = serializers.SerializerMethodField()
    strategy = serializers.SerializerMethodField()
    edge = serializers.SerializerMethodField()
    fields = serializers.SerializerMethodField("proposed_fields")  # type: ignore[assignment]
    version = serializers.SerializerMethodField()
    blocked = serializers.SerializerMethodField()
    evidence = serializers.SerializerMethodField()
    run = serializers.IntegerField(source="run_id", read_only=True, allow_null=True)
    step = serializers.IntegerField(source="step_id", read_only=True, allow_null=True)
    decided_by = serializers.CharField(source="decided_by.username", read_only=True, default=None)
    applied = serializers.SerializerMethodField(help_text="Changes that decided it, newest last.")

    class Meta:
        model = Proposal
        fields = [
            "id", "bank", "bank_name", "kind", "kind_label", "title", "rationale", "status", "status_label",
            "direction", "strategy", "edge", "fields", "version", "blocked", "evidence", "proposer", "run", "step",
            "created_at", "decided_by", "decided_at", "decision_reason", "auto", "applied",
        ]  # fmt: skip
        read_only_fields = fields

    @extend_schema_field(NodeHeadSerializer(allow_null=True))
    def get_direction(self, proposal: Proposal) -> dict[str, Any] | None:
        node = proposal.direction or (proposal.strategy.direction if proposal.strategy else None)
        return {"id": node.pk, "key": node.key, "title": node.title} if node else None

    @extend_schema_field(NodeHeadSerializer(allow_null=True))
    def get_strategy(self, proposal: Proposal) -> dict[str, Any] | None:
        node = proposal.strategy
        return {"id": node.pk, "key": node.key, "title": node.title} if node else None

    @extend_schema_field(EdgeHeadSerializer(allow_null=True))
    def get_edge(self, proposal: Proposal) -> dict[str, Any] | None:
        edge = proposal.edge
        if edge is not None:
            source = edge.source.key if edge.source else START
            return {"id": edge.pk, "source_key": source, "target_key": edge.target.key}
        if proposal.kind != ProposalKind.EDGE:
            return None
        source, _, target = proposal.fingerprint.removeprefix("edge:").partition("->")
        return {"id": None, "source_key": source, "target_key": target}

    @extend_schema_field(ProposedFieldSerializer(many=True))
    def proposed_fields(self, proposal: Proposal) -> list[dict[str, Any]]:
        part, decided = edited_part(proposal), proposal.decided_changes
        fields = without_ends(proposal.changes) if part is not None else proposal.changes
        names = dict.fromkeys((*fields, *(without_ends(decided) if decided else ())))
        return [
            {
                "field": name,
                "now": getattr(part, name, None),
                "proposed": fields.get(name),
                "decided": None if decided is None else decided.get(name),
            }
            for name in names
        ]

    @extend_schema_field(serializers.IntegerField(allow_null=True))
    def get_version(self, proposal: Proposal) -> int | None:
        part = edited_part(proposal)
        return part.version if part is not None else None

    @extend_schema_field(serializers.CharField())
    def get_blocked(self, proposal: Proposal) -> str:
        if proposal.bank.frozen:
            return "The bank is frozen."
        if proposal.kind != ProposalKind.STRATEGY:
            part = edited_part(proposal)
            if part is None and proposal.kind == ProposalKind.EDIT:
                return "The part that it would edit is gone."
            return merged_away(part)
        return ""

    @extend_schema_field(ProposalEvidenceSerializer)
    def get_evidence(self, proposal: Proposal) -> dict[str, Any]:
        addresses: Mapping[int, str] = self.context.get("addresses", {})
        return evidence_json(proposal, addresses)

    @extend_schema_field(serializers.ListField(child=serializers.IntegerField()))
    def get_applied(self, proposal: Proposal) -> list[int]:
        return sorted(change.pk for change in proposal.applied.all())


def edited_part(proposal: Proposal) -> Part | None:
    """The stored part whose fields would change; None for a new one."""
    if proposal.kind == ProposalKind.STRATEGY:
        return None
    return proposal.strategy or proposal.edge or proposal.direction


def evidence_json(proposal: Proposal, addresses: Mapping[int, str]) -> dict[str, Any]:
    rows = list(proposal.evidence.all())
    counted = [row for row in rows if not row.excluded]
    ratios = [row.speedup for row in counted if row.speedup is not None]
    return {
        "rows": len(rows),
        "confirmed": len(counted),
        "improved": sum(row.improved for row in counted),
        "excluded": len(rows) - len(counted),
        "operators": len({row.operator_id for row in counted if row.operator_id is not None}),
        "devices": sorted({row.device for row in counted}),
        "speedup_median": statistics.median(ratios) if ratios else None,
        "speedup_low": min(ratios, default=None),
        "speedup_high": max(ratios, default=None),
        "utility_mean": statistics.fmean(row.utility for row in counted) if counted else None,
        "steps": [_step(row, addresses) for row in rows[:STEPS]],
        "more": f"/api/evidence/?proposal={proposal.pk}",
    }


def _step(row: Evidence, addresses: Mapping[int, str]) -> dict[str, Any]:
    return {
        "evidence": row.pk,
        "run": row.run_id,
        "step": row.step_id,
        "url": addresses.get(row.step_id) if row.step_id is not None else None,
        "operator": row.operator_id,
        "verdict": row.verdict,
        "improved": row.improved,
        "utility": row.utility,
        "speedup": row.speedup,
        "device": row.device,
        "family": row.family,
        "setting": row.setting,
        "human_touched": row.human_touched,
        "excluded": row.excluded,
        "excluded_reason": row.excluded_reason,
        "at": row.created_at,
    }
