// The page of `ilbo watch`: asks the server for what is new in the run folders, and shows it.
"use strict";

const EVERY = 1500, HIDDEN = 10000; // milliseconds between two looks
const SILENT = 120; // seconds without a sign of life after which a run is no longer called running
const LATE = 0.4; // where the second curve begins, as a share of training
const COLORS = 8;
const get = (id) => document.getElementById(id);
const runs = new Map(); // by key: what the server told, and the tests so far
let order = [], ticked = null, problem = null, shown = null, picture = { stamp: null, busy: false };

async function ask(address) {
  const response = await fetch(address, { cache: "no-store" });
  if (!response.ok) throw new Error(await response.text());
  return response.json();
}

async function look() {
  try {
    const told = await ask("runs");
    const gone = new Set(runs.keys());
    for (const info of told.runs) {
      const held = runs.get(info.key) || { records: [], mark: "", next: 0, place: runs.size };
      runs.set(info.key, Object.assign(held, { info, now: told.now }));
      gone.delete(info.key);
    }
    for (const key of gone) runs.delete(key);
    order = told.runs.map((info) => info.key);
    choose();
    await Promise.all(order.map((key) => news(runs.get(key))));
    say(`${order.length} run${order.length === 1 ? "" : "s"}, looked at ${new Date().toLocaleTimeString()}`);
  } catch (error) {
    say("No answer from `ilbo watch`: this is what it last said.", true);
  }
  render();
  setTimeout(look, document.hidden ? HIDDEN : EVERY);
}

async function news(run) {
  const { tests, error } = run.info;
  if (error || run.seen === tests) return;
  for (let more = true; more;) {
    const told = await ask(`metrics/${run.info.key}?from=${run.next}&mark=${run.mark}`);
    if (told.error) {
      run.info.error = told.error;
      return;
    }
    if (told.anew) run.records = [];
    run.records.push(...told.records);
    Object.assign(run, { mark: told.mark, next: told.next, samples: told.samples || run.samples });
    more = told.more;
  }
  run.seen = tests;
}

// The first look ticks the newest problem's runs; the address keeps what is ticked.
function choose() {
  if (ticked === null) {
    const kept = location.hash.slice(1).split(",").filter((key) => runs.has(key));
    const first = order.map((key) => runs.get(key).info).find((info) => !info.error);
    const same = order.filter((key) => first && runs.get(key).info.problem === first.problem);
    if (order.length) ticked = new Set(kept.length ? kept : same.slice(0, 6));
  }
  const problems = [...new Set(chosen().map((run) => run.info.problem))];
  if (!problems.includes(problem)) problem = problems[0] ?? null;
}

const chosen = () => order.map((key) => runs.get(key)).filter((run) => ticked?.has(run.info.key) && !run.info.error);
const visible = () => chosen().filter((run) => run.info.problem === problem);
const color = (run) => `var(--c${run.place % COLORS})`;
const dash = (run) => (run.place >= COLORS ? "6 3" : null);

function say(text, lost = false) {
  get("status").textContent = text;
  get("status").classList.toggle("lost", lost);
}

