"""Routes of operators, runs and workers."""

from __future__ import annotations

from django.urls import include, path
from rest_framework.routers import SimpleRouter

from optimizer.api.operators import OperatorViewSet
from optimizer.api.runs import CandidateViewSet, EvaluationViewSet, RunViewSet, StepViewSet
from optimizer.api.steering import SteerViewSet
from optimizer.api.verification import ReverificationViewSet
from optimizer.api.workers import DeviceList, WorkerList

router = SimpleRouter()
router.register("operators", OperatorViewSet, basename="api-operator")
router.register("runs", RunViewSet, basename="api-run")
router.register("steps", StepViewSet, basename="api-step")
router.register("candidates", CandidateViewSet, basename="api-candidate")
router.register("evaluations", EvaluationViewSet, basename="api-evaluation")
router.register("reverifications", ReverificationViewSet, basename="api-reverification")

steers = SteerViewSet.as_view({"get": "list", "post": "create"})
steer = SteerViewSet.as_view({"delete": "destroy"})

urlpatterns = [
    path("", include(router.urls)),
    path("runs/<int:run_pk>/steering/", steers, name="api-steers"),
    path("runs/<int:run_pk>/steering/<int:pk>/", steer, name="api-steer"),
    path("workers/", WorkerList.as_view(), name="api-workers"),
    path("devices/", DeviceList.as_view(), name="api-devices"),
]
