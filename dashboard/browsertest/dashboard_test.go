package browsertest

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/caudal-dev/caudal/internal/redistest"
	"github.com/caudal-dev/caudal/internal/serve"
)

func TestLoadMakesNumbersMove(t *testing.T) {
	c := start(t, serve.Config{})
	p := open(t, c, 1280, 900)
	p.wait("the state", `document.getElementById("state").dataset.state === "ok"`)
	p.wait("all rules", `document.querySelectorAll("#rules tbody tr").length === 4`)
	if before := eval[string](p, `document.getElementById("per-second").textContent`); before != "0" {
		t.Errorf("decisions before any call = %s, want 0", before)
	}
	c.load()
	p.wait("decisions per second", `parseFloat(document.getElementById("per-second").textContent) > 1`)
	p.wait("a share of denials", `parseFloat(document.getElementById("share").textContent) > 0`)
	p.wait("a denied key in the table", `document.querySelector("#offenders tbody").textContent.includes("api_key=#")`)
	p.wait("denials of its rule", `[...document.querySelectorAll("#rules tbody tr")].some(r => r.textContent.includes("per-key") && r.querySelector(".denying"))`)
	p.wait("a line of the last minute", `(document.querySelector("svg.spark .all").getAttribute("points").match(/,24\.5/g) || []).length < 60`)
	p.wait("the chart", `document.querySelector("#chart canvas") && chart.allowed.some(n => n > 0)`)
	if strings.Contains(eval[string](p, `document.body.innerText`), "greedy") {
		t.Error("the page shows an API key in clear")
	}
}

func TestLookUpShowsEveryCounter(t *testing.T) {
	c := start(t, serve.Config{})
	for range 5 {
		if err := c.call("/items", "greedy", "203.0.113.9"); err != nil {
			t.Fatal(err)
		}
	}
	p := open(t, c, 1280, 900)
	p.wait("the state", `document.getElementById("state").dataset.state === "ok"`)
	p.do(chromedp.SendKeys("#key", "api_key=greedy"+kb.Enter))
	p.wait("the key's counter", `document.getElementById("found").innerText.includes("3 of 3 used")`)
	p.wait("why it is denied", `document.getElementById("found").innerText.includes("Denied: used up")`)
	p.do(chromedp.SetValue("#key", "203.0.113.9"), chromedp.Click("#look button"))
	p.wait("the address's counters", `document.querySelectorAll("#found .counter").length >= 3`)
	p.expects("400 (Bad Request)")
	p.do(chromedp.SetValue("#key", "nonsense"), chromedp.Click("#look button"))
	p.wait("an error in words", `document.getElementById("found").innerText.includes("no address")`)
}

func TestDegradedShowsSoonAfterRedisStops(t *testing.T) {
	redis := redistest.Start(t)
	c := start(t, serve.Config{Store: redis.URL()})
	p := open(t, c, 1280, 900)
	c.load()
	p.wait("the state", `document.getElementById("state").dataset.state === "ok"`)
	p.wait("the time of Redis", `document.getElementById("store").textContent.includes("s") && document.getElementById("store-more").textContent.includes("redis")`)
	redis.Kill()
	p.wait("that Redis is gone", `document.getElementById("state").dataset.state === "degraded"`)
	p.wait("why", `document.getElementById("notices").innerText.includes("store is slow or gone")`)
	redis.Restart()
	p.wait("that it is back", `document.getElementById("state").dataset.state === "ok"`)
	p.wait("no notice", `document.getElementById("notices").innerText === ""`)
}

func TestTokenIsAskedFor(t *testing.T) {
	const token = "0123456789abcdef0123"
	c := start(t, serve.Config{AdminToken: []byte(token)})
	p := open(t, c, 1280, 900)
	p.expects("401 (Unauthorized)")
	p.wait("the form", `!document.getElementById("token-form").hidden`)
	p.do(chromedp.SendKeys("#token", "wrong-wrong-wrong"+kb.Enter))
	p.wait("the form again", `!document.getElementById("token-form").hidden`)
	eval[string](p, `document.getElementById("token").value = ""`)
	p.do(chromedp.SendKeys("#token", token+kb.Enter))
	p.wait("the state", `document.getElementById("state").dataset.state === "ok"`)
}

func TestEnforcementOffIsSaid(t *testing.T) {
	c := start(t, serve.Config{DryRun: true})
	p := open(t, c, 1280, 900)
	p.wait("a notice", `document.getElementById("notices").innerText.includes("Dry run")`)
}

// contrast gives the texts of the page whose colours do not differ enough from what
// is behind them: WCAG AA asks for 4.5 to 1, and 3 to 1 for large text.
const contrast = `(() => {
	const parse = (c) => { const m = c.match(/[\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
	const luminance = ([r, g, b]) => { const f = [r, g, b].map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * f[0] + 0.7152 * f[1] + 0.0722 * f[2]; };
	const ground = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c[3] > 0.99) return c; } return [255, 255, 255, 1]; };
	const bad = [], seen = [];
	const look = (e, colour, what) => {
		const style = getComputedStyle(e), size = parseFloat(style.fontSize), bold = style.fontWeight >= 700;
		const [a, b] = [luminance(parse(colour)), luminance(ground(e))].sort((x, y) => y - x);
		const ratio = (a + 0.05) / (b + 0.05), need = size >= 24 || bold && size >= 18.66 ? 3 : 4.5;
		seen.push(what);
		if (ratio < need) bad.push(what + ": " + ratio.toFixed(2));
	};
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (walker.nextNode()) {
		const e = walker.currentNode.parentElement;
		if (!walker.currentNode.data.trim() || !e.checkVisibility() || e.closest("noscript, script")) continue;
		look(e, getComputedStyle(e).color, walker.currentNode.data.trim().slice(0, 40));
	}
	for (const e of document.querySelectorAll("input")) if (e.checkVisibility()) look(e, getComputedStyle(e, "::placeholder").color, "placeholder of " + e.id);
	return { bad, seen: seen.length };
})()`

