// Runs before the page is drawn, so that a theme that was chosen does not flash.
"use strict";
try {
  const chosen = localStorage.getItem("caudal-theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
} catch { /* without storage the system's theme holds */ }
