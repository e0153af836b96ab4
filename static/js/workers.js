// Polls /api/workers/: the device chip, the heartbeat, and a banner when no worker runs.
import { api } from "./api.js";
import { ago, el } from "./format.js";

const EVERY_MS = 5000;
const START_COMMAND = "python manage.py worker";

function setChip(id, state, text, title) {
  const chip = document.getElementById(id);
  if (!chip) return;
  chip.dataset.state = state;
  chip.querySelector(".text").textContent = text;
  chip.title = title;
}

function ageOf(worker) {
  return (Date.now() - new Date(worker.seen_at).getTime()) / 1000;
}

function showNone(newest) {
  const since = newest ? ` The last one was seen ${ago(ageOf(newest))}.` : "";
  setChip("worker-chip", "down", "No worker", `No worker runs.${since}`);
  setChip("device-chip", "unknown", "No device yet", "A worker reports its device when it starts");
  const banner = document.getElementById("worker-banner");
  banner.replaceChildren(`No worker runs, so queued runs wait.${since} Start one with `, el("code", {}, START_COMMAND));
  banner.hidden = false;
}

function showAlive(alive) {
  const busy = alive.find((worker) => worker.activity && worker.activity !== "idle");
  const shown = busy || alive[0];
  const device = shown.device?.name || "Device unknown";
  setChip("device-chip", busy ? "busy" : "idle", `${device} \u2013 ${busy ? busy.activity : "idle"}`, device);
  const word = alive.length === 1 ? "Worker" : `${alive.length} workers`;
  setChip("worker-chip", "up", word, alive.map((worker) => `${worker.name}: ${ago(ageOf(worker))}`).join("\n"));
  document.getElementById("worker-banner").hidden = true;
}

async function refresh() {
  if (document.hidden) return;
  try {
    const data = await api("GET", "/api/workers/");
    const workers = data.results ?? data;
    const alive = workers.filter((worker) => worker.alive);
    if (alive.length) showAlive(alive);
    else showNone(workers.sort((a, b) => ageOf(a) - ageOf(b))[0]);
  } catch (error) {
    setChip("worker-chip", "unknown", error.status === 0 ? "Server away" : "Worker unknown", error.message);
  }
}

export function watchWorkers() {
  if (!document.getElementById("worker-chip")) return;
  refresh();
  setInterval(refresh, EVERY_MS);
  document.addEventListener("visibilitychange", refresh);
}
