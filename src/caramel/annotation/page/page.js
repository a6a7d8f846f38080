// The annotation page. It keeps two items: the current one and the next, whose images are loaded ahead.
// Each answer is written into the browser's storage first, and removed from it when the server has acknowledged it.
// All texts from data are set as text, never as HTML.
"use strict";

const $ = (id) => document.getElementById(id);
const PAGE = crypto.randomUUID ? crypto.randomUUID() : `${Date.now()}-${Math.random()}`;
const RETRY = 3000; // milliseconds until a request that failed is sent again
const LOOK_AGAIN = 10000; // milliseconds until the page asks for items that others hold
const KEYS = "1234567890"; // of the options; those beyond have none
const REASONS = ["I cannot decide", "An image is broken or missing", "The text is not understandable", "Unsuitable content"];

let task = null; // what /api/start returned
let queue = []; // items: the current one first
let responses = []; // to the questions of the current item
let visible = 0, since = null; // milliseconds for which the current item was visible, and since when
let sending = false, undoing = false, stopped = false;
let paces = []; // seconds of the last items
let progress = null;
let look = null; // timer until the page asks for items that others hold

// --- Server, or a file with everything inside ---

async function post(path, body) {
    const response = await fetch(`/api/${path}`, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ page: PAGE, task_id: task && task.task_id, ...body }),
    });
    const reply = await response.json().catch(() => ({ error: `The server replied ${response.status}.` }));
    if (reply.replaced) {
        stop("This task was opened in another tab or window. Go on there, or reload this page to go on here.");
    } else if (reply.other_task) {
        stop(reply.error);
        warn(describeWaiting());
    } else if (!response.ok) {
        throw Object.assign(new Error(reply.error), { code: response.status });
    }
    return reply;
}

const embedded = $("embedded") && JSON.parse($("embedded").textContent);
const backend = embedded ? buildFileBackend() : { post, imageUrl: (key) => `/image/${encodeURIComponent(key)}` };

function buildFileBackend() {
    const key = `caramel-answers:${embedded.task_id}:${embedded.annotator}`;
    const read = () => JSON.parse(localStorage.getItem(key) || "[]");
    const describe = (answers) => ({ answered: answers.length, stored: answers.length, wanted: embedded.items.length,
        state: answers.length < embedded.items.length ? "open" : "done" });
    $("save").hidden = false;
    $("save").onclick = () => {
        const { items, images, guideline, ...head } = embedded;
        save({ ...head, answers: read() }, `${embedded.annotator}.answers.json`);
        say("The answers are in your folder of downloads. Send this file back.");
    };
    return {
        imageUrl: (image) => embedded.images[image] || "",
        post: async (path, body) => {
            const answers = read();
            if (path === "answer" && !answers.some((one) => one.item_key === body.item_key)) {
                const { answer_id, item_key, responses, skipped, seconds } = body;
                answers.push({ answer_id, item_key, responses, skipped, seconds, answered_at: new Date().toISOString() });
            }
            const last = path === "undo" ? answers.pop() : null;
            if (path !== "start") localStorage.setItem(key, JSON.stringify(answers));
            const closed = new Set([...answers.map((one) => one.item_key), ...(body.holding || [])]);
            const room = Math.max(0, 2 - (body.holding || []).length);
            return { ...embedded, progress: describe(answers), items: embedded.items.filter((one) => !closed.has(one.item_key))
                .slice(0, room), item: last && embedded.items.find((one) => one.item_key === last.item_key) };
        },
    };
}

function save(content, name) {
    const url = URL.createObjectURL(new Blob([JSON.stringify(content, null, 1)], { type: "application/json" }));
    Object.assign(document.createElement("a"), { href: url, download: name }).click();
    URL.revokeObjectURL(url);
}

// --- Answers that are not acknowledged yet, and those that were refused ---

const PENDING = "caramel-pending:";
const storageKey = (start) => `${start}${task.task_id}:${task.annotator}`;
const readRows = (key) => JSON.parse(localStorage.getItem(key) || "[]");
const readPending = () => readRows(storageKey(PENDING));
const writePending = (rows) => localStorage.setItem(storageKey(PENDING), JSON.stringify(rows));
const readRefused = () => readRows(storageKey("caramel-refused:"));

function forget(row) {
    writePending(readPending().filter((other) => other.answer_id !== row.answer_id));
}

