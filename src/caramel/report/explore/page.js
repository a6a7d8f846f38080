"use strict";
// The state is the part of the address after `#`, so that every view has a link. Texts from data enter the page only
// as text nodes.
const data = JSON.parse(document.querySelector("#embedded").textContent);
const one = (selector) => document.querySelector(selector);
const VERDICTS = { r: ["✓", "right"], w: ["✗", "wrong"], t: ["=", "tied"], "-": ["–", "not scored"] };
const BLIND = { s: "solved blind", f: "not solved blind", "-": "not attacked" };
const FIELDS = { caption: "true caption", negative_caption: "hard negative", caption2: "paraphrase" };
const STEP = 12; // cards that are added at a time
const PAGE = 120; // cards that are on the page at once, at most
const benchmarks = new Map(data.benchmarks.map((each) => [each.name, each]));
// The cards are those of the instances matches[first], …, matches[count - 1]; `current` is the one with the focus.
let state = {}, matches = [], first = 0, count = 0, current = -1;

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function readState() {
  const values = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  const bench = benchmarks.get(values.benchmark) ?? data.benchmarks[0];
  const metric = bench.metrics.includes(values.metric) ? values.metric : bench.metrics[0];
  return { ...values, benchmark: bench.name, metric, subset: values.subset ?? "all" };
}

function buildHash(changes, from = state) {
  const entries = Object.entries({ ...from, ...changes }).filter(([, value]) => value);
  return `#${new URLSearchParams(entries)}`;
}

function change(changes) {
  history.replaceState(null, "", buildHash(changes));
  update();
}

function prepare(bench) {
  // Computed once per benchmark: searchable texts, subsets as sets, and the defects and errata of each instance.
  bench.search ??= bench.ids.map((id, i) => [id, ...bench.texts[i]].filter(Boolean).join("\n").toLowerCase());
  bench.sets ??= bench.in.map((numbers) => new Set(numbers.map((number) => bench.subsets[number])));
  if (!bench.faults) {
    bench.faults = bench.ids.map(() => []);
    for (const [name, rows] of Object.entries(bench.defects)) for (const row of rows) bench.faults[row].push(name);
  }
  if (!bench.errataOf) {
    bench.errataOf = bench.ids.map(() => []);
    for (const [row, ...erratum] of bench.errata) bench.errataOf[row].push(erratum);
  }
  return bench;
}

