/**
 * The state of one run as this page knows it: the run, its steps, the event cursor and the selection.
 *
 * Events are deltas and are applied idempotently: a page that was rendered at cursor 40 and replays event 39 ends in
 * the same state. Panels subscribe to topics ("run", "steps", "selection", "memory", "events", "connection").
 */

const LOG_LIMIT = 2000;
const PHASE_KINDS = new Set(["step.stage", "evaluation.phase", "step.repair"]);
const TERMINAL = new Set(["finished", "stopped", "cancelled", "failed"]);

export class RunStore {
  constructor({ run, steps, cursor, selected }) {
    this.run = run;
    this.steps = new Map(steps.map((step) => [step.index, step]));
    this.cursor = cursor;
    this.selected = selected; // a step index that a person chose, or null: follow the newest step
    this.unseen = new Set(); // steps that began while an older one was inspected
    this.log = [];
    this.details = new Map(); // step id -> promise of its decision, candidates and evaluations
    this.phases = new Map(); // step index -> {phase, since, attempt, of}
    this.connection = { state: "connecting", reason: "" };
    this.listeners = new Map();
  }

  on(topics, callback) {
    for (const topic of topics) {
      if (!this.listeners.has(topic)) this.listeners.set(topic, new Set());
      this.listeners.get(topic).add(callback);
    }
    return this;
  }

  emit(topic, detail) {
    for (const callback of this.listeners.get(topic) ?? []) callback(detail);
  }

  get terminal() {
    return TERMINAL.has(this.run.status);
  }

  get newest() {
    return this.steps.size ? Math.max(...this.steps.keys()) : null;
  }

  /** The step that every pane shows: the chosen one, else the newest. */
  get current() {
    return this.steps.get(this.selected ?? this.newest) ?? null;
  }

  get ordered() {
    return [...this.steps.values()].sort((a, b) => a.index - b.index);
  }

  /** Index of the step with row id `stepId`; null for a step that is not known. */
  indexOf(stepId) {
    for (const step of this.steps.values()) if (step.id === stepId) return step.index;
    return null;
  }

  /** Inspect step `index`, or follow the run with null. An index that does not exist is ignored. */
  select(index) {
    if (index !== null && !this.steps.has(index)) return;
    if (index === this.selected && index !== null) return;
    this.selected = index;
    if (index === null || index === this.newest) this.unseen.clear();
    this.emit("selection");
  }

  /** Take rows in order of `seq`; returns false when one is missing, so that the caller fetches the gap. */
  apply(events) {
    const topics = new Set();
    for (const event of events) {
      if (event.seq <= this.cursor) continue;
      if (event.seq !== this.cursor + 1) {
        this.publish(topics);
        return false;
      }
      this.cursor = event.seq;
      this.remember(event);
      for (const topic of REDUCERS[event.kind]?.(this, event.payload, event) ?? []) topics.add(topic);
    }
    this.publish(topics);
    return true;
  }

  publish(topics) {
    if (topics.size === 0) return;
    for (const topic of topics) this.emit(topic);
  }

  /** Keep `event` for the log, newest last, bounded. */
  remember(event) {
    this.log.push(event);
    if (this.log.length > LOG_LIMIT) this.log.splice(0, this.log.length - LOG_LIMIT);
    this.emit("events");
  }

  /** Put older events, fetched by REST, before what has arrived since. */
  prependLog(events) {
    const newest = this.log.length ? this.log[0].seq - 1 : this.cursor; // what lies beyond is still to be applied
    this.log = [...events.filter((event) => event.seq <= newest), ...this.log].slice(-LOG_LIMIT);
    this.retracePhases();
    this.emit("events");
    this.emit("phase");
  }

  /** After a reload: how far unfinished steps have come, read off the log. */
  retracePhases() {
    this.phases.clear();
    for (const event of this.log) {
      if (PHASE_KINDS.has(event.kind)) REDUCERS[event.kind](this, event.payload, event);
    }
  }

  setConnection(state, reason = "") {
    this.connection = { state, reason };
    this.emit("connection");
  }

  patchStep(index, values) {
    const step = this.steps.get(index);
    if (step) {
      this.steps.set(index, { ...step, ...values });
      this.details.delete(step.id);
    } else if (values.id) this.addStep(index, values);
  }

  addStep(index, values) {
    const inspecting = this.selected !== null;
    this.steps.set(index, { index, stage: "summarise", stage_seconds: {}, outcome: "", ...values });
    if (inspecting && index > this.selected) this.unseen.add(index);
  }
}

