"""Routes that say which workers and devices there are."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from optimizer.models import WorkerHeartbeat
from optimizer.serializers import DeviceSerializer, WorkerSerializer
from optimizer.services.workers import offered_devices


class WorkerList(ListAPIView[WorkerHeartbeat]):
    """Worker processes, with whether they were seen lately."""

    queryset = WorkerHeartbeat.objects.order_by("name")
    serializer_class = WorkerSerializer


class DeviceList(APIView):
    """Devices that live workers offer."""

    @extend_schema(responses=DeviceSerializer(many=True))
    def get(self, request: Request) -> Response:
        devices = offered_devices()
        return Response(
            {
                "count": len(devices),
                "next": None,
                "previous": None,
                "results": DeviceSerializer(devices, many=True).data,
            }
        )
