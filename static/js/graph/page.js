/** The memory page: graph and tables left, drawer right, one selection that stands in the URL. */

import { mountTabs } from "../run/pane.js";
import { el, fill, notice, pageData } from "../shared/dom.js";
import { get, patch, post } from "../shared/rest.js";
import { toast } from "../toast.js";
import { MemoryCanvas } from "./canvas.js";
import { Drawer } from "./drawer.js";
import { PartForm } from "./forms.js";
import { GraphModel } from "./model.js";
import { TimeSlider } from "./moments.js";
import { mountSearch } from "./search.js";
import { strongest } from "./strength.js";
import { utilityColour } from "./style.js";
import { BankTables } from "./tables.js";

const byId = (id) => document.getElementById(id);

class MemoryPage {
  constructor({ bank, may_curate: mayCurate, facts }) {
    Object.assign(this, { bank, mayCurate, facts });
    this.selection = selectionInUrl();
    this.needle = "";
    this.view = "graph";
    this.time = new TimeSlider(byId("moment-bar"), bank.id, () => this.travel());
  }

  async start() {
    const host = byId("memory-canvas");
    fill(host, notice("Loading the graph", { symbol: "loader" }));
    try {
      this.model = new GraphModel(await get(this.graphUrl()));
    } catch (error) {
      return fill(host, notice(`The graph did not load. ${error.message}`, { tone: "error", symbol: "alert-triangle" }));
    }
    fill(host);
    this.drawer = new Drawer(byId("drawer"), this.model, {
      mayCurate: this.mayCurate,
      select: (selection) => this.select(selection),
      edit: (part) => this.edit(part),
      create: (kind, part) => this.create(kind, part),
      expand: (key) => this.canvas.unfold(key),
      query: () => this.contextQuery(),
      changed: () => this.reload(),
      moment: () => this.time.at,
    });
    this.canvas = new MemoryCanvas(host, this.model, {
      onSelect: (selection) => this.select(selection),
      onMove: this.mayCurate ? (row, place) => this.savePlace(row, place) : null,
    });
    this.tables = new BankTables(byId("view-table"), this.model, (selection) => this.select(selection));
    this.wire();
    this.drawLegend();
    this.showEmpty();
    await Promise.all([this.offerContexts(), this.time.start()]);
    this.select(this.selection, { replace: true });
  }

  wire() {
    mountTabs(document.querySelector(".memory-left"), (name) => this.showView(name));
    mountSearch({
      input: byId("graph-search"),
      list: byId("graph-found"),
      model: this.model,
      onPick: (selection) => this.select(selection),
      onNeedle: (needle) => this.setNeedle(needle),
    });
    byId("fit-graph").addEventListener("click", () => this.canvas.fit());
    byId("expand-all").addEventListener("click", (event) => this.expandAll(event.currentTarget));
    byId("edge-share").addEventListener("input", () => this.filterEdges());
    byId("undo")?.addEventListener("click", () => this.undo());
    byId("evidence-context").addEventListener("change", () => this.reload());
    for (const button of document.querySelectorAll("[data-new]")) button.addEventListener("click", () => this.create(button.dataset.new, {}));
    window.addEventListener("popstate", () => this.select(selectionInUrl(), { replace: true }));
    document.addEventListener("keydown", (event) => this.onKey(event));
    document.addEventListener("htam:theme", () => this.drawLegend());
  }

  onKey(event) {
    const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
    if (event.key === "u" && this.mayCurate && !typing && !event.ctrlKey && !event.metaKey) return this.undo();
    if (event.key !== "Escape" || document.querySelector("dialog[open]")) return;
    if (event.target.id === "graph-search") return;
    if (byId("drawer").querySelector("form")) this.drawer.show(this.selection);
    else this.select(null);
  }

  showView(name) {
    this.view = name;
    const isGraph = name === "graph";
    for (const node of document.querySelectorAll(".graph-buttons")) node.hidden = !isGraph;
    if (isGraph) this.canvas?.cy.resize();
    else this.tables.draw(this.selection, this.needle);
  }

  setNeedle(needle) {
    this.needle = needle;
    const { cy } = this.canvas;
    cy.nodes().removeClass("found");
    if (needle) cy.nodes().filter((node) => node.data("label").toLowerCase().includes(needle)).addClass("found");
    if (this.view === "table") this.tables.draw(this.selection, needle);
  }

  select(selection, { replace = false } = {}) {
    this.selection = selection;
    this.canvas.show(selection);
    this.drawer.show(selection);
    if (this.view === "table") this.tables.draw(selection, this.needle);
    writeUrl(selection, replace);
  }