/** Event kind -> (store, payload, event) => topics that changed. Kinds that are not listed only reach the log. */
const REDUCERS = {
  "run.status"(store, payload, event) {
    store.run = { ...store.run, status: payload.status, request: payload.request ?? "", error: payload.error ?? "" };
    if (payload.status === "running" && !store.run.started_at) store.run.started_at = event.at;
    if (TERMINAL.has(payload.status)) {
      store.run.finished_at ??= event.at;
      store.phases.clear();
    }
    return ["run"];
  },
  "step.started"(store, payload, event) {
    if (store.steps.has(payload.index)) return [];
    store.addStep(payload.index, { id: payload.step, started_at: event.at });
    return ["steps", "selection"];
  },
  "step.stage"(store, payload, event) {
    const index = indexIn(store, payload);
    if (index === null || isFinished(store, index)) return [];
    store.patchStep(index, { stage: payload.stage });
    enterPhase(store, index, payload.stage, event.at);
    return ["steps", "detail"];
  },
  "step.direction"(store, payload) {
    return patchUnfinished(store, payload, { direction: payload.direction, probability: payload.probability });
  },
  "step.strategy"(store, payload) {
    return patchUnfinished(store, payload, { strategy: payload.strategy });
  },
  "candidate.written"(store, payload) {
    const known = store.steps.get(indexIn(store, payload))?.attempts ?? 0;
    return patchUnfinished(store, payload, { attempts: Math.max(payload.attempt + 1, known) });
  },
  "evaluation.phase"(store, payload, event) {
    const index = indexIn(store, payload);
    if (index === null || isFinished(store, index)) return [];
    enterPhase(store, index, payload.phase, event.at, { confirming: payload.kind === "confirm" });
    return ["phase"];
  },
  "evaluation.done"(store, payload) {
    const { outcome, message, speedup, speedup_low, speedup_high, time_us } = payload;
    return patchUnfinished(store, payload, { outcome, message, speedup, speedup_low, speedup_high, time_us });
  },
  "step.repair"(store, payload, event) {
    const index = indexIn(store, payload);
    if (index === null || isFinished(store, index)) return [];
    enterPhase(store, index, "write", event.at, { attempt: payload.attempt, of: payload.of });
    return ["steps", "phase"];
  },
  "memory.updated"(store, payload) {
    store.emit("memory", payload.change);
    return ["detail"];
  },
  "run.best"(store, payload) {
    store.run = {
      ...store.run,
      best_candidate: payload.candidate,
      best_speedup: payload.speedup,
      best_speedup_low: payload.speedup_low,
      best_speedup_high: payload.speedup_high,
      best_refuted_by: null,
    };
    return ["run", "steps"];
  },
  "candidate.reverified"(store, payload) {
    const index = indexIn(store, payload);
    const step = store.steps.get(index);
    if (!step) return [];
    const refuted = step.result === payload.candidate ? { refuted_by: payload.refuted_by } : {};
    store.patchStep(index, { ...refuted, judged_again: payload.evaluation });
    if (store.run.best_candidate === payload.candidate) store.run = { ...store.run, best_refuted_by: payload.refuted_by };
    return ["run", "steps", "detail"];
  },
  "step.finished"(store, payload) {
    const row = payload.step;
    store.patchStep(row.index, row);
    store.phases.delete(row.index);
    return ["steps", "detail"];
  },
};

/** Which step an event is about; null where it names none that is known. */
function indexIn(store, payload) {
  return payload.index ?? store.indexOf(payload.step);
}

/** Change the row of a step that is still under way; a finished row is final, whatever is replayed. */
function patchUnfinished(store, payload, values) {
  const index = indexIn(store, payload);
  if (index === null || isFinished(store, index)) return [];
  store.patchStep(index, values);
  return ["steps", "detail"];
}

function isFinished(store, index) {
  return store.steps.get(index)?.stage === "done";
}

function enterPhase(store, index, phase, at, extra = {}) {
  const before = store.phases.get(index) ?? { spent: {} };
  const spent = { ...before.spent };
  if (before.phase) {
    const passed = Math.max(0, (Date.parse(at) - Date.parse(before.since)) / 1000);
    spent[before.phase] = (spent[before.phase] ?? 0) + passed;
  }
  store.phases.set(index, { attempt: before.attempt, of: before.of, ...extra, spent, phase, since: at });
}
