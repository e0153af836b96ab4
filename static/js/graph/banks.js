/** The list of banks: make one, import one. */

import { api } from "../api.js";

for (const opener of document.querySelectorAll("[data-open-dialog]")) {
  opener.addEventListener("click", () => document.getElementById(opener.dataset.openDialog).showModal());
}
for (const closer of document.querySelectorAll("[data-close-dialog]")) {
  closer.addEventListener("click", () => closer.closest("dialog").close());
}

/** Send a form with `request(form)`, go to the bank that comes back, or say what is wrong in the form. */
function wire(id, request) {
  const form = document.getElementById(id);
  form?.addEventListener("submit", async (event) => {
    event.preventDefault();
    const error = form.querySelector(".form-error");
    error.textContent = "";
    try {
      const bank = await request(form);
      location.assign(`/memory/${bank.id}/`);
    } catch (problem) {
      error.textContent = problem.message;
    }
  });
}

wire("new-bank", (form) => api("POST", "/api/banks/", { name: form.elements.name.value.trim(), description: form.elements.description.value.trim() }));
wire("import-bank", (form) => {
  const body = new FormData();
  body.append("file", form.elements.file.files[0]);
  const name = form.elements.name.value.trim();
  return api("POST", `/api/banks/import/${name ? `?name=${encodeURIComponent(name)}` : ""}`, body);
});
