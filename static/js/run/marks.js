/** Marks that stand beside a result wherever it shows. */

import { el, icon } from "../shared/dom.js";

/** The mark of a result that a newer checker no longer finds correct. */
export function refutedMark(version) {
  return el(
    "span",
    { class: "refuted", title: "Judged again, it is no longer correct. Its evidence is left out of the memory." },
    icon("shield-x"),
    `not confirmed by checker ${version}`,
  );
}