function duration(seconds) {
  const whole = Math.round(seconds), minutes = Math.floor(whole / 60);
  if (minutes === 0) return `${whole} s`;
  return minutes < 60 ? `${minutes} min ${whole % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

function bySeed(run) {
  return run.info.seeds.map((seed) => run.records.filter((record) => record.seed === seed));
}

// Mean, lowest and highest over the seeds, as far as all of them were tested.
function overSeeds(run, field, axis) {
  const seeds = bySeed(run), tests = Math.min(...seeds.map((one) => one.length));
  const points = [], band = [];
  for (let i = 0; i < tests; i++) {
    const values = seeds.map((one) => one[i][field]);
    if (values.some((value) => value === null)) continue;
    const x = seeds[0][i][axis];
    points.push([x, values.reduce((a, b) => a + b) / values.length]);
    if (values.length > 1) band.push([x, Math.min(...values), Math.max(...values)]);
  }
  return { points, band };
}

function lineOf(run, field, axis) {
  return { label: run.info.name, color: color(run), dash: dash(run), ...overSeeds(run, field, axis) };
}

// Seconds that each segment took, compiling as `ilbo plan` counts it, and what is left.
function times(run) {
  const first = bySeed(run)[0], took = first.map((r, i) => [r.episode, r.seconds - (i ? first[i - 1].seconds : 0),
    r.episode - (i ? first[i - 1].episode : 0)]);
  const rest = took.slice(1).filter(([, seconds]) => seconds > 0);
  const usual = median(rest.map(([, seconds, episodes]) => seconds / episodes));
  const last = first.at(-1), result = run.info.result;
  const compiling = result ? result.compile_seconds : took.length && rest.length
    ? Math.max(0, took[0][1] - usual * took[0][2]) : null;
  const total = result ? result.seconds : last?.seconds;
  let left = null;
  if (!result && last && run.info.seconds) left = Math.max(0, run.info.seconds - last.seconds);
  else if (!result && last && run.info.episodes && usual) left = (run.info.episodes - last.episode) * usual;
  return { took: rest, usual, compiling, total, left };
}

function median(values) {
  if (!values.length) return null;
  const sorted = [...values].sort((a, b) => a - b), middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

function state(run) {
  const ago = Math.max(0, run.now - run.info.changed), { usual } = times(run);
  const patience = Math.max(SILENT, 5 * (usual || 0) * (run.info.settings.evaluate_every || 1));
  if (run.info.result) return ["finished", "finished"];
  if (ago > patience) return ["silent", `not finished, silent for ${duration(ago)}`];
  return ["running", run.records.length ? "running" : "running, no test yet"];
}

function done(run) {
  const last = run.records.at(-1);
  if (run.info.result) return 1;
  if (!last) return 0;
  return Math.min(1, run.info.seconds ? last.seconds / run.info.seconds : last.episode / run.info.episodes);
}

function render() {
  renderPicker();
  const any = chosen().length > 0;
  get("shown").hidden = !any;
  get("nothing").hidden = any;
  if (!any) {
    get("nothing").textContent = order.length ? "Tick a run to see it."
      : "There are no runs in the folders yet: `ilbo plan navigation-3` makes one.";
    return;
  }
  renderTabs();
  const those = visible(), axis = get("axis").value;
  const x = axis === "episode" ? "training episodes" : "seconds";
  renderNow(those);
  renderCurves(those, axis, x);
  renderInside(those, axis, x);
  renderTime(those);
  renderSamples(those);
  renderSettings(those);
  renderWhose(those);
  renderPicture();
}

function renderPicker() {
  const groups = new Map();
  for (const key of order) {
    const info = runs.get(key).info, name = info.problem || "cannot be read";
    groups.set(name, [...(groups.get(name) || []), runs.get(key)]);
  }
  const pieces = [];
  for (const [name, members] of groups) {
    pieces.push(element("div", { class: "problem" }, name));
    for (const run of members) pieces.push(entry(run));
  }
  const place = get("runs"), focused = document.activeElement?.dataset?.key;
  place.replaceChildren(...pieces);
  if (focused) place.querySelector(`[data-key="${focused}"]`)?.focus();
}

function entry(run) {
  const { info } = run;
  const box = element("input", { type: "checkbox", "data-key": info.key });
  box.checked = ticked?.has(info.key) ?? false;
  box.disabled = Boolean(info.error);
  box.addEventListener("change", () => {
    ticked[box.checked ? "add" : "delete"](info.key);
    if (box.checked) problem = info.problem;
    history.replaceState(null, "", `#${[...ticked].join(",")}`);
    choose();
    render();
  });
  const parts = [box, swatch(color(run)), element("span", { class: "name" }, info.name)];
  if (info.error) parts.push(element("span", { class: "what error" }, info.error));
  else {
    const last = run.records.at(-1);
    const [kind, words] = state(run);
    const what = last ? `${number(overSeeds(run, "current", "episode").points.at(-1)?.[1])} at ${last.episode.toLocaleString("en-US")}` : "";
    const told = element("span", { class: "what" }, element("span", { class: kind }, words), what ? ` · ${what}` : "");
    parts.push(told, element("progress", { max: 1, value: done(run), "aria-label": `${info.name}: done` }));
  }
  return element("label", { class: "run", title: info.folder }, ...parts);
}

function renderTabs() {
  const names = [...new Set(chosen().map((run) => run.info.problem))];
  get("problems").replaceChildren(...(names.length < 2 ? [] : names.map((name) => {
    const button = element("button", { type: "button", "aria-pressed": String(name === problem) }, name);
    button.addEventListener("click", () => { problem = name; render(); });
    return button;
  })));
}

