"""The launch form. Defaults are such that one click is enough."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from htam_site.roles import Role, require_role
from memory.models import MemoryBank
from memory.policy import PolicyConfig
from optimizer.choices import OperatorStatus
from optimizer.loop.methods import METHODS
from optimizer.models import Operator
from optimizer.proposers import available_proposers
from optimizer.recipes import coverage
from optimizer.services import runs
from optimizer.services.operators import Refused
from optimizer.services.workers import live_workers

DEVICE_LABELS = {"auto": "Automatic", "cuda": "CUDA", "opencl": "OpenCL"}
DEFAULTS = PolicyConfig()
POLICY_NUMBERS = ("tau", "beta", "gamma", "n0", "decay")
POLICY_SWITCHES = ("use_prefix", "use_local_memory", "use_hierarchy")


class LaunchForm(forms.Form):
    operator = forms.ModelChoiceField(Operator.objects.order_by("name"), empty_label=None)
    bank = forms.ModelChoiceField(MemoryBank.objects.order_by("pk"), empty_label=None)
    method = forms.ChoiceField()
    proposer = forms.ChoiceField()
    device = forms.ChoiceField(choices=list(DEVICE_LABELS.items()), initial="auto")
    steps_total = forms.IntegerField(min_value=1, max_value=100, initial=6)
    repair_tries = forms.IntegerField(min_value=0, max_value=10, initial=2)
    seed = forms.IntegerField(initial=0)
    tau = forms.FloatField(initial=DEFAULTS.tau, required=False)
    beta = forms.FloatField(initial=DEFAULTS.beta, required=False)
    gamma = forms.FloatField(initial=DEFAULTS.gamma, required=False)
    n0 = forms.FloatField(initial=DEFAULTS.n0, required=False)
    decay = forms.FloatField(initial=DEFAULTS.decay, required=False)
    use_prefix = forms.BooleanField(initial=DEFAULTS.use_prefix, required=False)
    use_local_memory = forms.BooleanField(initial=DEFAULTS.use_local_memory, required=False)
    use_hierarchy = forms.BooleanField(initial=DEFAULTS.use_hierarchy, required=False)
    frozen = forms.BooleanField(initial=False, required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["method"].choices = list(METHODS.items())  # type: ignore[attr-defined]
        self.fields["proposer"].choices = available_proposers()  # type: ignore[attr-defined]

    def policy(self) -> dict[str, Any]:
        """The policy settings that differ from the defaults or are switches."""
        data = self.cleaned_data
        numbers = {name: data[name] for name in POLICY_NUMBERS if data[name] is not None}
        return numbers | {name: data[name] for name in (*POLICY_SWITCHES, "frozen")}

    def launch_arguments(self) -> dict[str, Any]:
        names = ("bank", "method", "proposer", "device", "steps_total", "repair_tries", "seed")
        return {name: self.cleaned_data[name] for name in names} | {"policy": self.policy()}


@require_role(Role.OPERATOR, read=Role.OPERATOR)
def new(request: HttpRequest) -> HttpResponse:
    form = LaunchForm(request.POST or None, initial=initial(request))
    if request.method == "POST" and form.is_valid():
        try:
            run = runs.launch(form.cleaned_data["operator"], user=request.user, **form.launch_arguments())
            return redirect("runs:detail", run.pk)
        except Refused as error:
            form.add_error(None, str(error))
    status = 400 if form.errors else 200
    context = {"form": form, "has_operators": Operator.objects.exists()} | facts_of(form)
    return render(request, "runs/launch.html", context, status=status)


def initial(request: HttpRequest) -> dict[str, Any]:
    """The operator that the address names, else the first that is ready, on the first bank."""
    asked = request.GET.get("operator", "")
    operators = Operator.objects.all()
    operator = operators.filter(pk=int(asked)).first() if asked.isdecimal() else None
    operator = operator or operators.filter(status=OperatorStatus.READY).first() or operators.first()
    bank = MemoryBank.objects.order_by("pk").first()
    return {"operator": operator and operator.pk, "bank": bank and bank.pk}


@require_role(Role.OPERATOR)
def facts(request: HttpRequest) -> HttpResponse:
    """The panel beside the form: whether this operator can run, what the recipes cover, how long it takes."""
    form = LaunchForm(request.GET)
    form.is_valid()
    return render(request, "runs/launch_facts.html", facts_of(form))


def facts_of(form: LaunchForm) -> dict[str, Any]:
    operator = chosen_operator(form)
    if operator is None:
        return {"operator": None}
    device = value_of(form, "device") or "auto"
    steps = steps_of(form)
    report = runs.report_for(operator, device) if device in DEVICE_LABELS else None
    return {
        "operator": operator,
        "refusal": refusal(operator),
        "report": report,
        "coverage": coverage(report.graph, report.graph_reason) if report else None,
        "estimate": runs.estimate(operator, steps, device),
        "steps": steps,
        "no_worker": not live_workers(),
    }


def chosen_operator(form: LaunchForm) -> Operator | None:
    key = str(value_of(form, "operator") or "")
    return Operator.objects.filter(pk=int(key)).first() if key.isdecimal() else None


def steps_of(form: LaunchForm) -> int:
    text = str(value_of(form, "steps_total") or "")
    return min(max(int(text), 1), 100) if text.isdecimal() else 6


def value_of(form: LaunchForm, name: str) -> Any:
    """What the form shows in a field, whether it was submitted, is new, or is invalid."""
    return form[name].value()


def refusal(operator: Operator) -> str:
    """Why a run of this operator would be refused now, or nothing."""
    try:
        runs.check_operator(operator)
    except Refused as error:
        return str(error)
    return ""
