// Loaded in the head, before anything is painted, so that a chosen theme never flashes the other.
(() => {
  const root = document.documentElement;
  const KEY = "theme";

  const stored = () => {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // storage may be forbidden; the system's choice then holds
    }
  };

  const isDark = () =>
    root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;

  const choose = (theme) => {
    root.dataset.theme = theme;
    try {
      localStorage.setItem(KEY, theme);
    } catch {
      // The choice then lasts for this page only.
    }
  };

  const chosen = stored();
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;

  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-theme-toggle]")) choose(isDark() ? "light" : "dark");
  });
})();
