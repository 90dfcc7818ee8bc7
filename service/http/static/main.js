/** The playground: sends the input on the left to the service and shows its answer on the right. */

import { badge, byId, figure, make, words } from "./dom.js";
import { EXAMPLES, GROUP } from "./examples.js";
import { TextField } from "./fields.js";
import { Group } from "./group.js";
import { Loop } from "./loop.js";
import { Permalink, stateOf } from "./permalink.js";
import { Result } from "./result.js";
import { Rollouts, imported } from "./rollouts.js";
import { Service, referenceOf } from "./service.js";
import { Settings } from "./settings.js";
import { Status } from "./status.js";
import { addTheme } from "./theme.js";

const service = new Service();
const status = new Status();
const field = (id, meter) =>
  new TextField(byId(id), { fault: byId(`${id}-fault`), meter: meter && byId(`${id}-meter`), changed: typed });
const response = field("response", true);
const reference = field("reference", true);
const bulk = new TextField(byId("import"), { fault: byId("import-fault"), changed: () => {} });
const rollouts = new Rollouts(byId("rollouts"), () => changed());
const result = new Result(byId("result-one"), { show, take, copied });
const group = new Group(byId("result-group"), { explain, copied });
const permalink = new Permalink(stateNow);
let settings = null;
let view = "one";
let pending = null;

const loops = {
  one: loopOf("v1/explain", explainRequest, (answer, request) => {
    result.update(answer, request, Boolean(service.key));
    const { reward, reason } = answer.body;
    status.say(`Reward ${figure(reward)}, ${words(reason)}.`);
    status.glance(make("strong", {}, figure(reward)), badge(reason));
  }),
  group: loopOf("v1/score", groupRequest, (answer, request) => {
    group.update(answer, request, Boolean(service.key));
    const { rewards, reasons } = answer.body;
    const range = `rewards from ${figure(Math.min(...rewards))} to ${figure(Math.max(...rewards))}`;
    status.say(`${rewards.length} rollouts, ${range}.`);
    status.glance(`${rewards.length} rollouts, ${range}`);
    rollouts.annotate(rewards, reasons);
  }),
};

/** Returns a loop that calls `path`; the marks let a test measure how long it takes to show a reply. */
function loopOf(path, read, show) {
  return new Loop({
    read,
    ask: (request) => service.call(path, request),
    show: (answer, request) => {
      performance.mark("assay:reply");
      blame([]);
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
  result.undo.replaceChildren();
  changed();
}

/** Called on any change: sends the input after `pause` milliseconds. */
function changed(pause) {
  status.waiting();
  byId("settings-count").textContent = settings?.count ? `${settings.count} changed` : "";
  loops[view].touch(pause);
}

/** Shows errors at the fields that they name, and all others in the banner. */
function fail(error) {
  const errors = error.problem?.errors ?? [];
  const left = blame(errors);
  if (error.status === 401) {
    byId("access").open = true;
    byId("access-state").textContent = service.key ? "not accepted" : "required";
    if (document.activeElement === document.body) byId("key").focus();
  }
  status.failed(error, left);
}

/** Shows errors at their fields and returns those without a field. */
function blame(errors) {
  const ours = { response, reference, "references[0]": reference };
  const left = [];
  const complaints = new Map([
    [response, []],
    [reference, []],
  ]);
  for (const { path, detail } of errors) {
    const target = ours[path] ?? (path.startsWith("reference") ? reference : null);
    if (target) complaints.get(target).push(detail);
    else if (!path.startsWith("config.") || !settings?.blame(path.slice(7), detail)) left.push(`${path}: ${detail}`);
    else byId("settings").open = true;
  }
  for (const [target, details] of complaints) target.blame(details.join("; "));
  if (!errors.length) settings?.unblame();
  return left;
}

/** Selects a part of the response and scrolls to it. */
function show({ utf16: [first, after] }) {
  const { control } = response;
  control.focus();
  control.setSelectionRange(first, after);
  const lines = control.value.slice(0, first).split("\n").length - 1;
  control.scrollTop = Math.max(0, (lines - 3) * parseFloat(getComputedStyle(control).lineHeight));
  control.scrollIntoView({ block: "nearest" });
}

/** Applies a suggestion; it can be undone once. */
function take({ response: text, config, text: said }) {
  const before = { response: response.text, config: settings.overrides };
  typed();
  if (text !== null) response.text = text;
  settings.set({ ...settings.effective, ...config });
  const undo = make(
    "button",
    {
      type: "button",
      click: () => {
        response.text = before.response;
        settings.set({ ...settings.defaults, ...before.config });
        typed();
        result.suggestions.querySelector("button")?.focus();
      },
    },
    "Undo",
  );
  result.undo.replaceChildren(make("p", {}, `Applied: ${said}`), undo);
  undo.focus();
  changed(0);
}

function explain(index) {
  response.text = rollouts.texts[index];
  setView("one");
  typed();
  byId("result").focus();
}

function copied(done) {
  status.note(done ? "Copied." : "The browser does not allow copying: select the text instead.");
}

function setView(name) {
  loops[view].rest();
  view = name;
  for (const radio of document.querySelectorAll("input[name=view]")) radio.checked = radio.value === name;
  for (const part of ["input", "result"]) {
    byId(`${part}-one`).hidden = name !== "one";
    byId(`${part}-group`).hidden = name !== "group";
  }
}

function stateNow() {
  const config = settings?.overrides ?? {};
  return { view, response: response.text, reference: reference.text, config, rollouts: rollouts.texts };
}

function restore(state) {
  pending = state.config;
  response.text = state.response;
  reference.text = state.reference;
  rollouts.set(state.rollouts);
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
    const example = EXAMPLES[select.value];
    response.text = example.response;
    reference.text = example.reference;
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
      rollouts.set(imported(bulk.text));
      bulk.text = "";
      changed(0);
    } catch (error) {
      bulk.blame(error.message);
    }
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
  byId("link").addEventListener("click", async () => status.note(await permalink.copy()));
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
  if (!rollouts.add(text, true)) status.note("This is the maximum number of rollouts.");
  rollouts.fields.at(-1).control.focus();
  changed(0);
}

wire();
const linked = await stateOf(location.hash);
restore(linked ?? { view: "one", ...EXAMPLES[1], config: {}, rollouts: GROUP });
byId("example").value = linked ? "" : "1";
start.touch(0);
