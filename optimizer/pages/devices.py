"""The page of workers and the devices they bring."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from htam_site import figures
from htam_site.roles import Role, require_role
from optimizer.loop import clearance
from optimizer.models import WorkerHeartbeat
from optimizer.services.workers import is_alive, offered_devices

SENTINEL_TITLES = {
    clearance.CHECKING: ("Sentinels are being tried; evaluations wait for them", "hourglass"),
    clearance.PASSED: ("Sentinels passed", "shield-check"),
    clearance.FAILED: ("A sentinel failed: nothing is judged on this device", "shield-x"),
    clearance.SKIPPED: ("Sentinels are switched off", "shield-off"),
}


@require_role(Role.OPERATOR)
def devices(request: HttpRequest) -> HttpResponse:
    now = timezone.now()
    workers = sorted(
        WorkerHeartbeat.objects.all(), key=lambda worker: (not is_alive(worker, now), worker.name)
    )
    rows = [{"worker": worker, "alive": is_alive(worker, now)} for worker in workers[:50]]
    context = {"workers": rows, "devices": [device_card(device) for device in offered_devices()]}
    return render(request, "operators/devices.html", context)


def device_card(device: dict[str, Any]) -> dict[str, Any]:
    """A device's facts as rows of label and text."""
    facts = device["facts"]
    rate = facts.get("peak_fp32_gflops")
    bandwidth = facts.get("peak_bandwidth_gbs")
    measured = "measured" if facts.get("peaks_measured") else "theoretical"
    rows = [
        ("Kind", {"cuda": "CUDA", "opencl": "OpenCL"}.get(facts["kind"], facts["kind"])),
        ("Architecture", facts.get("architecture") or figures.DASH),
        ("Compute units", str(facts.get("compute_units") or figures.DASH)),
        ("Memory", figures.size_bytes(facts.get("memory_bytes"))),
        ("Last-level cache", figures.size_bytes(facts.get("l2_bytes"))),
        (
            "Peak bandwidth",
            f"{figures.quantity(bandwidth * 1e9, 'B/s')}, {measured}" if bandwidth else figures.DASH,
        ),
        (
            "Peak fp32 rate",
            f"{figures.quantity(rate * 1e9, 'FLOP/s')}, {measured}" if rate else figures.DASH,
        ),
    ]
    return {
        "name": device["name"],
        "kind": device["kind"],
        "rows": rows,
        "workers": device["workers"],
        "sentinels": sentinel_panel(device["sentinels"]),
    }


def sentinel_panel(found: dict[str, Any]) -> dict[str, Any]:
    """What became of a device's sentinel plans, with a title and an icon."""
    title, icon = SENTINEL_TITLES.get(found.get("state", ""), SENTINEL_TITLES[clearance.CHECKING])
    return {**found, "title": title, "icon": icon}
