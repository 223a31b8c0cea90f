// The site's service worker: a page that says so where there is no network. It keeps that page and
// its looks, and nothing that anyone asked for. KEPT comes before, from the site: the version, the
// page, and the addresses of all that is kept.

const PREFIX = "offline-";
const CACHE = PREFIX + KEPT.version;

self.addEventListener("install", (event) => event.waitUntil(keep()));
self.addEventListener("activate", (event) => event.waitUntil(takeOver()));

self.addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.method !== "GET") return;
  if (request.mode === "navigate") event.respondWith(open(event));
  // Anything else goes the browser's own way, but for what the page without net looks like.
  else if (KEPT.files.includes(new URL(request.url).pathname)) {
    event.respondWith(fetch(request).catch(() => kept(request)));
  }
});

async function keep() {
  const cache = await caches.open(CACHE);
  // Without cookies: it is the same for everyone, and holds nothing of anyone.
  const asked = KEPT.files.map((url) => new Request(url, { cache: "reload", credentials: "omit" }));
  await cache.addAll(asked);
  await self.skipWaiting();
}

async function takeOver() {
  for (const name of await caches.keys()) {
    if (name.startsWith(PREFIX) && name !== CACHE) await caches.delete(name);
  }
  // The request goes out while the worker wakes up: it costs no time.
  await self.registration.navigationPreload?.enable();
  await self.clients.claim();
}

async function open(event) {
  try {
    return (await event.preloadResponse) ?? (await fetch(event.request));
  } catch {
    return kept(KEPT.page);
  }
}

async function kept(what) {
  return (await caches.match(what, { cacheName: CACHE })) ?? Response.error();
}
