/** The middle tabs. Each pane draws only while it shows, and a slow answer for an older selection is dropped. */

import { fill, notice } from "../shared/dom.js";

/** Wire `[role=tab]` buttons inside `root` to their panels; `onShow(name)` after each change. Arrow keys move. */
export function mountTabs(root, onShow) {
  const tabs = [...root.querySelectorAll("[role=tab]")];
  const show = (tab) => {
    for (const other of tabs) {
      const chosen = other === tab;
      other.setAttribute("aria-selected", String(chosen));
      other.tabIndex = chosen ? 0 : -1;
      other.classList.toggle("active", chosen);
      document.getElementById(other.getAttribute("aria-controls")).hidden = !chosen;
    }
    onShow(tab.dataset.tab);
  };
  for (const [position, tab] of tabs.entries()) {
    tab.addEventListener("click", () => show(tab));
    tab.addEventListener("keydown", (event) => {
      const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!move) return;
      const next = tabs[(position + move + tabs.length) % tabs.length];
      next.focus();
      show(next);
    });
  }
  show(tabs.find((tab) => tab.getAttribute("aria-selected") === "true") ?? tabs[0]);
}

/**
 * A pane that draws asynchronously. `draw(isCurrent)` resolves to the nodes to show; what arrives after a newer call
 * is dropped. Content stays in place until the new one is ready, so that a live page does not flicker.
 */
export class Pane {
  constructor(root, draw) {
    this.root = root;
    this.draw = draw;
    this.turn = 0;
    this.key = undefined;
  }

  /** Draw if `key` differs from what is shown; `key` names everything that the content depends on. */
  async show(key) {
    if (key === this.key) return;
    const isOtherStep = String(key).split("|")[0] !== String(this.key).split("|")[0];
    this.key = key;
    this.turn += 1;
    const turn = this.turn;
    if (isOtherStep) this.root.setAttribute("aria-busy", "true");
    try {
      const content = await this.draw();
      if (turn !== this.turn) return;
      const scroll = isOtherStep ? 0 : this.root.scrollTop;
      fill(this.root, content);
      this.root.scrollTop = scroll;
      this.root.dispatchEvent(new CustomEvent("pane:drawn"));
    } catch (error) {
      if (turn !== this.turn) return;
      this.key = undefined;
      fill(this.root, notice(error.message ?? `This pane could not be drawn: ${error.message}`, { tone: "error", symbol: "alert-triangle" }));
    } finally {
      if (turn === this.turn) this.root.removeAttribute("aria-busy");
    }
  }
}