func TestColoursContrast(t *testing.T) {
	c := start(t, serve.Config{DryRun: true}) // with a notice
	c.load()
	p := open(t, c, 1280, 900)
	p.wait("denials in the table", `document.querySelector(".shadowing")`)
	for _, theme := range []string{"light", "dark"} {
		p.prefers(theme)
		p.do(chromedp.SetValue("#key", "203.0.113.9"), chromedp.Click("#look button"))
		p.wait("a counter", `document.querySelector("#found .counter")`)
		for _, state := range []string{"ok", "degraded", "draining"} {
			got := eval[struct {
				Bad  []string `json:"bad"`
				Seen int      `json:"seen"`
			}](p, `document.getElementById("state").style.transition = "none", document.getElementById("state").dataset.state = "`+state+`", `+contrast)
			if got.Seen < 30 || len(got.Bad) > 0 {
				t.Errorf("%s, %s: of %d texts these have too little contrast: %q", theme, state, got.Seen, got.Bad)
			}
		}
	}
}

// names gives what a screen reader could not name, and what it would miss.
const names = `(() => {
	const bad = [];
	for (const e of document.querySelectorAll("input")) if (!e.labels.length) bad.push("input without a label: " + e.id);
	for (const e of document.querySelectorAll("button, a")) if (!e.textContent.trim()) bad.push("no name: " + e.outerHTML);
	for (const e of document.querySelectorAll("img")) if (!e.hasAttribute("alt")) bad.push("img without alt");
	for (const e of document.querySelectorAll("svg, [role=img]")) if (!e.getAttribute("aria-label")) bad.push("picture without words: " + e.id);
	for (const e of document.querySelectorAll("section, form.card")) if (!e.getAttribute("aria-label") && !document.getElementById(e.getAttribute("aria-labelledby"))) bad.push("section without a name");
	for (const e of document.querySelectorAll("table")) if (!document.getElementById(e.getAttribute("aria-labelledby"))) bad.push("table without a name: " + e.id);
	for (const e of document.querySelectorAll("meter")) if (!e.getAttribute("aria-label")) bad.push("meter without a name");
	if (document.querySelectorAll("h1").length !== 1) bad.push("not one h1");
	if (document.querySelectorAll("main, header, footer").length !== 3) bad.push("landmarks are missing");
	if (!document.documentElement.lang || !document.title) bad.push("no language or title");
	const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
	if (new Set(ids).size !== ids.length) bad.push("an id stands twice");
	for (const id of ["state", "found"]) if (document.getElementById(id).getAttribute("role") !== "status") bad.push(id + " is not said when it changes");
	return bad;
})()`

func TestNamesRolesAndKeyboard(t *testing.T) {
	c := start(t, serve.Config{})
	p := open(t, c, 1280, 900)
	p.wait("the rules", `document.querySelectorAll("#rules tbody tr").length === 4`)
	for _, b := range eval[[]string](p, names) {
		t.Error(b)
	}
	// Everything that can be used is reached by the keyboard, in order, and shows it.
	for _, want := range []string{"skip", "theme", "key", "Look up", "/healthz"} {
		p.do(chromedp.KeyEvent(kb.Tab))
		at := eval[struct {
			Text    string `json:"text"`
			Outline string `json:"outline"`
		}](p, `(() => { const e = document.activeElement; return { text: [e.id, e.className, e.textContent].join(" "), outline: getComputedStyle(e).outlineStyle }; })()`)
		if !strings.Contains(at.Text, want) || at.Outline == "none" {
			t.Errorf("Tab leads to %q with outline %q, want %s, visibly", at.Text, at.Outline, want)
		}
	}
	p.do(chromedp.Focus("#theme"), chromedp.KeyEvent(kb.Enter))
	p.wait("the dark theme by keyboard", `document.documentElement.dataset.theme === "dark" && document.getElementById("theme").getAttribute("aria-pressed") === "true"`)
	p.do(chromedp.Reload())
	p.wait("the dark theme after a reload", `document.documentElement.dataset.theme === "dark" && document.getElementById("state").dataset.state === "ok"`)
}

func TestPhoneNeedsNoSidewaysScrolling(t *testing.T) {
	c := start(t, serve.Config{})
	c.load()
	p := open(t, c, 390, 844)
	p.wait("a denied key", `document.querySelector("#offenders tbody tr")`)
	wide := eval[[]string](p, `[...document.querySelectorAll("body *")].filter((e) => e.checkVisibility() && !e.closest(".skip, thead") && e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.tagName + " " + e.id + " " + e.className)`)
	if len(wide) > 0 {
		t.Errorf("these stick out of a screen of 390 pixels: %q", wide)
	}
	small := eval[[]string](p, `[...document.querySelectorAll("button, input")].filter((e) => e.checkVisibility() && e.getBoundingClientRect().height < 36).map((e) => e.id)`)
	if len(small) > 0 {
		t.Errorf("these are too small for a finger: %q", small)
	}
}