// It would be refused again, so that it is not sent again. It stays in the browser, and so does the warning.
function keepRefused(row, reason) {
    localStorage.setItem(storageKey("caramel-refused:"), JSON.stringify([...readRefused(), { ...row, reason }]));
    forget(row);
    showRefused();
}

function showRefused() {
    const rows = readRefused();
    $("refused").hidden = !rows.length;
    if (rows.length) {
        $("refusal").textContent = `${count(rows.length, "answer was", "answers were")} refused and not stored. The last reason: ${
            rows.at(-1).reason} They are kept in this browser for whoever runs the task.`;
    }
}

function count(number, one, many) {
    return `${number} ${number === 1 ? one : many}`;
}

function describeWaiting() {
    const waiting = readPending().length;
    return waiting ? `${count(waiting, "answer is", "answers are")} kept in this browser and not stored yet.` : "";
}

// Answers to a task that was served here before are sent when it is served again.
function mentionOtherTasks() {
    const own = storageKey(PENDING);
    const waiting = Object.keys(localStorage).filter((key) => key.startsWith(PENDING) && key !== own)
        .reduce((sum, key) => sum + readRows(key).length, 0);
    if (waiting) {
        const what = count(waiting, "answer to another task is", "answers to other tasks are");
        say(`${what} kept in this browser until that task is served here again.`);
    }
}

async function sendPending() {
    if (sending) return;
    sending = true;
    try {
        for (let rows = readPending(); rows.length && !stopped; rows = readPending()) await sendAnswer(rows[0]);
        if (!stopped) warn("");
    } catch (error) {
        warn(`${describeWaiting()} ${error.code ? error.message : "The server does not reply."} ${isFinal(error) ? "" : "Trying again."}`);
        if (!isFinal(error)) setTimeout(sendPending, RETRY);
    } finally {
        sending = false;
    }
}

async function sendAnswer(row) {
    try {
        const reply = await backend.post("answer", { ...row, holding: queue.map((item) => item.item_key) });
        if (reply.other_task) return;
        forget(row);
        receive(reply);
    } catch (error) {
        if (error.code !== 422) throw error;
        keepRefused(row, error.message);
        await fill(); // the reply would have brought the next item
    }
}

const isFinal = (error) => error.code === 403; // the same request gets the same reply

async function fill() {
    try {
        receive(await backend.post("next", { holding: queue.map((item) => item.item_key) }));
        if (!stopped) warn(describeWaiting());
    } catch (error) {
        warn(`${error.code ? error.message : "The server does not reply."} ${isFinal(error) ? "" : "Trying again."}`);
        if (!isFinal(error)) setTimeout(fill, RETRY);
    }
}

function receive(reply) {
    if (stopped) return;
    const held = new Set([...queue, ...readPending()].map((row) => row.item_key));
    const idle = queue.length === 0;
    queue.push(...reply.items.filter((item) => !held.has(item.item_key)));
    queue.slice(1).forEach(preload);
    progress = reply.progress;
    showProgress();
    if (idle) showItem();
}

function preload(item) {
    for (const question of item.questions) {
        for (const key of [question.image, ...question.options.map((option) => option.image)]) {
            if (key) new Image().src = backend.imageUrl(key);
        }
    }
}

// --- What is shown ---

function showProgress() {
    const pace = paces.length ? ` · ${Math.round(paces.reduce((a, b) => a + b) / paces.length)} s per item` : "";
    $("progress").textContent = `You: ${progress.answered} done${pace} · all: ${progress.stored} of ${progress.wanted}`;
    $("bar").max = progress.wanted || 1;
    $("bar").value = progress.stored;
}

function showItem() {
    responses = [];
    visible = 0;
    since = document.hidden ? null : performance.now();
    showQuestion();
}

function showQuestion() {
    const item = queue[0];
    for (const id of ["stimulus", "options"]) $(id).replaceChildren();
    for (const id of ["caption", "editor"]) $(id).hidden = true;
    $("step").textContent = "";
    $("skip").disabled = !item;
    if (!item) {
        showEnd();
        return;
    }
    const question = item.questions[responses.length];
    $("question").textContent = question.text;
    if (item.questions.length > 1) $("step").textContent = `Question ${responses.length + 1} of ${item.questions.length}`;
    $("caption").hidden = question.caption === null;
    $("caption").textContent = question.caption || "";
    if (question.image) $("stimulus").append(buildImage(question.image, "The image to judge"));
    $("options").className = question.options.some((option) => option.image) ? "images" : "texts";
    for (const fixed of [false, true]) {
        const group = Object.assign(document.createElement("div"), { className: fixed ? "fixed" : "free" });
        group.append(...question.options.map((option, index) => option.fixed === fixed
            ? buildOption(question, option, index) : ""));
        $("options").append(group);
    }
    if (question.editable) {
        $("editor").hidden = false;
        $("text").maxLength = task.max_text;
        $("text").value = question.options.length === 1 ? question.options[0].caption : "";
    }
    $("question").focus({ preventScroll: true });
    scrollTo(0, 0);
}

