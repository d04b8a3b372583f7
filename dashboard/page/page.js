// Shows what the limiter does: it reads snapshots from /v1/stream, and looks up
// counters. It changes nothing. Text goes into the page as text only, never as HTML.
"use strict";

const byID = (id) => document.getElementById(id);
const tokenName = "caudal-admin-token";
let token = "";
try { token = sessionStorage.getItem(tokenName) || ""; } catch { /* without storage it is asked for again */ }

// Words and numbers.

function number(n) {
  if (n >= 100 || Number.isInteger(n)) return Math.round(n).toLocaleString("en");
  return n.toFixed(n >= 10 ? 1 : 2).replace(/\.?0+$/, "");
}

function micros(us) {
  if (!us) return "–";
  return us >= 1000 ? number(us / 1000) + " ms" : number(us) + " µs";
}

function ago(time, now) {
  const s = Math.max(0, Math.round((now - Date.parse(time)) / 1000));
  if (s < 60) return s + " s";
  if (s < 3600) return Math.floor(s / 60) + " min";
  if (s < 86400) return Math.floor(s / 3600) + " h";
  return Math.floor(s / 86400) + " d";
}

function span(seconds) {
  if (seconds < 60) return Math.ceil(seconds) + " s";
  if (seconds < 3600) return Math.ceil(seconds / 60) + " min";
  return number(Math.ceil(seconds / 360) / 10) + " h";
}

// set writes text where it has changed, so that screen readers hear only that.
function set(id, text) {
  const at = byID(id);
  if (at.textContent !== text) at.textContent = text;
}

function element(name, text, className) {
  const e = document.createElement(name);
  if (text !== undefined) e.textContent = text;
  if (className) e.className = className;
  return e;
}

// The state.

const chart = new Chart(byID("chart"));

function showState(s, now) {
  const words = { ok: "Healthy", degraded: "Degraded", draining: "Draining" };
  byID("state").dataset.state = s.state.name;
  set("state-text", (words[s.state.name] || s.state.name) + " for " + ago(s.state.since, now));
  const notices = [];
  if (s.state.why) notices.push(["bad", "Degraded: " + s.state.why + "."]);
  if (!s.enforcement.on) {
    const until = s.enforcement.until ? "until " + new Date(s.enforcement.until).toLocaleTimeString() : "until an operator turns it on";
    notices.push(["", "Enforcement is off " + until + ": calls are counted, and nobody is denied."]);
  }
  if (s.enforcement.dry_run) notices.push(["", "Dry run: this instance counts and denies nobody."]);
  if (s.config.refused) notices.push(["bad", "The last reload was refused, and the rules before stay in force: " + s.config.refused]);
  const box = byID("notices");
  const text = JSON.stringify(notices);
  if (box.dataset.shows !== text) {
    box.dataset.shows = text;
    box.replaceChildren(...notices.map(([kind, words]) => element("p", words, "notice " + kind)));
  }
}

function showFigures(s, now) {
  const t = s.traffic;
  const total = t.allowed + t.denied;
  set("per-second", number(total));
  set("per-second-more", "over all limits" + (t.shadow > 0 ? ", " + number(t.shadow) + "/s in shadow" : ", mean of 10 s"));
  set("share", total > 0 ? number(100 * t.denied / total) + " %" : "0 %");
  set("share-more", number(t.denied) + " per second" + (s.enforcement.blocks ? ", " + s.enforcement.blocks + " blocked by hand" : ""));
  set("p99", micros(s.latency.p99));
  set("p50", s.latency.count ? "p50 " + micros(s.latency.p50) + ", last minute" : "no calls yet");
  if (s.store.shared) {
    set("store", micros(s.store.latency.p99) + (s.store.latency.count ? "" : " idle"));
    set("store-more", s.store.kind + " p99, " + number(s.store.errors) + " errors in a minute" + (s.store.instances > 1 ? ", " + s.store.instances + " instances" : ""));
  } else {
    set("store", number(s.store.keys) + " keys");
    set("store-more", "in " + s.store.kind);
  }
  set("config", s.config.hash.slice(0, 8));
  set("config-more", s.config.limits + " limits, loaded " + ago(s.config.loaded_at, now) + " ago" + (s.config.warnings ? ", " + s.config.warnings + " warnings" : ""));
  set("version", "caudal " + (s.version || ""));
}

// The rules.

const rows = new Map(); // by id
let past = {};          // history of rules that have no row yet

