"""Every number of a node or edge, opened: what it is made of, and which steps are behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django.db.models import Count, Q, Sum
from rest_framework import serializers

from memory.history.snapshots import kind_of
from memory.models import GRID, ChangeItem, Evidence, GlobalNode, LocalNode, TransitionEdge
from memory.policy import POOLED, BucketTotals, EvidenceContext, PolicyConfig, posterior
from memory.policy.evidence import PRIOR_VARIANCE, BucketWeights
from memory.statistics import buckets

NEWEST = 1000  # rows that the trend looks back on
POINTS = 40  # of the trend
FORMULA = {
    "mean": "(n0 * prior + sum of w_j u_j) / (n0 + sum of w_j)",
    "interval": "mean +- 1.96 * sqrt(s2 / (n0 + n)), within -1..1",
    "s2": (
        f"(n0 * ({PRIOR_VARIANCE} + (prior - mean)^2) + sum of w_j (u_j - mean)^2) / (n0 + n): the scale of a "
        "normal with a conjugate prior whose n0 pseudo-observations have that variance"
    ),
    "source": (
        "Gelman et al., Bayesian Data Analysis, 3rd edition, section 3.3 (normal data with a conjugate prior); "
        "the 95 % quantile of the normal stands for that of Student's t, so that the interval is a little too "
        "narrow below some ten observations."
    ),
}
Part = GlobalNode | LocalNode | TransitionEdge


def numbers_json(
    part: Part, context: EvidenceContext = POOLED, config: PolicyConfig | None = None
) -> dict[str, Any]:
    """The prior with its weight, the evidence, the posterior, its breakdowns and its trend.

    Breakdowns by device, dtype and family come from the totals; those by proposer, model and hand, and the
    trend, from the part's own rows of the log.
    """
    config = config or PolicyConfig()
    kind = kind_of(part)
    rows = Evidence.objects.filter(**{kind: part})
    totals = buckets(part.totals.all())
    value = posterior(part.prior_utility, totals, context, config)
    counted = rows.filter(excluded=False)
    return {
        "kind": kind,
        "id": part.pk,
        "context": {"device": context.device, "dtype": context.dtype, "family": context.family},
        "prior": {
            "utility": part.prior_utility,
            "n0": config.n0,
            "weight": config.n0 / (config.n0 + value.n),
            "set": _prior_set(kind, part),
        },
        "evidence": {
            "tries": value.tries,
            "n": value.n,
            "excluded": rows.filter(excluded=True).count(),
            "mean_utility": _mean([(row.tries, row.utility_sum) for row in totals]),
        },
        "posterior": {
            "utility": value.mean,
            "utility_low": value.low,
            "utility_high": value.high,
            "formula": FORMULA,
        },
        "by": {
            **{
                name: _from_totals(totals, lambda row, name=name: getattr(row, name), context, config)  # type: ignore[misc]
                for name in ("device", "dtype", "family")
            },
            "proposer": _from_log(counted, "proposer"),
            "model": _from_log(counted, "model"),
            "human_touched": _from_log(counted, "human_touched"),
        },
        "trend": trend(part.prior_utility, totals, counted, config),
        "steps": f"/api/evidence/?{kind}={part.pk}",
    }


def _prior_set(kind: str, part: Part) -> dict[str, Any] | None:
    """Who set the prior last and why; None where it stands as the bank came."""
    items = ChangeItem.objects.filter(kind=kind, part=part.pk, after__has_key="prior_utility")
    item = items.select_related("change__user").order_by("-pk").first()
    if item is None:
        return None
    change = item.change
    return {
        "change": change.pk,
        "by": change.user.username if change.user else None,
        "run": change.run_id,
        "at": change.at,
        "reason": change.reason,
        "before": (item.before or {}).get("prior_utility"),
    }


def _mean(pairs: Sequence[tuple[int, float]]) -> float | None:
    tries = sum(count for count, _ in pairs)
    return sum(total for _, total in pairs) / tries if tries else None


def _from_totals(
    totals: Sequence[BucketTotals],
    name_of: Callable[[BucketTotals], str],
    context: EvidenceContext,
    config: PolicyConfig,
) -> list[dict[str, Any]]:
    """Rows of a breakdown, most tries first. ``n`` is what the row weighs in the context asked for."""
    weights = BucketWeights(context, config)
    grouped: dict[str, list[BucketTotals]] = {}
    for row in totals:
        grouped.setdefault(name_of(row), []).append(row)
    rows = [
        {
            "value": value,
            "tries": sum(row.tries for row in own),
            "improved": sum(row.improved for row in own),
            "correct": sum(row.correct for row in own),
            "mean_utility": _mean([(row.tries, row.utility_sum) for row in own]),
            "n": sum(weights.of(row.device, row.dtype, row.family) * row.tries for row in own),
        }
        for value, own in grouped.items()
    ]
    return sorted(rows, key=lambda row: (-row["tries"], row["value"]))


def _from_log(rows: Any, field: str) -> list[dict[str, Any]]:
    grouped = (
        rows.order_by()
        .values_list(field)
        .annotate(
            tries=Count("id"),
            wins=Count("id", filter=Q(improved=True)),
            right=Count("id", filter=Q(correct=True)),
            units=Sum("utility_units"),
        )
    )
    found = [
        {
            "value": value,
            "tries": tries,
            "improved": wins,
            "correct": right,
            "mean_utility": int(units) / GRID / tries,
            "n": float(tries),
        }
        for value, tries, wins, right, units in grouped
    ]
    return sorted(found, key=lambda row: (-row["tries"], str(row["value"])))


def trend(
    prior: float, totals: Sequence[BucketTotals], counted: Any, config: PolicyConfig
) -> list[dict[str, Any]]:
    """How the part did over its newest steps, oldest point first.

    Each point sums up equally many steps: their mean utility, and the posterior mean (all evidence alike)
    after the last of them.
    """
    columns = ("id", "created_at", "utility_units", "improved")
    newest = list(counted.order_by("-id").values_list(*columns)[:NEWEST])
    newest.reverse()
    tries = sum(row.tries for row in totals) - len(newest)
    total = sum(row.utility_sum for row in totals) - sum(row[2] for row in newest) / GRID
    size = max(1, -(-len(newest) // POINTS))
    points = []
    for start in range(0, len(newest), size):
        chunk = newest[start : start + size]
        tries += len(chunk)
        gained = sum(row[2] for row in chunk) / GRID
        total += gained
        points.append(
            {
                "from": chunk[0][1],
                "to": chunk[-1][1],
                "newest": chunk[-1][0],
                "steps": len(chunk),
                "improved": sum(row[3] for row in chunk),
                "mean_utility": gained / len(chunk),
                "posterior": (config.n0 * prior + total) / (config.n0 + tries),
            }
        )
    return points


class PriorSetSerializer(serializers.Serializer[Any]):
    change = serializers.IntegerField()
    by = serializers.CharField(allow_null=True)
    run = serializers.IntegerField(allow_null=True)
    at = serializers.DateTimeField()
    reason = serializers.CharField()
    before = serializers.FloatField(allow_null=True)


class PriorSerializer(serializers.Serializer[Any]):
    utility = serializers.FloatField(help_text="log2 speed-up of a step, -1..1")
    n0 = serializers.FloatField(help_text="How many observations the prior is worth.")
    weight = serializers.FloatField(help_text="Its share of the posterior mean, n0 / (n0 + n), 0..1.")
    set = PriorSetSerializer(allow_null=True)


class EvidenceSumSerializer(serializers.Serializer[Any]):
    tries = serializers.IntegerField(help_text="Counted steps.")
    n = serializers.FloatField(help_text="The same, weighted by their distance from the context.")
    excluded = serializers.IntegerField(help_text="Rows that are left out.")
    mean_utility = serializers.FloatField(allow_null=True)


class PosteriorSerializer(serializers.Serializer[Any]):
    utility = serializers.FloatField()
    utility_low = serializers.FloatField(help_text="Lower end of the 95 % interval.")
    utility_high = serializers.FloatField()
    formula = serializers.DictField(
        child=serializers.CharField(), help_text="How both come about, with source."
    )


class BreakdownSerializer(serializers.Serializer[Any]):
    value = serializers.CharField(
        help_text="Of human_touched true or false; a model may be the empty string."
    )
    tries = serializers.IntegerField()
    improved = serializers.IntegerField()
    correct = serializers.IntegerField()
    mean_utility = serializers.FloatField()
    n = serializers.FloatField()


class BreakdownsSerializer(serializers.Serializer[Any]):
    device = BreakdownSerializer(many=True)
    dtype = BreakdownSerializer(many=True)
    family = BreakdownSerializer(many=True)
    proposer = BreakdownSerializer(many=True)
    model = BreakdownSerializer(many=True)
    human_touched = BreakdownSerializer(many=True)


class TrendSerializer(serializers.Serializer[Any]):
    to = serializers.DateTimeField()
    newest = serializers.IntegerField(help_text="Id of the newest evidence row of this point.")
    steps = serializers.IntegerField()
    improved = serializers.IntegerField()
    mean_utility = serializers.FloatField()
    posterior = serializers.FloatField(help_text="After this point, all evidence alike.")

    def get_fields(self) -> dict[str, Any]:
        return {"from": serializers.DateTimeField(), **super().get_fields()}


class NumbersSerializer(serializers.Serializer[Any]):
    """Every number of a node or edge with what it is made of. ``steps`` lists the rows behind it, paged."""

    kind = serializers.CharField()
    id = serializers.IntegerField()
    prior = PriorSerializer()
    evidence = EvidenceSumSerializer()
    posterior = PosteriorSerializer()
    by = BreakdownsSerializer()
    trend = TrendSerializer(many=True)
    steps = serializers.CharField()

    def get_fields(self) -> dict[str, Any]:
        fields = super().get_fields()
        return {**fields, "context": serializers.DictField(child=serializers.CharField())}