function showEnd() {
    const texts = {
        done: "All done. Thank you!",
        failed: "The trial items are done. Your answers differ from the expected ones too often to go on. Thank you for your time.",
        waiting: "Nothing to do right now: the remaining items are with other annotators. This page looks again by itself.",
        open: "Loading …",
    };
    clearTimeout(look);
    if (progress.state === "waiting") look = setTimeout(() => queue.length || stopped || fill(), LOOK_AGAIN);
    if ($("question").textContent === texts[progress.state]) return; // a screen reader would read it again
    $("question").textContent = texts[progress.state];
    $("question").focus();
    if (embedded && progress.state === "done") say("Now save the answers to a file.");
}

function buildImage(key, alternative) {
    const image = Object.assign(new Image(), { alt: alternative, src: backend.imageUrl(key) });
    image.onerror = () => {
        const note = Object.assign(document.createElement("p"), { className: "broken",
            textContent: "This image cannot be shown. If you cannot judge without it, skip the item." });
        image.replaceWith(note);
    };
    return image;
}

function buildOption(question, option, index) {
    const button = document.createElement("button");
    button.type = "button";
    if (option.caption) button.className = "text";
    const digit = KEYS[index];
    if (digit) button.setAttribute("aria-keyshortcuts", digit);
    button.append(Object.assign(document.createElement(digit ? "kbd" : "span"),
        { textContent: digit || String(index + 1), className: "mark" }));
    if (option.image) button.append(buildImage(option.image, `Image ${index + 1}`));
    if (option.caption) button.append(...markDifference(question, option));
    // The second click of a double click would answer the next item, which is there at once.
    button.onclick = (event) => event.detail > 1 || choose(index);
    return button;
}

// Words of one option that the other ones lack are underlined where two texts are compared to be edited.
function markDifference(question, option) {
    const span = document.createElement("span");
    const others = question.options.filter((other) => other !== option && other.caption);
    for (const word of option.caption.split(/(\s+)/)) {
        const differs = question.editable && others.length && word.trim()
            && !others.every((other) => other.caption.split(/\s+/).includes(word));
        span.append(Object.assign(document.createElement(differs ? "mark" : "span"), { textContent: word }));
    }
    return [span];
}

function warn(text) {
    $("alert").textContent = text;
    $("alert").hidden = !text;
}

function say(text) {
    $("status").textContent = text;
}

function stop(text) {
    stopped = true;
    queue = [];
    for (const id of ["stimulus", "options"]) $(id).replaceChildren();
    for (const id of ["caption", "editor"]) $(id).hidden = true;
    for (const id of ["undo", "skip"]) $(id).disabled = true;
    $("step").textContent = "";
    $("question").textContent = text;
    warn("");
}

// --- What annotators do ---

function choose(index) {
    const question = queue[0].questions[responses.length];
    if (index >= question.options.length) return;
    if (question.editable) {
        $("text").value = question.options[index].caption;
        [...$("options").querySelectorAll("button")].forEach(
            (button, number) => button.classList.toggle("chosen", number === index));
        $("text").focus();
        return;
    }
    respond(index);
}

function respond(response) {
    responses.push(response);
    if (responses.length < queue[0].questions.length) showQuestion();
    else finish({ responses });
}

function finish(answer) {
    const item = queue[0];
    if (since !== null) visible += performance.now() - since;
    const seconds = Math.round(visible) / 1000;
    paces = [...paces, seconds].slice(-20);
    const answer_id = crypto.randomUUID ? crypto.randomUUID() : `${PAGE}-${performance.now()}-${Math.random()}`;
    writePending([...readPending(), { answer_id, item_key: item.item_key, seconds, ...answer }]);
    queue.shift();
    say(answer.skipped ? "Skipped." : "Answered.");
    if (queue.length || progress.state === "open") showItem();
    else showQuestion();
    sendPending();
}

