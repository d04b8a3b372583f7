// The chart of all decisions, and the small lines of the rules.
"use strict";

const chartSeconds = 15 * 60;
const sparkSeconds = 60;
const chartLeast = 2 * 60; // what the chart spans at least, while less is known

// Chart shows the decisions of the last 15 minutes.
class Chart {
  constructor(box) {
    this.box = box;
    this.times = [];
    this.allowed = [];
    this.denied = [];
    new ResizeObserver(() => this.plot && this.plot.setSize(this.size())).observe(box);
  }

  size() { return { width: Math.max(this.box.clientWidth, 200), height: this.box.clientHeight }; }

  // begin takes what came before: each list one number for each second until then.
  begin(history) {
    const until = Math.floor(Date.parse(history.until) / 1000);
    const n = (history.allowed || []).length;
    this.times = Array.from({ length: chartSeconds }, (_, i) => until - chartSeconds + 1 + i);
    const padded = (list) => Array(chartSeconds - n).fill(null).concat(list || []);
    this.allowed = padded(history.allowed);
    this.denied = padded(history.denied);
    this.draw();
  }

  // add takes the last second, once.
  add(at, last) {
    const second = Math.floor(at / 1000);
    if (this.times.length > 0 && second <= this.times[this.times.length - 1]) return;
    this.times.push(second);
    this.allowed.push(last.allowed);
    this.denied.push(last.denied);
    while (this.times.length > chartSeconds) {
      this.times.shift();
      this.allowed.shift();
      this.denied.shift();
    }
    if (this.plot) this.plot.setData([this.times, this.allowed, this.denied]);
    else this.draw();
  }

  // span is from the first second that is known, or a little before, to the last.
  span() {
    const last = this.times[this.times.length - 1] || 0;
    const first = this.times[this.allowed.findIndex((n) => n !== null)] || last;
    return [Math.min(first, last - chartLeast), last];
  }

  // draw makes the plot anew, in the colours of the theme.
  draw() {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    const line = (name) => ({ stroke: colour(name), width: 1.75, points: { show: false }, fill: colour(name) + "22", spanGaps: false });
    if (this.plot) this.plot.destroy();
    this.plot = new uPlot({
      ...this.size(), legend: { show: false }, cursor: { show: false }, padding: [8, 4, 0, 0],
      scales: { x: { range: () => this.span() }, y: { range: (_, low, high) => [0, Math.max(high * 1.15 || 0, 1)] } },
      axes: [{ ...axis, size: 30, values: [[60, "{HH}:{mm}", null, null, null, null, null, null, 1], [1, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 1]] }, { ...axis, size: 46 }],
      series: [{}, line("--allowed"), line("--denied")],
    }, [this.times, this.allowed, this.denied], this.box);
  }
}

// Spark is the last minute of one rule, as a line of all calls and one of those
// that were denied.
class Spark {
  constructor() {
    this.all = Array(sparkSeconds).fill(0);
    this.denied = Array(sparkSeconds).fill(0);
    const make = (name, parent) => parent.appendChild(document.createElementNS("http://www.w3.org/2000/svg", name));
    this.svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    this.svg.setAttribute("class", "spark");
    this.svg.setAttribute("viewBox", "0 0 " + (sparkSeconds - 1) + " 26");
    this.svg.setAttribute("preserveAspectRatio", "none");
    this.svg.setAttribute("role", "img");
    this.lines = ["all", "denied"].map((name) => {
      const l = make("polyline", this.svg);
      l.setAttribute("class", name);
      return l;
    });
  }

  begin(history) {
    const padded = (list) => Array(sparkSeconds).fill(0).concat(list || []).slice(-sparkSeconds);
    this.all = padded(history.all);
    this.denied = padded(history.denied);
  }

  add(last) {
    this.all.push(last.allowed + last.denied + last.shadow);
    this.denied.push(last.denied + last.shadow);
    this.all.shift();
    this.denied.shift();
  }

  draw() {
    const most = Math.max(1, ...this.all);
    [this.all, this.denied].forEach((list, i) => {
      this.lines[i].setAttribute("points", list.map((n, x) => x + "," + (24.5 - 23 * n / most).toFixed(1)).join(" "));
    });
    const sum = (list) => list.reduce((a, b) => a + b, 0);
    this.lines[1].toggleAttribute("hidden", sum(this.denied) === 0);
    this.svg.setAttribute("aria-label", sum(this.all) + " calls in the last minute, " + sum(this.denied) + " denied");
  }
}