// Filters
function selectInstances(bench) {
  const words = (state.q ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const subsets = state.subset === "all" ? null : bench.means[state.subset] ?? [state.subset];
  const wanted = bench.models
    .map((name, i) => [bench.verdicts[state.metric][i], state[`verdict.${name}`]])
    .filter(([, verdict]) => verdict);
  const { blind, defect, corrected } = state;
  const chosen = [];
  for (let i = 0; i < bench.ids.length; i++) {
    if (subsets && !subsets.some((name) => bench.sets[i].has(name))) continue;
    if (wanted.some(([verdicts, verdict]) => verdicts[i] !== verdict)) continue;
    if (blind && bench.blind[i] !== blind) continue;
    if (defect === "any" ? !bench.faults[i].length : defect === "none" ? bench.faults[i].length
      : defect && !bench.faults[i].includes(defect)) continue;
    if (corrected && (corrected === "yes") !== bench.errataOf[i].length > 0) continue;
    if (words.every((word) => bench.search[i].includes(word))) chosen.push(i);
  }
  return chosen;
}

function fillSelect(select, options, value) {
  select.replaceChildren(...options.map(([key, text]) => make("option", { value: key }, text)));
  select.value = value ?? "";
  if (select.selectedIndex < 0) select.selectedIndex = 0;
}

// Table
function buildTable(bench) {
  const cells = bench.cells.filter(([metric]) => metric === state.metric);
  const columns = [...new Set(cells.map((cell) => cell[2]))];
  const head = make("tr", {}, make("th", { scope: "col" }, "Model"),
    ...columns.map((name) => make("th", { scope: "col" }, name)));
  const rows = bench.models.map((model) => {
    const row = make("tr", {}, make("th", { scope: "row" }, model));
    for (const subset of columns) {
      const cell = cells.find((each) => each[1] === model && each[2] === subset);
      row.append(make("td", {}, ...(cell ? [buildCell(model, subset, cell)] : [])));
    }
    return row;
  });
  one("#table").replaceChildren(make("caption", { class: "soft" }, `${bench.name}, ${state.metric}`),
    make("thead", {}, head), make("tbody", {}, ...rows));
}

function buildCell(model, subset, [, , , value, low, high, n]) {
  const text = value === null ? "–" : (100 * value).toFixed(1);
  const interval = low === null ? "" : ` [${(100 * low).toFixed(1)}, ${(100 * high).toFixed(1)}]`;
  const { benchmark, metric } = state;
  const link = make("a", { href: buildHash({ benchmark, metric, subset, model }, {}), title: `${text}${interval}, n = ${n}`,
    "aria-label": `${model}, ${subset}: ${text}` }, text);
  link.dataset.cell = `${model}\n${subset}`;
  return link;
}

// Instances
function splitWords(text) {
  return text.split(/\s+/).filter(Boolean);
}

function findCommon(a, b) {
  // The longest common subsequence of two lists of words, as the sets of their positions.
  const key = (word) => word.toLowerCase().replace(/^[^\p{L}\p{N}]+|[^\p{L}\p{N}]+$/gu, "");
  const [left, right] = [a.map(key), b.map(key)];
  const table = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      table[i][j] = left[i] === right[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
  const common = [new Set(), new Set()];
  for (let i = 0, j = 0; i < a.length && j < b.length;)
    if (left[i] === right[j]) { common[0].add(i++); common[1].add(j++); }
    else if (table[i + 1][j] >= table[i][j + 1]) i++;
    else j++;
  return common;
}

function markWords(words, common) {
  return words.flatMap((word, i) => [common && !common.has(i) ? make("mark", {}, word) : word, " "]);
}

function buildSide(label, image, ...texts) {
  const figure = make("figure");
  if (image >= 0 && data.images[image])
    figure.append(make("img", { src: `data:image/webp;base64,${data.images[image]}`, alt: label, loading: "lazy" }));
  else if (image >= 0) figure.append(make("p", { class: "soft" }, "The image is not in this file."));
  for (const [name, content] of texts) figure.append(make("figcaption", {}, make("b", {}, name), ...content));
  return figure;
}

function buildErratum([field, from, to, reason]) {
  const change = to === null ? ["excluded: ", make("q", {}, from)] : [make("q", {}, from), " is corrected to ", make("q", {}, to)];
  return make("p", { class: "erratum" }, make("b", {}, `Erratum, ${FIELDS[field]} `), ...change, `. Reason: ${reason}`);
}

function buildCard(bench, i) {
  const [caption, negative, paraphrase] = bench.texts[i];
  const [a, b] = [splitWords(caption ?? ""), splitWords(negative ?? "")];
  const [inA, inB] = negative && caption && a.length * b.length < 40_000 ? findCommon(a, b) : [null, null];
  const positive = [["True caption", markWords(a, inA)]];
  if (paraphrase) positive.push(["Paraphrase", [paraphrase]]);
  const sides = make("div", { class: "sides" }, buildSide("Positive image", bench.images[i][0], ...positive),
    buildSide("Negative image", bench.images[i][1], ...(negative ? [["Hard negative", markWords(b, inB)]] : [])));
  const facts = [[...bench.sets[i]].join(", ")];
  if (bench.blind[i] !== "-") facts.push(BLIND[bench.blind[i]]);
  if (bench.faults[i].length) facts.push(`defect: ${bench.faults[i].join(", ")}`);
  const verdicts = bench.models.map((model, m) => {
    const verdict = bench.verdicts[state.metric][m][i];
    const [sign, word] = VERDICTS[verdict];
    return make("li", { class: model === state.model ? "chosen" : "" },
      make("span", { class: verdict === "-" ? "soft" : verdict }, `${sign} ${word}`), ` ${model}`);
  });
  return make("article", { tabindex: "-1", "aria-label": `Instance ${bench.ids[i]}` }, make("h3", {}, bench.ids[i]),
    make("p", { class: "soft" }, facts.join(" · ")), ...bench.errataOf[i].map(buildErratum), sides, make("ul", { "aria-label": "Verdicts" }, ...verdicts));
}

function addCards() {
  const bench = benchmarks.get(state.benchmark), end = Math.min(first + PAGE, matches.length);
  const added = matches.slice(count, Math.min(count + STEP, end));
  one("#cards").append(...added.map((i) => buildCard(bench, i)));
  count += added.length;
  one("#more").textContent = count === matches.length && !first ? ""
    : `${first + 1}–${count} of ${matches.length} are listed${count < end ? "; scroll for more" : ""}.`;
  one("#previous").hidden = !first;
  one("#next").hidden = count < end || count === matches.length;
}

function showPage(start) {
  // Shows the cards from a multiple of PAGE on, in place of those that are shown.
  first = count = start;
  one("#cards").replaceChildren();
  addCards();
}

function turnPage(step) {
  showPage(first + step);
  current = -1;
  goToList();
}

function goToList() {
  one("#list").focus({ preventScroll: true });
  one("#list").scrollIntoView();
}

function showInstances(bench) {
  matches = selectInstances(bench);
  current = -1;
  const counts = { r: 0, w: 0, t: 0, "-": 0 };
  const verdicts = bench.verdicts[state.metric][bench.models.indexOf(state.model)];
  if (verdicts) for (const i of matches) counts[verdicts[i]]++;
  const parts = verdicts ? Object.keys(counts).filter((key) => counts[key]).map((key) => `${counts[key]} ${VERDICTS[key][1]}`) : [];
  one("#heading").textContent = `${matches.length.toLocaleString("en")} ${matches.length === 1 ? "instance" : "instances"}${verdicts ? `, ${state.model}: ${parts.join(", ")}` : ""}`;
  showPage(0);
}

function focusCard(index) {
  if (!matches.length) return;
  current = Math.max(0, Math.min(index, matches.length - 1));
  const start = current - current % PAGE;
  if (start !== first) showPage(start);
  while (current >= count) addCards();
  const card = one("#cards").children[current - first];
  card.focus({ preventScroll: true });
  card.scrollIntoView({ block: "nearest" });
}

let drawn = ""; // benchmark and metric of the table on the page
function update() {
  state = readState();
  const bench = prepare(benchmarks.get(state.benchmark));
  const view = `${state.benchmark}\n${state.metric}`;
  if (view !== drawn) {
    drawn = view;
    buildTable(bench);
    fillSelect(one("#metric"), bench.metrics.map((name) => [name, name]), state.metric);
    buildFilters(bench);
  }
  one("#benchmark").value = state.benchmark;
  for (const control of one("#filters").elements)
    if (control.name && control.value !== (state[control.name] ?? "")) control.value = state[control.name] ?? "";
  for (const link of document.querySelectorAll("#table a[aria-current]")) link.removeAttribute("aria-current");
  findCell(state.model, state.subset)?.setAttribute("aria-current", "true");
  showInstances(bench);
}

function findCell(model, subset) {
  return [...document.querySelectorAll("#table a")].find((link) => link.dataset.cell === `${model}\n${subset}`);
}

function buildFilters(bench) {
  const form = one("#filters");
  const subsets = [...new Set(["all", ...Object.keys(bench.means), ...bench.subsets])];
  fillSelect(form.elements.subset, subsets.map((name) => [name, name]), state.subset);
  fillSelect(form.elements.blind, [["", "any"], ...Object.entries(BLIND)]);
  form.elements.blind.disabled = !/[sf]/.test(bench.blind);
  const names = Object.keys(bench.defects);
  fillSelect(form.elements.defect, [["", "any or none"], ["any", "a defect"], ["none", "no defect"], ...names.map((name) => [name, name])]);
  fillSelect(form.elements.corrected, [["", "any"], ["yes", "corrected or excluded"], ["no", "as published"]]);
  form.elements.corrected.disabled = !bench.errata.length;
  one("#verdicts").replaceChildren(...bench.models.map((model) => {
    const select = make("select", { name: `verdict.${model}` });
    fillSelect(select, [["", "any"], ...Object.entries(VERDICTS).map(([key, [, word]]) => [key, word])]);
    return make("label", {}, model, select);
  }));
}

// Keys
function moveInTable(link, key) {
  const cell = link.closest("td"), row = cell.parentElement;
  const [x, y] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key];
  const target = row.parentElement.rows[row.sectionRowIndex + y]?.cells[cell.cellIndex + x];
  target?.querySelector("a")?.focus();
}

function press(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const inTable = event.target.closest?.("#table a");
  if (event.key === "Escape") {
    (findCell(state.model, state.subset) ?? one("#table a"))?.focus();
    return;
  }
  if (event.target.closest?.("input, select, summary, button")) return;
  const step = { j: 1, ArrowDown: 1, ArrowRight: 1, k: -1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
  if (event.key === "/") one("#filters").elements.q.focus();
  else if (inTable && event.key.startsWith("Arrow")) moveInTable(inTable, event.key);
  // Arrows scroll the page unless an instance has the focus.
  else if (step && (event.key.length === 1 || event.target.closest?.("article"))) focusCard(current < 0 ? first : current + step);
  else return;
  event.preventDefault();
}

fillSelect(one("#benchmark"), [...benchmarks.keys()].map((name) => [name, name]));
one("#benchmark").addEventListener("change", (event) => { location.hash = buildHash({ benchmark: event.target.value }, {}); });
one("#metric").addEventListener("change", (event) => change({ metric: event.target.value }));
one("#filters").addEventListener("input", (event) => { if (event.target.name) change({ [event.target.name]: event.target.value }); });
one("#filters").addEventListener("reset", (event) => {
  event.preventDefault();
  const { benchmark, metric, model } = state;
  history.replaceState(null, "", buildHash({ benchmark, metric, model }, {}));
  update();
});
one("#filters").addEventListener("submit", (event) => event.preventDefault());
one("#skip").addEventListener("click", (event) => { event.preventDefault(); one("#list").focus(); });
one("#cards").addEventListener("focusin", (event) => {
  current = first + [...one("#cards").children].indexOf(event.target.closest("article"));
});
addEventListener("keydown", press);
one("#previous").addEventListener("click", () => turnPage(-PAGE));
one("#next").addEventListener("click", () => turnPage(PAGE));
addEventListener("hashchange", () => {
  update();
  goToList();
});
new IntersectionObserver((entries) => {
  if (entries.some((entry) => entry.isIntersecting)) addCards();
}, { rootMargin: "600px" }).observe(one("#more"));
update();
