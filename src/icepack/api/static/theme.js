/* Applies the saved theme before the first paint, so that the page does not flash in the wrong colours. */
(function () {
  var saved = null;
  try {
    saved = localStorage.getItem("icepack.theme");
  } catch (unreadable) {
    saved = null;
  }
  if (saved === "light" || saved === "dark") document.documentElement.dataset.theme = saved;
})();
