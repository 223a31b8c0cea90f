// The worker that shows a page of its own where there is no network. Last of all: nothing waits.

addEventListener("load", () => {
  navigator.serviceWorker?.register("/sw.js").catch(() => {
    // Forbidden by the browser's settings, or not over TLS: the site works without.
  });
});
