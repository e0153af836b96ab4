/** The run's header: status, figures, and what pause, stop, cancel and resume do to the step in flight. */

import { ratio, relativeTime, speedup } from "../format.js";
import { el, fill, icon, perFrame } from "../shared/dom.js";
import { post } from "../shared/rest.js";
import { refutedMark } from "./marks.js";
import { toast } from "../toast.js";

const LABELS = { queued: "Queued", running: "Running", paused: "Paused", finished: "Finished", stopped: "Stopped", cancelled: "Cancelled", failed: "Failed" };
const TONES = { queued: "waiting", running: "live", paused: "held", finished: "good", stopped: "ended", cancelled: "ended", failed: "bad" };
const VERIFIED = new Set(["faster", "correct", "slower"]);
const PENDING = {
  pause: (step) => `Pausing: ${step} is finished first`,
  stop: (step) => `Stopping: ${step} is finished first`,
  cancel: (step) => `Cancelling: ${step} is being killed`,
};

export class RunHeader {
  constructor({ facts, actions, exporter, pill, connection }, store, urls, mayOperate) {
    Object.assign(this, { facts, actions, exporter, pill, connection, store, urls, mayOperate });
    const draw = perFrame(() => this.draw());
    store.on(["run", "steps", "selection", "connection"], draw);
    this.dialog = document.getElementById("cancel-dialog");
    this.dialog?.addEventListener("close", () => this.dialog.returnValue === "cancel-run" && this.send("cancel"));
    this.draw();
  }

  draw() {
    this.drawFacts();
    this.drawActions();
    this.drawExport();
    this.drawPill();
    this.drawConnection();
  }

  drawFacts() {
    const { run } = this.store;
    const done = this.store.ordered.filter((step) => step.stage === "done").length;
    const facts = [
      fact("Status", el("span", { class: `status-word status-word-${TONES[run.status]}`, dataset: { runStatus: run.status } }, el("i", {}), LABELS[run.status] ?? run.status)),
      fact("Best", run.best_speedup ? [speedup(run.best_speedup, run.best_speedup_low, run.best_speedup_high), run.best_refuted_by ? [" ", refutedMark(run.best_refuted_by)] : null] : el("span", { class: "muted" }, `none beats PyTorch${this.store.terminal ? "" : " yet"}`)),
      fact("Steps", el("span", { class: "num" }, `${done} of ${run.steps_total}`)),
      fact("Device", run.device_key ? run.device_key.replace(/^[^:]*:/, "") : `${run.device} (not chosen yet)`),
      fact("Method", run.method),
      fact("Proposer", run.proposer),
      fact("Memory", el("a", { href: this.urls.memory }, run.bank?.name ?? "bank")),
      fact("Seed", el("span", { class: "num" }, run.seed)),
      fact("Started", run.started_at ? relativeTime(run.started_at) : "not yet"),
      run.created_by ? fact("By", run.created_by) : null,
    ];
    const notes = [
      run.request && PENDING[run.request] && !this.store.terminal ? note("hourglass", PENDING[run.request](this.inFlight()), "held") : null,
      run.error ? note("alert-triangle", run.error, "bad") : null,
      run.override_note ? note("shield-exclamation", `A failed gate was overridden: ${run.override_note}`, "held") : null,
      run.human_touched ? note("hand-stop", "A person intervened in this run.", "held") : null,
    ];
    fill(this.facts, el("dl", { class: "run-facts" }, ...facts), ...notes);
  }

  drawActions() {
    if (!this.mayOperate) return;
    const { run, terminal } = this.store;
    if (terminal) {
      fill(this.actions);
      return;
    }
    const step = this.inFlight();
    const idle = run.status !== "running"; // queued or paused: nothing is in flight
    const pending = run.request;
    const buttons = [];
    if (run.status === "paused" || pending === "pause") {
      buttons.push(action("player-play", "Resume", pending === "pause" ? "Takes the pause back" : "Goes on with the next step", () => this.send("resume"), { name: "resume" }));
    } else {
      buttons.push(action("player-pause", "Pause", idle ? "Holds before the first step" : `Finishes ${step}, then holds`, () => this.send("pause"), { name: "pause", disabled: Boolean(pending) }));
    }
    buttons.push(
      action("player-stop", "Stop", idle ? "Closes the run" : `Finishes ${step}, then closes`, () => this.send("stop"), { name: "stop", disabled: pending === "stop" || pending === "cancel" }),
      action("x", "Cancel", idle ? "Closes the run" : `Kills ${step} now`, () => this.confirmCancel(), { name: "cancel", danger: true, disabled: pending === "cancel" }),
    );
    fill(this.actions, ...buttons);
  }

