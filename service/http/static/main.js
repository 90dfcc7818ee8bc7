/** The playground: sends the input on the left to the service and shows its answer on the right. */

import { Complaints } from "./complaints.js";
import { badge, byId, make, outcomeOf, rewardOf, words } from "./dom.js";
import { Editor } from "./editor.js";
import { Edits } from "./edits.js";
import { EXAMPLES, GROUP } from "./examples.js";
import { TextField } from "./fields.js";
import { Group } from "./group.js";
import { NO_HIGHLIGHTS, referenceHighlights, responseHighlights } from "./highlights.js";
import { Loop } from "./loop.js";
import { Permalink, stateOf } from "./permalink.js";
import { moveStep } from "./reorder.js";
import { Result } from "./result.js";
import { Rollouts } from "./rollouts.js";
import { Service, referenceOf } from "./service.js";
import { Settings } from "./settings.js";
import { Status } from "./status.js";
import { skeletonOf } from "./suggestions.js";
import { addTheme } from "./theme.js";
import { Walk } from "./walk.js";

const service = new Service();
const status = new Status();
const editors = { response: new Editor(byId("response")), reference: new Editor(byId("reference")) };
const field = (id) =>
  new TextField(byId(id), {
    fault: byId(`${id}-fault`),
    meter: byId(`${id}-meter`),
    editor: editors[id],
    changed: typed,
  });
const response = field("response");
const reference = field("reference");
const bulk = new TextField(byId("import"), { fault: byId("import-fault"), changed: () => {} });
const complaints = new Complaints(response, reference, () => settings);
const rollouts = new Rollouts(byId("rollouts"), () => changed());
const score = (request, signal) => service.call("v1/score", request, signal);
const actions = { show, take, move, configure, score, copied };
const result = new Result(byId("result-one"), actions, editors);
const group = new Group(byId("result-group"), { explain, copied });
const walk = new Walk({ open: openGroup, fault: (text) => bulk.blame(text) });
const edits = new Edits(result.undo, {
  read: () => ({ response: response.text, config: settings.valid }),
  write: (state) => {
    response.replace(state.response);
    settings.set({ ...settings.defaults, ...state.config });
    typed();
    changed(0);
  },
});
const permalink = new Permalink(stateNow);
let settings = null;
let view = "one";
let pending = null;
let explained = null;

const loops = {
  one: loopOf((request) => service.call("v1/explain", request), explainRequest, (answer, request) => {
    const { body } = answer;
    explained = { ...body, text: request.response };
    result.update(answer, request, Boolean(service.key));
    byId("skeleton").hidden = !skeletonOf(body);
    editors.response.highlight(responseHighlights(body, request.response));
    if (request.reference === reference.text) editors.reference.highlight(referenceHighlights(body, reference.text));
    status.say(`Reward ${rewardOf(body.reward)}, ${words(body.outcome)}.`);
    status.glance(make("strong", {}, rewardOf(body.reward)), badge(body.reason, body.outcome));
  }),
  group: loopOf((request) => service.scoreGroup(request), groupRequest, (answer, request) => {
    group.update(answer, request, { names: rollouts.names, withKey: Boolean(service.key) });
    const { rewards, reasons, components } = answer.body;
    const range = `rewards from ${rewardOf(Math.min(...rewards))} to ${rewardOf(Math.max(...rewards))}`;
    status.say(`${rewards.length} rollouts, ${range}.`);
    status.glance(`${rewards.length} rollouts, ${range}`);
    rollouts.annotate(rewards, (index) => outcomeOf(reasons[index], components, index, request.config), reasons);
  }),
};

/** Returns a loop of requests; the marks let a test measure how long it takes to show a reply. */
function loopOf(ask, read, show) {
  return new Loop({
    read,
    ask,
    show: (answer, request) => {
      performance.mark("assay:reply");
      complaints.show([]);
      show(answer, request);
      performance.mark("assay:shown");
      performance.measure("assay:update", "assay:reply", "assay:shown");
      status.fresh(answer.milliseconds);
      permalink.keep();
    },
    fail,
    busy: (flag) => status.busy(flag),
  });
}

function explainRequest() {
  const config = settings?.overrides;
  if (!config || !response.fits || !reference.fits) return held();
  return { response: response.text, reference: referenceOf(reference.text), config };
}

function groupRequest() {
  const config = settings?.overrides;
  if (!config || !rollouts.fit || !reference.fits) return held();
  const responses = rollouts.texts;
  if (!responses.length) {
    group.empty("Add rollouts to compare them.");
    return null;
  }
  const include = responses.length > 1 ? ["components", "advantages"] : ["components"];
  return { references: [referenceOf(reference.text)], responses, config, include };
}

/** Sends nothing: the result on the page does not belong to the current input. */
function held() {
  status.outdated();
  return null;
}

function typed() {
  byId("example").value = "";
  edits.forget();
  changed();
}

/** Called on any change: sends the input after `pause` milliseconds. */
function changed(pause) {
  status.waiting();
  byId("settings-count").textContent = settings?.count ? `${settings.count} changed` : "";
  byId("settings-open").textContent = settings?.count ? `Settings (${settings.count})` : "Settings";
  loops[view].touch(pause);
}

/** Shows errors at the fields that they name, and all others in the banner. */
function fail(error) {
  const left = complaints.show(error.problem?.errors ?? []);
  if (error.status === 401) {
    byId("access").open = true;
    byId("access-state").textContent = service.key ? "not accepted" : "required";
    if (document.activeElement === document.body) byId("key").focus();
  }
  status.failed(error, left);
}

/** Selects a part of the response, or of another text, and scrolls to it. */
function show({ utf16 }, name = "response") {
  editors[name].select(...utf16);
}

