"""The upload form of an operator: a file, or text pasted into the editor."""

from __future__ import annotations

from typing import Any

from django import forms

from gpu_eval.results import LibraryPolicy, Precision
from optimizer.services import operators

PRECISION_LABELS = {
    Precision.FP32: "fp32, strict",
    Precision.TF32: "TF32 allowed",
    Precision.FP16: "fp16 allowed",
    Precision.BF16: "bf16 allowed",
}
LIBRARY_LABELS = {
    LibraryPolicy.ALLOW: "Allowed: cuBLAS, cuDNN, torch",
    LibraryPolicy.FORBID: "Forbidden: own kernels only",
}


class UploadForm(forms.Form):
    name = forms.CharField(max_length=120)
    description = forms.CharField(max_length=500, required=False)
    file = forms.FileField(required=False, allow_empty_file=True)
    source = forms.CharField(required=False, strip=False)
    precision = forms.ChoiceField(choices=[(key.value, label) for key, label in PRECISION_LABELS.items()])
    library_policy = forms.ChoiceField(choices=[(key.value, label) for key, label in LIBRARY_LABELS.items()])

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        if not data.get("file") and not data.get("source"):
            raise forms.ValidationError("Drop a file or paste the operator's source.")
        return data

    def operator_fields(self) -> dict[str, Any]:
        """Arguments of `create_operator`. Raises UnusableInput on a file that is no text of our size."""
        fields = dict(self.cleaned_data)
        upload = fields.pop("file")
        if upload:
            fields["source"] = operators.decode_source(upload.read(operators.READ_AT_MOST), upload.name)
        return fields