async function undo() {
    if (responses.length) {
        responses.pop();
        showQuestion();
        return;
    }
    if (undoing || stopped) return;
    undoing = true;
    while (sending) await new Promise((resolve) => setTimeout(resolve, 20)); // the last answer is on its way
    try {
        if (readPending().length) throw Object.assign(new Error("Undo works once your last answers are stored."), { code: 1 });
        if (!embedded && !progress.last_answer) {
            say("There is no answer to take back.");
            return;
        }
        const reply = await backend.post("undo", { answer_id: progress.last_answer, holding: queue.map((item) => item.item_key) });
        if (stopped) return;
        progress = reply.progress;
        showProgress();
        if (reply.item) {
            queue = [reply.item, ...queue.filter((item) => item.item_key !== reply.item.item_key)];
            showItem();
            say("Your last answer was taken back.");
        } else say("There is no answer to take back.");
    } catch (error) {
        warn(error.code ? error.message : "The server does not reply. Try again.");
    } finally {
        undoing = false;
    }
}

function openSkip() {
    if (!queue.length || stopped) return;
    $("reason").value = "";
    $("skipping").showModal();
}

function skip(reason) {
    $("skipping").close();
    if (reason.trim()) finish({ skipped: reason.trim() });
}

function showInstructions(first) {
    $("begin").lastChild.textContent = first ? " Start" : " Go on";
    $("instructions").showModal();
    $("begin").focus();
}

document.addEventListener("keydown", (event) => {
    const dialog = document.querySelector("dialog[open]");
    const typing = event.target.matches("textarea, input");
    if (event.key === "Enter" && event.ctrlKey && !$("editor").hidden && !dialog) $("editor").requestSubmit();
    if (event.ctrlKey || event.altKey || event.metaKey || typing || event.repeat) return;
    const number = event.key.length === 1 ? KEYS.indexOf(event.key) : -1;
    if (dialog) {
        if (dialog.id === "skipping" && number >= 0 && number < REASONS.length) {
            event.preventDefault();
            skip(REASONS[number]);
        }
        return;
    }
    const actions = { u: undo, s: openSkip, "?": () => showInstructions(false) };
    const action = actions[event.key.toLowerCase()] || (number >= 0 && queue.length && !stopped && (() => choose(number)));
    if (action) {
        event.preventDefault();
        action();
    }
});

document.addEventListener("visibilitychange", () => {
    if (document.hidden && since !== null) {
        visible += performance.now() - since;
        since = null;
    } else if (!document.hidden && since === null) since = performance.now();
});

function listen() {
    $("undo").onclick = undo;
    $("skip").onclick = openSkip;
    $("help").onclick = () => showInstructions(false);
    $("save-refused").onclick = () => save({ task_id: task.task_id, annotator: task.annotator, refused: readRefused() },
        `${task.annotator}.refused.json`);
    $("remove-refused").onclick = () => {
        localStorage.removeItem(storageKey("caramel-refused:"));
        showRefused();
    };
    $("stay").onclick = () => $("skipping").close();
    $("reasons").append(...REASONS.map((reason, index) => {
        const button = document.createElement("button");
        const key = Object.assign(document.createElement("kbd"), { textContent: String(index + 1) });
        button.append(key, ` ${reason}`);
        button.onclick = () => skip(reason);
        return button;
    }));
    $("other").onsubmit = (event) => {
        event.preventDefault();
        skip($("reason").value);
    };
    $("editor").onsubmit = (event) => {
        event.preventDefault();
        const text = $("text").value.trim();
        if (text) respond(text);
        else warn("The text is empty. Write one, or skip the item.");
    };
}

async function start() {
    listen();
    try {
        task = await backend.post("start", {});
    } catch (error) {
        warn(error.code ? error.message : "The server does not reply. Reload this page.");
        return;
    }
    progress = task.progress;
    showProgress();
    const [title, ...paragraphs] = task.guideline.split(/\n\s*\n/);
    document.title = title;
    $("title").textContent = title;
    $("guideline-title").textContent = title;
    $("guideline").textContent = paragraphs.join("\n\n");
    $("who").textContent = `Annotator ${task.annotator}`;
    showRefused();
    mentionOtherTasks();
    showInstructions(true);
    // Time counts from the first sight of an item, not of the instructions.
    await new Promise((resolve) => $("instructions").addEventListener("close", resolve, { once: true }));
    await sendPending();
    await fill();
}

start();
