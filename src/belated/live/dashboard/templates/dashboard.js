"use strict";
// Parts of the page that change are asked for every few seconds, and swapped if they did. Without this, reload the page.

const SECONDS = 5, tags = new Map();

// What the reader has opened, scrolled and focused in a part, by names that a new part has, too.
const name = element => [element.tagName, element.id, element.getAttribute("aria-label"), element.getAttribute("href")].join();
const focusable = part => [...part.querySelectorAll("a, button, summary, [tabindex]")];

function remember(part) {
  return {
    focus: part.contains(document.activeElement) ? name(document.activeElement) : null,
    open: [...part.querySelectorAll("details")].map(each => each.open),
    scrolled: [...part.querySelectorAll(".scroll")].map(each => each.scrollLeft),
  };
}

function restore(part, was) {
  part.querySelectorAll("details").forEach((each, i) => { if (was.open[i]) each.open = true; });
  part.querySelectorAll(".scroll").forEach((each, i) => { each.scrollLeft = was.scrolled[i] || 0; });
  const focus = was.focus && focusable(part).find(each => name(each) === was.focus);
  if (focus) focus.focus({ preventScroll: true });
}

function swap(part, html) {
  const was = remember(part), top = window.scrollY;
  part.innerHTML = html;
  restore(part, was);
  window.scrollTo({ top, behavior: "instant" });
}

function say(words) {
  const place = document.getElementById("live");
  if (place && place.textContent !== words) place.textContent = words;
}

async function refresh(part) {
  const url = part.dataset.live, headers = tags.has(url) ? { "If-None-Match": tags.get(url) } : {};
  const reply = await fetch(url, { headers, cache: "no-store" });
  if (reply.status === 401 || reply.status === 403) throw new Error("You are logged out; the page is no longer live.");
  if (reply.status !== 200) return reply.status === 304;
  const selected = window.getSelection();
  if (selected && !selected.isCollapsed && part.contains(selected.anchorNode)) return true; // do not take it away
  const html = await reply.text();
  if (tags.has(url) || part.innerHTML.trim() !== html.trim()) swap(part, html);
  tags.set(url, reply.headers.get("ETag"));
  return true;
}

async function live() {
  const parts = [...document.querySelectorAll("[data-live]")];
  let next = SECONDS;
  if (document.visibilityState === "visible") {
    try {
      const done = await Promise.all(parts.map(refresh));
      say(done.every(Boolean) ? "" : "The server cannot answer now; trying again.");
    } catch (error) {
      say(error instanceof TypeError ? "The server cannot be reached; trying again." : error.message);
    }
    if (document.querySelector("[data-soon]")) next = 1;
  }
  setTimeout(live, next * 1000);
}

function wake() {
  if (document.visibilityState === "visible") document.querySelectorAll("[data-live]").forEach(part => refresh(part).catch(() => {}));
}

if (document.querySelector("[data-live]")) {
  setTimeout(live, document.querySelector("[data-soon]") ? 1000 : SECONDS * 1000);
  document.addEventListener("visibilitychange", wake);
}
