/** The live run page: one store, one feed, and panes that follow the selection. */

import { pageData, perFrame } from "../shared/dom.js";
import { get } from "../shared/rest.js";
import { DiffPane } from "./diff.js";
import { EvaluationPane } from "./evaluation.js";
import { RunGraph } from "./graph.js";
import { RunHeader, titleOf } from "./header.js";
import { KernelPane } from "./kernel.js";
import { LogPane } from "./log.js";
import { mountTabs } from "./pane.js";
import { mountPhases } from "./phases.js";
import { BestPlot } from "./plot.js";
import { LiveFeed } from "./socket.js";
import { StatePane } from "./state.js";
import { mountSteps } from "./steps.js";
import { RunStore } from "./store.js";
import { WhyPane } from "./why.js";

const LOG_AT_START = 300;
const byId = (id) => document.getElementById(id);

function start() {
  const page = pageData("run-page");
  const urls = addresses(page);
  const store = new RunStore({ run: page.run, steps: page.steps, cursor: page.cursor, selected: selectedInUrl(page.steps) });
  mountSteps(byId("steps"), store);
  mountPhases(byId("phases"), store);
  new RunHeader(
    { facts: byId("run-facts"), actions: byId("run-actions"), exporter: byId("export"), pill: byId("new-steps"), connection: byId("live-state") },
    store,
    urls,
    page.may_operate,
  );
  new BestPlot(byId("plot"), store);
  new RunGraph(byId("graph"), store, urls).mount();
  mountPanes(store, urls, page.may_operate);
  store.on(["selection"], () => writeUrl(store));
  store.on(["run"], () => (document.title = titleOf(store.run)));
  window.addEventListener("popstate", () => store.select(selectedInUrl([...store.steps.values()])));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !event.defaultPrevented && !document.querySelector("dialog[open]") && event.target === document.body) store.select(null);
  });
  writeUrl(store);
  loadLog(store, urls);
  learnDevice(store, urls);
  new LiveFeed(store, { socketPath: `/ws/runs/${page.run.id}/`, eventsUrl: urls.events }).start();
}

function addresses({ run, memory_url: memory }) {
  const api = `/api/runs/${run.id}/`;
  return {
    memory,
    run: api,
    graph: `/api/banks/${run.bank.id}/graph/`,
    events: `${api}events/`,
    request: (name) => `${api}${name}/`,
    step: (id) => `/api/steps/${id}/`,
    candidate: (id) => `/api/candidates/${id}/`,
    diff: (id) => `/api/candidates/${id}/diff/`,
    evaluation: (id) => `/api/evaluations/${id}/`,
    reverifications: "/api/reverifications/",
  };
}

function mountPanes(store, urls, mayOperate) {
  const panes = {
    diff: new DiffPane(byId("pane-diff"), store, urls),
    kernel: new KernelPane(byId("pane-kernel"), store, urls),
    evaluation: new EvaluationPane(byId("pane-evaluation"), store, urls, mayOperate),
    state: new StatePane(byId("pane-state"), store, urls),
    log: new LogPane(byId("pane-log"), store),
  };
  const why = new WhyPane(byId("why"), store, urls);
  let shown = "diff";
  const refresh = perFrame(() => {
    panes[shown].show();
    why.show();
  });
  mountTabs(byId("panes"), (name) => {
    if (shown === "log" && name !== "log") panes.log.hide();
    shown = name;
    refresh();
  });
  store.on(["steps", "selection", "detail", "run"], refresh);
}

function selectedInUrl(steps) {
  const query = new URLSearchParams(location.search);
  const wanted = Number(query.get("step"));
  const byRow = Number(query.get("step_id")); // links from evidence know the row only
  return steps.find((step) => step.index === wanted || step.id === byRow)?.index ?? null;
}

function writeUrl(store) {
  const url = new URL(location.href);
  url.searchParams.delete("step_id");
  if (store.selected === null) url.searchParams.delete("step");
  else url.searchParams.set("step", store.selected);
  if (url.href !== location.href) history.replaceState(null, "", url);
}

/** The device is found when the first step begins; no event says which, so the run is read once more then. */
function learnDevice(store, urls) {
  let asked = false;
  store.on(["steps"], async () => {
    if (store.run.device_key || asked || store.steps.size === 0) return;
    asked = true;
    try {
      const { device_key, baseline_us } = await get(urls.run);
      store.run = { ...store.run, device_key, baseline_us };
      store.emit("run");
    } catch {
      asked = false;
    }
  });
}

async function loadLog(store, urls) {
  const before = Math.max(0, store.cursor - LOG_AT_START);
  try {
    const { events } = await get(`${urls.events}?after=${before}&limit=${LOG_AT_START}`);
    store.prependLog(events);
  } catch {
    // The log then begins with what arrives from now on.
  }
}

start();
