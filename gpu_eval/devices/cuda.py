"""placeholder"""
from gpu_eval.devices.base import DeviceUnavailable
class CudaBackend:
    kind = "cuda"
    def __enter__(self): raise DeviceUnavailable("PyCUDA is not installed")
    def __exit__(self, *a): pass
    def open(self): raise DeviceUnavailable("PyCUDA is not installed")
