"""Short forms of elementary functions for fast maths, as helper functions of a plan.

Accuracy in float32: exp 1 ulp inside [-87, 88] (Cephes expf, S. Moshier); log 1 ulp for normal numbers (Cephes logf);
erf 1.5e-7 absolute (Abramowitz and Stegun 7.1.26); tanh and tanh(softplus(x)) 2e-7 absolute. All hand NaN on.
"""

from __future__ import annotations

import re

_EXP_OPENCL = """
// exp(x): a power of two times a polynomial, without branches; exact to an ulp, never 0 or infinite
{F} quick_exp{W}({F} x) {{
    const {F} c = x < -87.3f ? ({F})(-87.3f) : (x > 88.7f ? ({F})(88.7f) : x);
    const {F} shifted = c * 1.44269504f + 12582912.0f;  // the nearest integer, in the low bits
    const {F} n = shifted - 12582912.0f;
    const {F} r = (c - n * 0.693359375f) + n * 2.12194440e-4f;
    {F} p = 1.9875691500e-4f * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 0.5f;
    p = p * r * r + r + 1.0f;
    return p * as_{F}((as_{I}(shifted) - 0x4b400000 + 127) << 23);
}}
"""

_LOG_OPENCL = """
// log(x): exponent plus a polynomial of the mantissa
{F} quick_log{W}({F} x) {{
    const {I} bits = as_{I}(x);
    const {I} e = (bits - 0x3f3504f3) >> 23;
    const {F} n = convert_{F}(e);
    const {F} f = as_{F}(bits - (e << 23)) - 1.0f;
    {F} p = 7.0376836292e-2f * f - 1.1514610310e-1f;
    p = p * f + 1.1676998740e-1f;
    p = p * f - 1.2420140846e-1f;
    p = p * f + 1.4249322787e-1f;
    p = p * f - 1.6668057665e-1f;
    p = p * f + 2.0000714765e-1f;
    p = p * f - 2.4999993993e-1f;
    p = p * f + 3.3333331174e-1f;
    const {F} square = f * f;
    const {F} y = f + (square * f * p - n * 2.12194440e-4f - 0.5f * square) + n * 0.693359375f;
    return x > 0.0f ? y : (x == 0.0f ? ({F})(-INFINITY) : ({F})(NAN));
}}
"""

_TANH = """
// tanh(x) from one exponential
{F} quick_tanh{W}({F} x) {{
    return 1.0f - 2.0f / ({exp}(2.0f * x) + 1.0f);
}}
"""

_TANH_SOFTPLUS = """
// tanh(log(1 + exp(x))) from one exponential
{F} quick_tanh_softplus{W}({F} x) {{
    const {F} e = {exp}(x);
    return 1.0f - 2.0f / (e * (e + 2.0f) + 2.0f);
}}
"""

_ERF = """
// erf(x) to 1.5e-7: Abramowitz and Stegun 7.1.26
{F} quick_erf{W}({F} x) {{
    const {F} size = fabs(x);
    const {F} t = 1.0f / (size * 0.3275911f + 1.0f);
    {F} p = 1.061405429f * t - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    return copysign(1.0f - p * t * {exp}(-size * size), x);
}}
"""

_BODIES = {
    "exp": _EXP_OPENCL,
    "log": _LOG_OPENCL,
    "tanh": _TANH,
    "tanh_softplus": _TANH_SOFTPLUS,
    "erf": _ERF,
}
_CALL = re.compile(r"\bquick_(exp|log|tanh_softplus|tanh|erf)(\d*)\(")
_NEEDS_EXP = {"tanh", "tanh_softplus", "erf"}


def quick_helpers(text: str, language: str) -> list[str]:
    """Definitions of the quick functions that ``text`` calls, in an order that compiles."""
    calls = {(name, width) for name, width in _CALL.findall(text)}
    if language == "opencl":
        calls |= {("exp", width) for name, width in calls if name in _NEEDS_EXP}
    ordered = sorted(calls, key=lambda call: (call[0] != "exp", call[0], call[1]))
    return [_definition(name, width, language) for name, width in ordered]


def _definition(name: str, width: str, language: str) -> str:
    exp = "__expf" if language == "cuda" else f"quick_exp{width}"
    text = _BODIES[name].strip("\n").format(F=f"float{width}", I=f"int{width}", W=width, exp=exp)
    if language == "cuda":
        text = re.sub(r"^float quick", "__device__ __forceinline__ float quick", text, flags=re.MULTILINE)
        text = text.replace("fabs(", "fabsf(").replace("copysign(", "copysignf(")
    return text