function table(place, columns, rows) {
  const cells = (tag, row) => element("tr", {}, ...row.map((cell, i) => {
    const value = cell && cell.value !== undefined ? cell : { value: cell };
    const kind = [value.kind, i && value.text !== true ? "number" : ""].filter(Boolean).join(" ");
    return element(tag, kind ? { class: kind } : {}, ...[value.value ?? "–"].flat());
  }));
  get(place).replaceChildren(element("table", {}, cells("th", columns), ...rows.map((row) => cells("td", row))));
}

const named = (run) => ({ value: [swatch(color(run)), run.info.name] });

function renderNow(those) {
  const rows = those.map((run) => {
    const { points, band } = overSeeds(run, "current", "episode"), last = points.at(-1), spread = band.at(-1);
    const best = overSeeds(run, "best", "episode").points.at(-1), [kind, words] = state(run), { usual, left } = times(run);
    const episode = run.records.at(-1)?.episode ?? 0;
    const of = run.info.episodes ? ` / ${run.info.episodes.toLocaleString("en-US")}` : "";
    return [named(run), number(last?.[1]), spread ? `${number(spread[1])} to ${number(spread[2])}` : "one seed",
      number(best?.[1]), run.info.result ? number(run.info.result.mean) : "–",
      episode.toLocaleString("en-US") + of, usual ? number(1 / usual) : "–", left === null ? "–" : duration(left),
      { value: words, kind, text: true }];
  });
  table("now", ["run", "last test", "seeds from, to", "best test", "fresh episodes", "training episodes", "each second",
    "time left", { value: "", text: true }], rows);
}

function renderCurves(those, axis, x) {
  const lines = those.map((run) => ({ ...lineOf(run, "current", axis),
    thin: run.info.seeds.length > 1 && run.info.seeds.length <= 8
      ? bySeed(run).map((one) => one.map((r) => [r[axis], r.current])) : [] }));
  const late = lines.map((line) => {
    const after = ([at]) => at >= LATE * (line.points.at(-1)?.[0] ?? 0);
    return { ...line, points: line.points.filter(after), band: line.band.filter(after),
      thin: line.thin.map((one) => one.filter(after)) };
  });
  const zoom = lines.some((line) => line.points.length >= 5) && late.some((line) => line.points.length >= 2);
  get("late").parentElement.classList.toggle("one", !zoom);
  get("late").hidden = !zoom;
  chart(get("whole"), lines, { x, title: "mean return of a test", height: 270, legend: true });
  if (zoom) chart(get("late"), late, { x, title: "the same, from two fifths of each run on", height: 270 });
  const tests = [...new Set(those.map((run) => run.info.test_episodes))].join(" or ");
  get("curve-note").textContent = `Every test is on the same ${tests} episodes. Lines are means over seeds; `
    + "shaded: from the lowest to the highest seed.";
}

function renderInside(those, axis, x) {
  const inside = { policy_gradient: "length of the bound's gradient", critic_gradient: "length of the critic's gradient",
    critic_loss: "critic's loss" };
  for (const [field, title] of Object.entries(inside)) {
    chart(get(field), those.map((run) => lineOf(run, field, axis)), { x, title, log: true });
  }
  chart(get("bound"), those.map((run) => lineOf(run, "bound", axis)),
    { x, title: "bound: estimated return from the states sampled in training" });
}

function renderTime(those) {
  const rows = those.map((run) => {
    const { compiling, total, usual } = times(run);
    const rest = total !== undefined && compiling !== null ? total - compiling : null;
    return [named(run), total === undefined ? "–" : duration(total), compiling === null ? "–" : duration(compiling),
      rest === null ? "–" : duration(rest), usual ? `${number(1000 * usual)} ms` : "–"];
  });
  table("time", ["run", "in all", "compiling", "training, tests", "an episode"], rows);
  const lines = those.map((run) => ({ label: run.info.name, color: color(run), dash: dash(run),
    points: times(run).took.map(([episode, seconds, episodes]) => [episode, (1000 * seconds) / episodes]) }));
  chart(get("pace"), lines, { x: "training episodes", title: "milliseconds an episode, all seeds together, tests included", height: 190,
    empty: "There is a pace from the second test on." });
}

const SAMPLES = { episodes: "episodes", transitions: "transitions: steps of training episodes",
  model_evaluations: "further model evaluations", random_draws: "random draws",
  gradient_steps: "gradient steps, both networks", test_transitions: "steps of tests, which training does not see" };

function renderSamples(those) {
  const rows = Object.entries(SAMPLES).map(([name, words]) => [words,
    ...those.map((run) => run.samples?.[name]?.toLocaleString("en-US") ?? "–")]);
  table("samples", ["", ...those.map(named)], rows);
}

