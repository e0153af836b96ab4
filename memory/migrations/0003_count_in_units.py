"""Utilities in whole units, totals summed from them, and the first entry of every bank's history."""

from django.db import migrations
from django.db.models import Count, F, Max, Q, Sum
from django.db.models.functions import Floor

GRID = 1 << 20


def fill_units(apps, schema_editor):
    evidence = apps.get_model("memory", "Evidence").objects
    totals = apps.get_model("memory", "EvidenceTotals")
    evidence.update(utility_units=Floor(F("utility") * float(GRID) + 0.5))
    totals.objects.all().delete()
    for subject in ("direction_id", "strategy_id", "edge_id"):
        columns = ("bank_id", subject, "device", "dtype", "family")
        rows = evidence.filter(excluded=False, **{f"{subject}__isnull": False}).order_by()
        summed = rows.values_list(*columns).annotate(
            sum_tries=Count("id"),
            sum_compiled=Count("id", filter=Q(compiled=True)),
            sum_correct=Count("id", filter=Q(correct=True)),
            sum_improved=Count("id", filter=Q(improved=True)),
            sum_utility=Sum("utility_units"),
            sum_square=Sum(F("utility_units") * F("utility_units")),
        )
        names = (*columns, "tries", "compiled", "correct", "improved", "utility_units", "square_units")
        totals.objects.bulk_create(
            [totals(**dict(zip(names, row, strict=True))) for row in summed], batch_size=500
        )


def open_histories(apps, schema_editor):
    change = apps.get_model("memory", "Change").objects
    evidence = apps.get_model("memory", "Evidence").objects
    for bank in apps.get_model("memory", "MemoryBank").objects.all():
        newest = evidence.filter(bank=bank).aggregate(newest=Max("id"))["newest"] or 0
        change.create(bank=bank, kind="opened", evidence_seen=newest, facts={"before_history": True})


class Migration(migrations.Migration):
    dependencies = [("memory", "0002_curation_history")]
    operations = [
        migrations.RunPython(fill_units, migrations.RunPython.noop),
        migrations.RunPython(open_histories, migrations.RunPython.noop),
    ]