/** Applies a suggestion, unless the response was changed meanwhile. */
function take({ response: text, config, text: said }) {
  if (text !== null && response.text !== explained.text) return;
  const change = { config: { ...settings.effective, ...config } };
  edits.apply(text === null ? change : { ...change, response: text }, said);
}

/** Applies a configuration of the matrix. */
function configure(config) {
  edits.make({ config: { ...settings.effective, ...config } });
}

/** Moves a step of the response that the page shows an explanation of. */
function move(from, to) {
  if (response.text !== explained.text) return;
  edits.make({ response: moveStep(response.text, explained, from, to) });
  status.note(`Step ${from} is now step ${to}. Undo (Ctrl+Z) takes it back.`);
}

function explain(index) {
  const text = rollouts.texts[index];
  setView("one");
  response.replace(text);
  typed();
  byId("result").focus();
}

/** Shows a group of a file. */
function openGroup({ reference: text, rows }) {
  if (text) reference.text = text;
  rollouts.set(
    rows.map((row) => row.response),
    rows.map((row) => row.id),
  );
  byId("example").value = "";
  changed(0);
}

function copied(done) {
  status.note(done ? "Copied." : "The browser does not allow copying: select the text instead.");
}

function setView(name) {
  loops[view].rest();
  view = name;
  if (name === "group") editors.reference.highlight(NO_HIGHLIGHTS); // those of the reference are about one response
  for (const radio of document.querySelectorAll("input[name=view]")) radio.checked = radio.value === name;
  for (const part of ["input", "result"]) {
    byId(`${part}-one`).hidden = name !== "one";
    byId(`${part}-group`).hidden = name !== "group";
  }
}

function stateNow() {
  const config = settings?.valid ?? {};
  const texts = { response: response.text, reference: reference.text, rollouts: rollouts.texts };
  return { view, ...texts, config, ...(rollouts.ids.some(Boolean) && { ids: rollouts.ids }) };
}

function restore(state) {
  pending = state.config;
  response.text = state.response;
  reference.text = state.reference;
  rollouts.set(state.rollouts, state.ids);
  settings?.set({ ...settings.defaults, ...state.config });
  setView(state.view);
}

/** Loads the settings from the service; nothing is sent before that. */
const start = new Loop({
  read: () => ({}),
  ask: async () => [await service.call("v1/config"), await service.call("./").catch(() => null)],
  show: ([{ body }, index]) => {
    settings = new Settings(byId("settings-box"), body.schema, body.config, () => changed());
    settings.set({ ...settings.defaults, ...pending });
    byId("about").textContent =
      `Assay ${body.version}, rules ${body.rules_version}. Texts are sent to this service only.`;
    const links = Object.entries(index?.body.links ?? {}).filter(([name]) =>
      ["docs", "openapi", "metrics"].includes(name),
    );
    byId("links").replaceChildren(...links.map(([name, path]) => make("a", { href: path.slice(1) }, words(name))));
    changed(0);
  },
  fail,
});

function wire() {
  const select = byId("example");
  select.append(
    make("option", { value: "" }, "your own text"),
    ...EXAMPLES.map(({ title }, index) => make("option", { value: index }, title)),
  );
  select.addEventListener("change", () => {
    if (select.value === "") return;
    const chosen = select.value;
    const { config, ...texts } = EXAMPLES[chosen];
    response.replace(texts.response);
    reference.replace(texts.reference);
    if (config) settings?.set({ ...settings.effective, ...config });
    select.value = chosen;
    changed(0);
  });
  for (const radio of document.querySelectorAll("input[name=view]")) {
    radio.addEventListener("change", () => {
      setView(radio.value);
      changed(0);
    });
  }
  byId("add-rollout").addEventListener("click", () => more(""));
  byId("add-response").addEventListener("click", () => more(response.text));
  byId("import-button").addEventListener("click", () => {
    try {
      walk.take(bulk.text);
      bulk.text = "";
    } catch (error) {
      bulk.blame(error.message);
    }
  });
  byId("settings-open").addEventListener("click", () => {
    byId("settings").open = true;
    byId("settings").scrollIntoView();
    document.querySelector("#settings > summary").focus({ preventScroll: true });
  });
  byId("settings-reset").addEventListener("click", () => {
    settings?.set(settings.defaults);
    changed(0);
  });
  byId("access-form").addEventListener("submit", (event) => event.preventDefault());
  byId("key").addEventListener("input", (event) => {
    service.key = event.target.value.trim();
    byId("access-state").textContent = service.key ? "set" : "none";
    (settings ? loops[view] : start).touch();
  });
  byId("link").addEventListener("click", async () => status.note(await permalink.copy(settings?.faulty ?? [])));
  byId("skeleton").addEventListener("click", () => take(skeletonOf(explained)));
  for (const id of ["skip", "glance"]) {
    byId(id).addEventListener("click", (event) => {
      event.preventDefault();
      byId("result").focus();
      byId("result").scrollIntoView();
    });
  }
  window.addEventListener("hashchange", async () => {
    const state = await stateOf(location.hash);
    if (!state) return;
    restore(state);
    typed();
  });
  const hurry = () => [start, loops[view]].forEach((loop) => loop.hurry());
  window.addEventListener("online", hurry);
  document.addEventListener("visibilitychange", () => document.hidden || hurry());
  addTheme(byId("theme"));
  status.follow([result.verdict, group.summary]);
}

function more(text) {
  if (!rollouts.add(text, { open: true })) status.note("This is the maximum number of rollouts.");
  rollouts.fields.at(-1).control.focus();
  changed(0);
}

wire();
const linked = await stateOf(location.hash);
restore(linked ?? { view: "one", ...EXAMPLES[1], config: {}, rollouts: GROUP });
byId("example").value = linked ? "" : "1";
start.touch(0);
