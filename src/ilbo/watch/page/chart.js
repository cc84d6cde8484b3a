// Charts of lines and bands as SVG: no more than the page needs, and nothing from elsewhere.
"use strict";

const SVG = "http://www.w3.org/2000/svg";
const MOST_POINTS = 600; // of a line; of more, some are left out

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function drawing(name, attributes = {}, text = null) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  return made;
}

// As in tables: whole from 1,000 on, two decimals below, a true minus sign.
function number(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  let text;
  if (size >= 1e9 || (size > 0 && size < 0.005)) text = value.toExponential(2);
  else {
    const digits = size >= 1000 ? 0 : 2;
    text = value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  }
  return text.replaceAll("-", "−");
}

function tickLabel(value, digits = 0) {
  const size = Math.abs(value);
  if (size >= 1e6 || (size > 0 && size < 1e-3)) {
    return value.toExponential().replace(/(\.\d\d)\d+/, "$1").replace("e+", "e").replaceAll("-", "−");
  }
  const least = Math.min(digits, 6);
  return value.toLocaleString("en-US", { minimumFractionDigits: least, maximumFractionDigits: 6 }).replaceAll("-", "−");
}

// Decimals that all of these need.
function decimals(values) {
  return Math.max(0, ...values.map((value) => (String(value).split(/[.e]/)[1] || "").length));
}

// Round numbers within a range, about as many as asked for.
function roundTicks(low, high, count) {
  const step = 10 ** Math.floor(Math.log10((high - low) / count));
  const error = (high - low) / count / step;
  const wide = step * (error >= 7 ? 10 : error >= 3.5 ? 5 : error >= 1.5 ? 2 : 1);
  const ticks = [];
  for (let i = Math.ceil(low / wide - 1e-9); i * wide <= high + 1e-9 * wide; i++) {
    ticks.push(Number((i * wide).toPrecision(12)));
  }
  return ticks;
}

function logTicks(low, high) {
  const every = high / low > 1e6 ? [1] : high / low > 100 ? [1, 3] : [1, 2, 5];
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
    for (const factor of every) {
      const tick = Number((factor * 10 ** power).toPrecision(3));
      if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push(tick);
    }
  }
  return ticks.length >= 2 ? ticks : [low, high].map((x) => Number(x.toPrecision(2)));
}

function thinned(points) {
  const every = Math.ceil(points.length / MOST_POINTS);
  return every <= 1 ? points : points.filter((_, i) => i % every === 0 || i === points.length - 1);
}

