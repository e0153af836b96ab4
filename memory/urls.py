"""Addresses of the memory's pages."""

from django.urls import path

from memory.pages import banks

app_name = "memory"
urlpatterns = [
    path("", banks.bank_list, name="list"),
    path("<int:bank_id>/", banks.bank_graph, name="graph"),
    path("<int:bank_id>/history/", banks.bank_history, name="history"),
    path("<int:bank_id>/review/", banks.bank_review, name="review"),
]
