"""Preview of a change: which stored choices it would have flipped. Nothing is saved."""

from __future__ import annotations

from typing import Any

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from htam_site.roles import Role
from memory.models import START, MemoryBank
from memory.policy.config import BOUNDS
from memory.policy.whatif import SETTINGS, Change, Priors
from memory.preview import preview, priors_of

KINDS = ("direction", "strategy", "edge")
STEPS = 2000  # newest steps that are looked at unless told otherwise
MOST_STEPS = 20_000


class PriorChangeSerializer(serializers.Serializer[Any]):
    """One new prior. A direction is named by ``key``, a strategy by ``direction`` and ``key``, an edge by
    ``source`` ("START" for the first step) and ``target``."""

    kind = serializers.ChoiceField(KINDS)
    key = serializers.CharField(max_length=80, required=False)
    direction = serializers.CharField(max_length=60, required=False)
    source = serializers.CharField(max_length=60, required=False)  # type: ignore[assignment]
    target = serializers.CharField(max_length=60, required=False)
    prior = serializers.FloatField(min_value=-1.0, max_value=1.0)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        wanted = {"direction": ("key",), "strategy": ("direction", "key"), "edge": ("source", "target")}
        missing = [name for name in wanted[attrs["kind"]] if not attrs.get(name)]
        if missing:
            raise serializers.ValidationError(
                {missing[0]: [f"Name the {missing[0]} of this {attrs['kind']}."]}
            )
        return attrs


class PreviewRequestSerializer(serializers.Serializer[Any]):
    """A proposed change: new priors, new settings of the policy, or both."""

    changes = serializers.ListField(child=PriorChangeSerializer(), required=False, max_length=500)
    settings = serializers.DictField(
        child=serializers.FloatField(), required=False, help_text=f"Any of {', '.join(SETTINGS)}."
    )
    steps = serializers.IntegerField(min_value=1, max_value=MOST_STEPS, default=STEPS)

    def validate_settings(self, value: dict[str, float]) -> dict[str, float]:
        for name, number in value.items():
            if name not in SETTINGS:
                raise serializers.ValidationError(
                    f"{name!r} cannot be previewed; choose of {', '.join(SETTINGS)}."
                )
            low, high = BOUNDS[name]
            if not low <= number <= high:
                raise serializers.ValidationError(f"{name} must lie between {low:g} and {high:g}.")
        return value

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if not attrs.get("changes") and not attrs.get("settings"):
            raise serializers.ValidationError("Propose a change: new priors in `changes`, or `settings`.")
        return attrs


class OptionSerializer(serializers.Serializer[Any]):
    """A direction or strategy with its probability before and after."""

    key = serializers.CharField()
    probability_before = serializers.FloatField()
    probability_after = serializers.FloatField()


class FlipSerializer(serializers.Serializer[Any]):
    """A step that would have chosen otherwise with the same random number."""

    run = serializers.IntegerField()
    step = serializers.IntegerField()
    index = serializers.IntegerField()
    operator = serializers.CharField()
    kind = serializers.CharField(help_text="direction or strategy")
    url = serializers.CharField()
    before = OptionSerializer()
    after = OptionSerializer()


class ShiftSerializer(OptionSerializer):
    """One of the largest changes of a probability."""

    run = serializers.IntegerField()
    step = serializers.IntegerField()
    index = serializers.IntegerField()
    operator = serializers.CharField()
    kind = serializers.CharField()
    url = serializers.CharField()


class ExpectedSerializer(serializers.Serializer[Any]):
    """How often a direction is to be expected over the steps: sums of its probabilities."""

    key = serializers.CharField()
    before = serializers.FloatField()
    after = serializers.FloatField()


class PreviewSerializer(serializers.Serializer[Any]):
    """What a change would do to stored choices; see memory.preview."""

    steps = serializers.IntegerField()
    flat = serializers.IntegerField(help_text="Steps without a hierarchy: not comparable.")
    pinned = serializers.IntegerField(help_text="Steps whose direction a person chose.")
    direction_flips = serializers.IntegerField()
    strategy_flips = serializers.IntegerField()
    top_changes = serializers.IntegerField(help_text="Steps whose most probable direction changes.")
    flips = FlipSerializer(many=True)
    shifts = ShiftSerializer(many=True)
    expected_choices = ExpectedSerializer(many=True)


class PreviewView(APIView):
    """Which stored choices a change would have flipped, with probabilities before and after. Saves nothing."""

    write_role = Role.VIEWER
    serializer_class = PreviewSerializer

    @extend_schema(
        operation_id="banks_preview", request=PreviewRequestSerializer, responses=PreviewSerializer
    )
    def post(self, request: Request, pk: int) -> Response:
        from optimizer.services.decisions import step_address, stored_decisions

        bank = get_object_or_404(MemoryBank, pk=pk)
        form = PreviewRequestSerializer(data=request.data)
        form.is_valid(raise_exception=True)
        change = change_of(form.validated_data)
        today = priors_of(bank)
        refuse_unknown(change, today)
        strategies = bool(change.priors.strategies or "n0" in change.settings)
        stored = stored_decisions(bank, form.validated_data["steps"], strategies=strategies)
        found = preview(stored, change, today).to_json()
        for row in [*found["flips"], *found["shifts"]]:
            row["url"] = step_address(row["run"], row["index"])
        return Response(found)


def change_of(data: dict[str, Any]) -> Change:
    directions, edges, strategies = {}, {}, {}
    for item in data.get("changes", []):
        if item["kind"] == "direction":
            directions[item["key"]] = item["prior"]
        elif item["kind"] == "edge":
            edges[item["source"], item["target"]] = item["prior"]
        else:
            strategies[item["direction"], item["key"]] = item["prior"]
    return Change(Priors(directions, edges, strategies), data.get("settings", {}))


def refuse_unknown(change: Change, today: Priors) -> None:
    """Raise ValidationError naming a part that the bank lacks. An edge may be new, its ends may not."""
    named = [*change.priors.directions, *(pair[1] for pair in change.priors.edges)]
    named += [pair[0] for pair in change.priors.edges if pair[0] != START]
    for key in named:
        if key not in today.directions:
            raise serializers.ValidationError({"changes": [f"This bank has no direction {key!r}."]})
    for direction, key in change.priors.strategies:
        if (direction, key) not in today.strategies:
            raise serializers.ValidationError({"changes": [f"{direction!r} has no strategy {key!r}."]})
