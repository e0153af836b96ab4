// Upload: a dropped or chosen file lands in the editor; the server parses it as it changes and marks the line.
import { api } from "../api.js";

const MAX_BYTES = 1_000_000;
const CHECK_AFTER_MS = 350;

const form = document.getElementById("upload");
const area = document.getElementById("source");
const nameField = document.getElementById("name");
const fileField = document.getElementById("file");
const state = document.getElementById("parse-state");
const editor = startEditor();
let waiting = null;
let latest = 0;

function aceTheme() {
  return document.documentElement.getAttribute("data-bs-theme") === "dark" ? "ace/theme/github_dark" : "ace/theme/github_light_default";
}

function startEditor() {
  if (!window.ace) return null;
  window.ace.config.set("basePath", document.querySelector("script[data-ace-base]").dataset.aceBase);
  const box = document.getElementById("editor");
  box.hidden = false;
  area.hidden = true;
  const made = window.ace.edit(box, {
    mode: "ace/mode/python",
    theme: aceTheme(),
    fontSize: 13,
    showPrintMargin: false,
    useWorker: false,
    value: area.value,
    placeholder: area.placeholder,
  });
  made.textInput.getElement().setAttribute("aria-label", "Source");
  // Tab leaves the editor for people without a mouse after Escape.
  made.commands.addCommand({ name: "leave", bindKey: "Esc", exec: () => nameField.focus() });
  document.addEventListener("htam:theme", () => made.setTheme(aceTheme()));
  return made;
}

const text = () => (editor ? editor.getValue() : area.value);

function show(kind, message) {
  state.dataset.kind = kind;
  state.textContent = message;
}

function mark(result) {
  if (!editor) return;
  const row = result.ok ? null : Math.max(0, (result.line ?? 1) - 1);
  editor.session.setAnnotations(
    result.ok ? [] : [{ row, column: Math.max(0, (result.column ?? 1) - 1), text: result.message, type: "error" }],
  );
}

async function check() {
  const mine = ++latest;
  const source = text();
  if (!source.trim()) {
    mark({ ok: true });
    return show("", "A KernelBench-format Python file");
  }
  show("busy", "Parsing");
  try {
    const result = await api("POST", "/api/operators/check/", { source });
    if (mine !== latest) return;
    mark(result);
    if (result.ok) show("good", "Parses");
    else show("bad", result.message);
  } catch (error) {
    if (mine === latest) show("bad", error.message);
  }
}

function checkSoon() {
  clearTimeout(waiting);
  waiting = setTimeout(check, CHECK_AFTER_MS);
}

function fillName(filename) {
  if (!nameField.value) nameField.value = filename.replace(/\.py$/i, "").replace(/[^\w.-]+/g, "_").slice(0, 120);
}

/** Put a file's text into the editor; whatever is no text of our size is refused with its sentence. */
async function read(file) {
  fileField.value = "";
  if (file.size > MAX_BYTES) {
    return show("bad", `${file.name} has ${(file.size / 1e6).toFixed(1)} MB; an operator may have ${MAX_BYTES / 1e6} MB at most.`);
  }
  let content;
  try {
    content = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    return show("bad", `${file.name} is not UTF-8 text, so it is no Python file.`);
  }
  if (editor) editor.setValue(content, -1);
  else area.value = content;
  fillName(file.name);
  check();
}

function acceptDrops() {
  const zone = document.getElementById("drop");
  let depth = 0;
  const veil = (on) => zone.classList.toggle("is-over", on);
  window.addEventListener("dragover", (event) => event.preventDefault());
  window.addEventListener("drop", (event) => event.preventDefault());
  zone.addEventListener("dragenter", () => veil(++depth > 0));
  zone.addEventListener("dragleave", () => veil(--depth > 0));
  zone.addEventListener(
    "drop",
    (event) => {
      event.preventDefault();
      event.stopPropagation();
      depth = 0;
      veil(false);
      const file = event.dataTransfer.files[0];
      if (file) read(file);
    },
    true,
  );
}

fileField.addEventListener("change", () => fileField.files[0] && read(fileField.files[0]));
if (editor) editor.session.on("change", checkSoon);
else area.addEventListener("input", checkSoon);
form.addEventListener("submit", () => {
  if (editor) area.value = editor.getValue();
});
acceptDrops();
if (text().trim()) check();
