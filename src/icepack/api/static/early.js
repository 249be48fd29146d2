/* Before anything is painted: the theme that was chosen here before. */
(function () {
  var chosen = null;
  try {
    chosen = localStorage.getItem("icepack.theme");
  } catch (unreadable) {
    chosen = null;
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
