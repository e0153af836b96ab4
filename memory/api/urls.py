"""Routes of the memory under /api/."""

from django.urls import include, path
from rest_framework.routers import SimpleRouter

from memory.api.banks import BankViewSet
from memory.api.evidence import EvidenceViewSet
from memory.api.histories import ChangeViewSet
from memory.api.partial import PartialImport, PartialImportPreview
from memory.api.parts import DirectionViewSet, EdgeViewSet, StrategyViewSet
from memory.api.preview import PreviewView
from memory.api.proposals import ProposalViewSet

router = SimpleRouter()
router.register("banks", BankViewSet, basename="bank")
router.register("directions", DirectionViewSet, basename="direction")
router.register("strategies", StrategyViewSet, basename="strategy")
router.register("edges", EdgeViewSet, basename="edge")
router.register("evidence", EvidenceViewSet, basename="evidence")
router.register("changes", ChangeViewSet, basename="change")
router.register("proposals", ProposalViewSet, basename="proposal")

urlpatterns = [
    path("banks/<int:pk>/import/", PartialImport.as_view(), name="bank-import-parts"),
    path("banks/<int:pk>/import/preview/", PartialImportPreview.as_view(), name="bank-import-preview"),
    path("banks/<int:pk>/preview/", PreviewView.as_view(), name="bank-preview"),
    path("", include(router.urls)),
]
