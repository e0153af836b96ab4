"""Addresses of the pages of runs and operators."""

from django.urls import include, path
from django.views.generic import RedirectView

from optimizer.pages import devices, launch, operators, runs, verification

run_pages = [
    path("", runs.run_list, name="list"),
    path("new/", launch.new, name="new"),
    path("new/facts/", launch.facts, name="launch-facts"),
    path("verification/", verification.page, name="verification"),
    path("verification/all/", verification.reverify_winners, name="reverify-winners"),
    path("verification/withdraw/", verification.withdraw_waiting, name="withdraw-waiting"),
    path("<int:run_id>/", runs.run_detail, name="detail"),
]

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="runs:list")),
    path("runs/", include((run_pages, "runs"))),
    path("operators/", include((operators.urlpatterns, "operators"))),
    path("devices/", devices.devices, name="devices"),
]