function newRow(rule) {
  const row = { tr: element("tr"), spark: new Spark() };
  row.tr.setAttribute("role", "row");
  if (past[rule.id]) row.spark.begin(past[rule.id]);
  const cell = (className, label) => {
    const td = row.tr.appendChild(element("td", undefined, className));
    td.setAttribute("role", "cell");
    if (label) td.dataset.label = label;
    return td;
  };
  row.name = cell("wide");
  row.limit = cell("wide");
  row.allowed = cell("number", "Allowed/s");
  row.denied = cell("number", "Denied/s");
  row.shadow = cell("number", "Shadow/s");
  row.line = cell("wide");
  row.line.append(row.spark.svg);
  row.near = cell("number", "Near limit");
  row.wrong = cell("number", "Maybe wrong");
  return row;
}

function describe(row, rule, several) {
  const text = JSON.stringify([rule.name, rule.domain, rule.words, rule.worst, rule.mode, several]);
  if (row.text === text) return;
  row.text = text;
  row.name.replaceChildren(element("span", rule.name, "name"));
  if (rule.mode !== "enforce") row.name.append(element("span", rule.mode, "tag"));
  if (several) row.name.append(element("div", rule.domain, "quiet"));
  row.limit.replaceChildren(element("div", rule.words), element("div", rule.worst, "quiet"));
}

function amount(td, n, className) {
  td.textContent = number(n);
  td.className = "number " + (n > 0 ? className : "zero");
}

function showRules(rules) {
  const body = byID("rules").tBodies[0];
  const several = new Set(rules.map((r) => r.domain)).size > 1;
  const seen = new Set();
  rules.forEach((rule, i) => {
    seen.add(rule.id);
    let row = rows.get(rule.id);
    if (!row) rows.set(rule.id, row = newRow(rule));
    describe(row, rule, several);
    amount(row.allowed, rule.rates.allowed, "");
    amount(row.denied, rule.rates.denied, "denying");
    amount(row.shadow, rule.rates.shadow, "shadowing");
    amount(row.near, rule.near_limit, "");
    const wrong = Object.entries(rule.false_positives || {});
    amount(row.wrong, wrong.reduce((sum, [, n]) => sum + n, 0), "");
    row.wrong.title = wrong.map(([kind, n]) => kind + " " + n).join(", ");
    row.spark.add(rule.last);
    row.spark.draw();
    if (body.rows[i] !== row.tr) body.insertBefore(row.tr, body.rows[i] || null);
  });
  for (const [id, row] of rows) {
    if (seen.has(id)) continue;
    row.tr.remove();
    rows.delete(id);
  }
  set("rules-more", rules.length === 1 ? "1 rule" : rules.length + " rules");
}

// Limits of calls under way.

function showAtOnce(list) {
  byID("at-once-card").hidden = list.length === 0;
  const body = byID("at-once").tBodies[0];
  const text = JSON.stringify(list);
  if (body.dataset.shows === text) return;
  body.dataset.shows = text;
  const several = new Set(list.map((c) => c.domain)).size > 1;
  body.replaceChildren(...list.map((c) => {
    const tr = element("tr");
    tr.setAttribute("role", "row");
    const rule = element("td");
    rule.append(element("span", c.name, "name"));
    if (c.mode !== "enforce") rule.append(element("span", c.mode, "tag"));
    if (several) rule.append(element("div", c.domain, "quiet"));
    tr.append(rule, element("td", c.words), element("td"), element("td"));
    amount(tr.cells[2], c.under_way, "");
    amount(tr.cells[3], c.denied, "denying");
    for (const td of tr.cells) td.setAttribute("role", "cell");
    return tr;
  }));
}

// The keys that were denied most.

function showOffenders(list) {
  byID("offenders-none").hidden = list.length > 0;
  byID("offenders").hidden = list.length === 0;
  const body = byID("offenders").tBodies[0];
  const text = JSON.stringify(list);
  if (body.dataset.shows === text) return;
  body.dataset.shows = text;
  body.replaceChildren(...list.map((o) => {
    const tr = element("tr");
    tr.setAttribute("role", "row");
    tr.append(element("td", o.label, "name"), element("td", o.rule), element("td", number(o.count), "number"));
    for (const td of tr.cells) td.setAttribute("role", "cell");
    if (o.hash) tr.cells[0].title = "sha256:" + o.hash;
    return tr;
  }));
}

function show(s) {
  const now = Date.parse(s.at);
  showState(s, now);
  showFigures(s, now);
  chart.add(now, s.last);
  showRules(s.rules || []);
  showAtOnce(s.concurrencies || []);
  showOffenders(s.offenders || []);
}