  expandAll(button) {
    const open = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(open));
    button.textContent = open ? "Hide strategies" : "Show strategies";
    this.canvas.toggleAll(open);
    this.canvas.fit();
  }

  edit(part) {
    this.openForm(this.selection.kind, part);
  }

  create(kind, part) {
    this.openForm(kind, { bank: this.bank.id, ...part });
  }

  openForm(kind, part) {
    const directions = [...this.model.directions.values()].map((row) => [row.id, row.title]);
    const form = new PartForm({
      kind,
      part,
      facts: this.facts,
      directions,
      onSaved: (saved) => this.saved(kind, saved),
      onClose: () => this.drawer.show(this.selection),
    });
    fill(byId("drawer"), form.root);
    form.root.querySelector("input, textarea, select")?.focus();
  }

  async saved(kind, part) {
    toast("Saved");
    await this.refresh();
    await this.time.grow();
    this.select({ kind, id: kind === "direction" ? part.key : part.id });
  }

  /** Read the numbers again and change what is drawn in place; nothing moves. */
  async refresh() {
    const fresh = new GraphModel(await get(this.graphUrl()));
    for (const [kind, name] of [["direction", "directions"], ["edge", "edges"], ["strategy", "strategies"]]) {
      for (const [key, row] of fresh[name]) {
        const place = kind === "direction" ? { x: row.x, y: row.y } : {};
        this.model[name].set(key, Object.assign(this.model[name].get(key) ?? {}, row, place));
        this.canvas.put(kind, this.model[name].get(key));
      }
    }
    this.showEmpty();
  }

  filterEdges() {
    const percent = Number(byId("edge-share").value);
    byId("edge-share-words").textContent = percent === 100 ? "all" : `${percent} %`;
    this.canvas.showEdges(strongest(this.model.edges, percent / 100));
  }

  /** Show the bank as it was at the slider's moment, or as it is now. */
  async travel() {
    try {
      const fresh = new GraphModel(await get(this.graphUrl()));
      Object.assign(this.model, fresh);
      this.canvas.replace(this.model);
      this.filterEdges();
      this.showEmpty();
      this.select(this.selection, { replace: true });
    } catch (error) {
      toast(error.message, "error");
    }
  }

  /** Take back the newest change that a person made and nobody undid. */
  async undo() {
    try {
      const { results } = await get(`/api/banks/${this.bank.id}/history/?by=people`);
      const last = results.find((change) => change.kind !== "reverted" && change.reverted_by.length === 0);
      if (!last) return toast("Nobody has changed this bank: there is nothing to undo.");
      await post(`/api/changes/${last.id}/revert/`, { reason: "" });
      toast(`Undone: ${last.sentence}`);
      await this.travel();
      await this.time.grow();
    } catch (error) {
      toast(error.message, "error");
    }
  }

  async reload() {
    try {
      await this.refresh();
      await this.time.grow();
      this.select(this.selection, { replace: true });
    } catch (error) {
      toast(error.message, "error");
    }
  }

  /** Remember where a curator put a direction. A newer version is read first when somebody else saved meanwhile. */
  async savePlace(row, place, again = true) {
    try {
      const saved = await patch(`/api/directions/${row.id}/`, { ...place, version: row.version });
      row.version = saved.version;
    } catch (error) {
      if (error.status === 409 && again) {
        row.version = error.body.current.version;
        await this.savePlace(row, place, false);
      } else toast(error.message, "error");
    }
  }

  graphUrl() {
    const at = this.time.at ? `&at=${this.time.at}` : "";
    return `/api/banks/${this.bank.id}/graph/?${this.contextQuery()}${at}`;
  }

  contextQuery() {
    return byId("evidence-context").value;
  }

  /** Evidence can be weighed as seen from one device, dtype and family: those that this bank has seen. */
  async offerContexts() {
    const select = byId("evidence-context");
    try {
      const { results } = await get(`/api/evidence/?bank=${this.bank.id}&limit=200`);
      const seen = new Map(results.map((row) => [`${row.device}|${row.dtype}|${row.family}`, row]));
      for (const { device, dtype, family } of seen.values()) {
        const value = new URLSearchParams({ device, dtype, family }).toString();
        select.append(el("option", { value }, `${device.replace(/^[^:]*:/, "").slice(0, 32)}, ${dtype}, ${family.replaceAll("_", " ")}`));
      }
      select.closest("label").hidden = seen.size === 0;
    } catch {
      select.closest("label").hidden = true;
    }
  }

  drawLegend() {
    const swatch = (utility, label) => el("li", {}, el("i", { class: "swatch", style: { background: utilityColour(utility) } }), label);
    fill(
      byId("legend"),
      el("ul", {}, swatch(-0.6, "slower"), swatch(0, "no change"), swatch(0.6, "faster")),
      el("span", { class: "muted" }, "size and width: evidence"),
    );
  }

  showEmpty() {
    const isEmpty = this.model.directions.size === 0;
    byId("memory-canvas").dataset.empty = String(isEmpty);
    document.querySelector(".memory-empty")?.remove();
    if (isEmpty) byId("view-graph").append(el("div", { class: "memory-empty" }, notice("This bank holds no direction yet. Make the first one, or import a bank.", { symbol: "topology-star-3" })));
  }
}

function selectionInUrl() {
  const query = new URLSearchParams(location.search);
  if (query.get("direction")) return { kind: "direction", id: query.get("direction") };
  for (const kind of ["strategy", "edge"]) {
    const id = Number(query.get(kind));
    if (id) return { kind, id };
  }
  return null;
}

function writeUrl(selection, replace) {
  const url = new URL(location.href);
  for (const kind of ["direction", "strategy", "edge"]) url.searchParams.delete(kind);
  if (selection) url.searchParams.set(selection.kind, selection.id);
  if (url.href === location.href) return;
  history[replace ? "replaceState" : "pushState"](null, "", url);
}

new MemoryPage(pageData("memory-page")).start();
