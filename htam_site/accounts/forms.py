"""Forms of the settings pages."""

from __future__ import annotations

from django import forms

from htam_site.roles import Role

ROLE_CHOICES = [(role.value, role.value) for role in Role]


class PersonForm(forms.Form):
    username = forms.CharField(max_length=150)
    roles = forms.MultipleChoiceField(choices=ROLE_CHOICES, required=False)


class RolesForm(forms.Form):
    roles = forms.MultipleChoiceField(choices=ROLE_CHOICES, required=False)
    active = forms.BooleanField(required=False)