function begin(history) {
  past = history.rules || {};
  for (const [id, row] of rows) if (past[id]) row.spark.begin(past[id]);
  chart.begin(history);
}

// Asking. Server-sent events are read by fetch: an EventSource cannot send a token.

function headers(more) {
  return token ? { ...more, Authorization: "Bearer " + token } : more || {};
}

async function refusal(response) {
  try { return (await response.json()).detail; } catch { return response.statusText; }
}

function take(event) {
  let name = "", data = "";
  for (const line of event.split("\n")) {
    if (line.startsWith("event: ")) name = line.slice(7);
    if (line.startsWith("data: ")) data += line.slice(6);
  }
  if (name === "history") begin(JSON.parse(data));
  if (name === "status") show(JSON.parse(data));
}

async function read(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let text = ""; ;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) take(text.slice(0, end));
  }
}

const pause = (ms) => new Promise((then) => setTimeout(then, ms));

// watch reads the stream, and again when it ends, until the token is wrong.
async function watch() {
  for (let wait = 500; ; wait = Math.min(wait * 2, 8000)) {
    try {
      const response = await fetch("/v1/stream", { headers: headers(), cache: "no-store" });
      if (response.status === 401) return askToken();
      if (response.ok) {
        wait = 500;
        await read(response);
      } else {
        lost(await refusal(response));
      }
    } catch { /* said below */ }
    if (byID("state").dataset.state !== "lost") lost("no answer from caudal");
    await pause(wait);
  }
}

function lost(why) {
  byID("state").dataset.state = "lost";
  set("state-text", "Not connected: " + why);
}

function askToken() {
  byID("token-form").hidden = false;
  lost("the token is needed");
  byID("token").focus();
}

byID("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  token = byID("token").value.trim();
  try { sessionStorage.setItem(tokenName, token); } catch { /* then it is for this page only */ }
  byID("token-form").hidden = true;
  watch();
});

// Looking up.

function counter(c) {
  const box = element("div", undefined, "counter");
  const ends = element("div", undefined, "ends");
  const name = element("div");
  name.append(element("span", c.rule, "name"));
  if (c.mode !== "enforce") name.append(element("span", c.mode, "tag"));
  ends.append(name, element("div", number(c.used) + " of " + number(c.limit) + " used"));
  const meter = element("meter");
  meter.max = Math.max(c.limit, 1);
  meter.value = c.used;
  [meter.low, meter.high, meter.optimum] = [0.6 * meter.max, 0.95 * meter.max, 0];
  meter.setAttribute("aria-label", c.rule + ": " + c.used + " of " + c.limit + " used");
  box.append(ends, meter, element("div", c.words, "quiet"));
  if (c.denies) box.append(element("div", "Denied: " + c.denies, "why"));
  else if (c.reset_after > 0) box.append(element("div", number(c.remaining) + " left, whole again in " + span(c.reset_after), "quiet"));
  if (c.degraded) box.append(element("div", "This is the count of this instance alone.", "quiet"));
  return box;
}

byID("look").addEventListener("submit", async (event) => {
  event.preventDefault();
  const found = byID("found");
  try {
    const response = await fetch("/v1/counters", { method: "POST", headers: headers({ "Content-Type": "application/json" }), body: JSON.stringify({ key: byID("key").value.trim() }) });
    if (!response.ok) {
      found.replaceChildren(element("p", await refusal(response), "why"));
      return;
    }
    const answer = await response.json();
    const parts = answer.counters.map(counter);
    if (answer.blocked) parts.unshift(element("p", "Blocked by hand by its " + answer.blocked.attribute + ", for " + span(answer.blocked.seconds) + " yet.", "why"));
    if (parts.length === 0) parts.push(element("p", "No rule counts this key by itself.", "quiet"));
    found.replaceChildren(...parts);
  } catch {
    found.replaceChildren(element("p", "no answer from caudal", "why"));
  }
});

// Light and dark.

const system = matchMedia("(prefers-color-scheme: dark)");

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : system.matches;
}

function showTheme() {
  byID("theme").setAttribute("aria-pressed", String(isDark()));
  if (chart.plot) chart.draw();
}

byID("theme").addEventListener("click", () => {
  const next = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  try { localStorage.setItem("caudal-theme", next); } catch { /* then it is for this page only */ }
  showTheme();
});
system.addEventListener("change", showTheme);
showTheme();
watch();
