// Loaded before the first paint, so that a dark page never flashes light.
(function () {
  var root = document.documentElement;
  var stored = null;
  try {
    stored = localStorage.getItem("htam-theme");
  } catch (error) {
    // Storage can be switched off; the system's preference then decides.
  }
  var dark = window.matchMedia && window.matchMedia("(prefers-color-scheme: dark)").matches;
  root.setAttribute("data-bs-theme", stored || (dark ? "dark" : "light"));
})();