function setting(value) {
  if (value === null || value === undefined) return "none";
  if (Array.isArray(value)) return value.join(", ");
  return typeof value === "number" ? value.toLocaleString("en-US", { maximumSignificantDigits: 12 }) : String(value);
}

function renderSettings(those) {
  const names = [...new Set(those.flatMap((run) => Object.keys(run.info.settings)))];
  const values = (name) => those.map((run) => setting(run.info.settings[name]));
  const row = (name) => [element("code", {}, name), ...those.map((run) => {
    const own = setting(run.info.settings[name]), usual = run.info.usual;
    return { value: own, kind: name in usual && own !== setting(usual[name]) ? "changed" : "" };
  })];
  const columns = ["setting", ...those.map(named)];
  const differ = names.filter((name) => new Set(values(name)).size > 1);
  if (those.length < 2) get("different").replaceChildren(element("p", { class: "muted" }, "Tick several runs to see in which settings they differ."));
  else if (!differ.length) get("different").replaceChildren(element("p", { class: "muted" }, "All have the same settings."));
  else {
    table("different", columns, differ.map(row));
    get("different").prepend(element("p", { class: "muted" }, "Settings that differ; marked: other than the default."));
  }
  table("settings", columns, names.map(row));
  const made = [...new Set(those.flatMap((run) => Object.keys(run.info.made)))];
  table("made", ["", ...those.map(named)], [["folder", ...those.map((run) => run.info.folder)],
    ...made.map((name) => [name, ...those.map((run) => String(run.info.made[name] ?? "–"))])]);
}

// Which policy is drawn: one seed of one of the runs in sight.
function renderWhose(those) {
  const choices = those.flatMap((run) => run.info.seeds.map((seed) => [`${run.info.key}/${seed}`,
    run.info.seeds.length > 1 ? `${run.info.name}, seed ${seed}` : run.info.name])).slice(0, 200);
  const select = get("whose"), key = choices.join();
  if (select.drawn !== key) {
    select.drawn = key;
    select.replaceChildren(...choices.map(([value, label]) => element("option", { value }, label)));
    if (choices.some(([value]) => value === shown)) select.value = shown;
  }
  shown = select.value;
}

async function renderPicture() {
  const [key, seed] = (shown || "").split("/"), run = runs.get(key);
  if (!run || picture.busy || document.hidden) return;
  const stamp = `${shown} ${run.info.policies[run.info.seeds.indexOf(Number(seed))]}`;
  if (picture.stamp === stamp) return;
  picture.busy = true;
  if (!picture.stamp?.startsWith(shown)) get("picture").replaceChildren(element("p", { class: "muted" }, "Drawing …"));
  try {
    const told = await ask(`picture/${shown}`);
    picture.stamp = stamp;
    if (told.error) {
      get("picture").replaceChildren(element("p", { class: "muted" }, told.error));
      renderBeliefs(run, { error: told.error });
    } else {
      const parsed = new DOMParser().parseFromString(told.figure, "text/html");
      get("picture").replaceChildren(document.adoptNode(parsed.querySelector("figure")));
      renderBeliefs(run, told.beliefs);
    }
  } catch (error) {
    picture.stamp = null; // the next look tries again
  } finally {
    picture.busy = false;
  }
}

function renderBeliefs(run, told) {
  const place = get("beliefs"), note = get("beliefs-note");
  const points = (values) => (told.steps || []).map((step, i) => [step, values[i]]);
  place.redraw = () => chart(place, told.error ? [] : [
    { label: "believed by the critic", color: "var(--c1)", points: points(told.believed), dash: "6 3" },
    { label: "earned", color: "var(--c0)", points: points(told.earned) },
  ], { x: "step of the episode", title: `return from a step on: ${run.info.name}`, legend: true, empty: told.error || "Nothing yet." });
  place.redraw();
  note.textContent = told.error ? "" : "Means over the episodes of the picture above: what the critic says of the policy's "
    + `actions, and what they earn to the end. ${told.note}`;
}

get("axis").addEventListener("change", render);
get("whose").addEventListener("change", () => { shown = get("whose").value; renderPicture(); });
document.addEventListener("visibilitychange", () => { if (!document.hidden) render(); });
new ResizeObserver(() => { if (order.length) { render(); get("beliefs").redraw?.(); } }).observe(get("layout"));
look();