// lines: [{label, color, points: [[x, y]], band: [[x, low, high]], thin: [[[x, y]]], dash}]
// options: {title, x, y, log, height, legend}
function chart(place, lines, options) {
  place.classList.add("chart");
  const wide = Math.max(place.clientWidth, 200), high = options.height || 230;
  const key = JSON.stringify([wide, lines, options]);
  if (place.drawn === key) return;
  place.drawn = key;
  place.replaceChildren();
  if (options.title) place.append(element("h3", {}, options.title));
  const usable = (y) => y !== null && Number.isFinite(y) && (!options.log || y > 0);
  const cut = lines.map((line) => ({
    ...line,
    points: thinned(line.points.filter(([, y]) => usable(y))),
    band: thinned((line.band || []).filter(([, a, b]) => usable(a) && usable(b))),
    thin: (line.thin || []).map((one) => thinned(one.filter(([, y]) => usable(y)))),
  }));
  const xs = cut.flatMap((line) => line.points.map(([x]) => x));
  if (!xs.length) {
    place.append(element("p", { class: "muted" }, options.empty || "Nothing to draw yet."));
    return;
  }
  const ys = cut.flatMap((line) => [
    ...line.points.map(([, y]) => y), ...line.band.flatMap(([, a, b]) => [a, b]),
    ...line.thin.flat().map(([, y]) => y),
  ]);
  let [left, right] = [Math.min(...xs), Math.max(...xs)];
  let [bottom, top] = [ys.reduce((a, b) => Math.min(a, b)), ys.reduce((a, b) => Math.max(a, b))];
  if (left === right) [left, right] = [left - 0.5, right + 0.5];
  const scale = options.log ? Math.log10 : (y) => y;
  if (bottom === top) {
    const room = options.log ? [bottom / 2, top * 2] : [bottom - (Math.abs(bottom) * 0.05 || 1), top + (Math.abs(top) * 0.05 || 1)];
    [bottom, top] = room;
  } else if (!options.log) {
    const room = 0.06 * (top - bottom);
    [bottom, top] = [bottom - room, top + room];
  } else {
    [bottom, top] = [bottom / 1.15, top * 1.15];
  }
  const yTicks = options.log ? logTicks(bottom, top) : roundTicks(bottom, top, Math.max(3, high / 55));
  const digits = options.log ? 0 : decimals(yTicks);
  const margin = { left: 12 + 6.4 * Math.max(...yTicks.map((y) => tickLabel(y, digits).length)), right: 12, top: 8, bottom: 38 };
  const toX = (x) => margin.left + ((x - left) / (right - left)) * (wide - margin.left - margin.right);
  const toY = (y) => high - margin.bottom
    - ((scale(y) - scale(bottom)) / (scale(top) - scale(bottom))) * (high - margin.top - margin.bottom);
  const svg = drawing("svg", { viewBox: `0 0 ${wide} ${high}`, height: high, role: "img",
    "aria-label": `${options.title || options.y}: ${lines.map((line) => line.label).join(", ")}` });
  for (const y of yTicks) {
    svg.append(drawing("line", { class: "grid", x1: margin.left, x2: wide - margin.right, y1: toY(y), y2: toY(y) }));
    svg.append(drawing("text", { x: margin.left - 6, y: toY(y) + 4, "text-anchor": "end" }, tickLabel(y, digits)));
  }
  for (const x of roundTicks(left, right, Math.max(2, wide / 110))) {
    const anchor = wide - toX(x) < 4 * tickLabel(x).length ? "end" : "middle";
    const where = anchor === "end" ? wide - 1 : toX(x);
    svg.append(drawing("text", { x: where, y: high - margin.bottom + 16, "text-anchor": anchor }, tickLabel(x)));
  }
  const floor = high - margin.bottom;
  svg.append(drawing("line", { class: "axis", x1: margin.left, x2: wide - margin.right, y1: floor, y2: floor }));
  svg.append(drawing("text", { x: (margin.left + wide - margin.right) / 2, y: high - 6, "text-anchor": "middle" }, options.x));
  const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${toX(x).toFixed(1)} ${toY(y).toFixed(1)}`).join("");
  for (const line of cut) {
    if (line.band.length > 1) {
      const back = line.band.map(([x, low]) => [x, low]).reverse();
      const edge = path([...line.band.map(([x, , up]) => [x, up]), ...back]);
      svg.append(drawing("path", { class: "band", d: `${edge}Z`, fill: line.color }));
    }
    for (const one of line.thin) svg.append(drawing("path", { class: "line thin", d: path(one), stroke: line.color }));
  }
  for (const line of cut) {
    const drawn = drawing("path", { class: "line", d: path(line.points), stroke: line.color });
    if (line.dash) drawn.setAttribute("stroke-dasharray", line.dash);
    drawn.dataset.points = line.points.length;
    svg.append(drawn);
    if (line.points.length <= 40 && !line.dash) {
      for (const [x, y] of line.points) svg.append(drawing("circle", { cx: toX(x), cy: toY(y), r: 2, fill: line.color }));
    }
  }
  place.append(svg);
  if (options.legend) {
    place.append(element("div", { class: "legend" }, ...cut.map((line) => element("span", {}, swatch(line.color), line.label))));
  }
  follow(place, svg, cut, { toX, toY, wide, high, floor, options });
}

function swatch(color) {
  return element("span", { class: "swatch", style: `background: ${color}` });
}

// The values at the nearest x where the pointer is.
function follow(place, svg, lines, { toX, wide, floor, options }) {
  const at = drawing("line", { class: "at", y1: 8, y2: floor, visibility: "hidden" });
  const tip = element("div", { class: "tip", hidden: "" });
  svg.append(at);
  place.append(tip);
  const xs = [...new Set(lines.flatMap((line) => line.points.map(([x]) => x)))];
  svg.addEventListener("pointermove", (event) => {
    const where = ((event.clientX - svg.getBoundingClientRect().left) / svg.clientWidth) * wide;
    const x = xs.reduce((best, one) => (Math.abs(toX(one) - where) < Math.abs(toX(best) - where) ? one : best));
    const rows = lines.flatMap((line) => {
      if (!line.points.length) return [];
      const near = line.points.reduce((best, one) => (Math.abs(one[0] - x) < Math.abs(best[0] - x) ? one : best));
      if (Math.abs(toX(near[0]) - toX(x)) > 24) return [];
      return [element("div", {}, swatch(line.color), `${line.label}: ${number(near[1])}`)];
    });
    tip.replaceChildren(element("div", { class: "muted" }, `${options.x}: ${tickLabel(Number(x.toPrecision(6)))}`), ...rows);
    tip.hidden = false;
    const room = svg.clientWidth - tip.offsetWidth - 4;
    tip.style.left = `${Math.max(0, Math.min(room, (toX(x) / wide) * svg.clientWidth + 12))}px`;
    tip.style.top = `${svg.offsetTop + 8}px`;
    for (const end of ["x1", "x2"]) at.setAttribute(end, toX(x));
    at.setAttribute("visibility", "visible");
  });
  svg.addEventListener("pointerleave", () => {
    tip.hidden = true;
    at.setAttribute("visibility", "hidden");
  });
}
