"""Routes of the memory under /api/."""

from django.urls import include, path
from rest_framework.routers import SimpleRouter

from memory.api.banks import BankViewSet
from memory.api.evidence import EvidenceViewSet
from memory.api.parts import DirectionViewSet, EdgeViewSet, StrategyViewSet

router = SimpleRouter()
router.register("banks", BankViewSet, basename="bank")
router.register("directions", DirectionViewSet, basename="direction")
router.register("strategies", StrategyViewSet, basename="strategy")
router.register("edges", EdgeViewSet, basename="edge")
router.register("evidence", EvidenceViewSet, basename="evidence")

urlpatterns = [path("", include(router.urls))]