  /** There is something to take away once a step's kernel is correct. */
  drawExport() {
    const ready = this.store.ordered.some((step) => VERIFIED.has(step.outcome));
    const hint = this.exporter.querySelector("small");
    this.exporter.classList.toggle("disabled", !ready);
    if (ready) this.exporter.removeAttribute("aria-disabled");
    else this.exporter.setAttribute("aria-disabled", "true");
    hint.textContent = ready ? "Kernel, verdicts, verify.py" : "Once a kernel is correct";
  }

  /** The step that a request would meet, in words. */
  inFlight() {
    const step = this.store.ordered.find((item) => item.stage !== "done");
    return step ? `step ${step.index}` : this.store.steps.size ? "the step in flight" : "the first step";
  }

  confirmCancel() {
    if (!this.dialog) return this.send("cancel");
    this.dialog.querySelector("[data-step]").textContent = this.inFlight();
    this.dialog.returnValue = "";
    this.dialog.showModal();
  }

  async send(name) {
    try {
      const run = await post(this.urls.request(name));
      if (run?.status) {
        this.store.run = { ...this.store.run, status: run.status, request: run.request ?? "" };
        this.store.emit("run");
      }
    } catch (error) {
      toast(error.message, "error");
    }
  }

  drawPill() {
    const { selected, unseen, current, newest, terminal } = this.store;
    if (selected === null) return fill(this.pill);
    const label = unseen.size ? `${unseen.size} new ${unseen.size === 1 ? "step" : "steps"}` : selected === newest ? null : terminal ? "Newest step" : "Follow the run";
    fill(
      this.pill,
      label
        ? el(
            "button",
            { type: "button", class: `btn btn-sm pill${unseen.size ? " pill-new" : ""}`, onclick: () => this.store.select(null), title: `Showing step ${current?.index}` },
            icon("arrow-bar-to-down"),
            label,
          )
        : null,
    );
  }

  drawConnection() {
    const { state, reason } = this.store.connection;
    const chip = this.connection;
    if (!chip) return;
    const words = {
      open: "Live",
      connecting: "Connecting",
      reconnecting: "Reconnecting",
      polling: "Polling every 2 s",
      refused: "Not live",
      closed: "Ended",
    };
    chip.hidden = false;
    chip.dataset.wsState = state === "reconnecting" ? "connecting" : state === "refused" ? "closed" : state;
    chip.querySelector(".text").textContent = words[state] ?? state;
    chip.title = reason || (state === "open" ? `Events arrive by websocket; newest is ${this.store.cursor}` : "The view catches up by itself");
  }
}

/** "1.84x" for the page's title. */
export function titleOf(run) {
  const best = run.best_speedup ? ` ${ratio(run.best_speedup)}` : "";
  return `Run ${run.id}${best} ${LABELS[run.status] ?? ""} - ${run.operator?.name ?? ""}`;
}

function fact(name, value) {
  return el("div", { class: "run-fact" }, el("dt", {}, name), el("dd", {}, value));
}

function note(symbol, text, tone) {
  return el("p", { class: `run-note run-note-${tone}` }, icon(symbol), text);
}

function action(symbol, label, consequence, onclick, { name, danger = false, disabled = false }) {
  return el(
    "button",
    { type: "button", class: `btn run-action${danger ? " run-action-danger" : ""}`, onclick, disabled, dataset: { request: name } },
    icon(symbol),
    el("span", { class: "run-action-text" }, el("span", {}, label), el("small", {}, consequence)),
  );
}
