/** How things stand between the page and its service, for eyes and for screen readers. */

import { byId, figure, make } from "./dom.js";

const SPOKEN_AFTER = 700;
const NOTE_FOR = 3000;
const SLOW = 300;

const SENTENCES = {
  401: "This service wants a key: give it under “Key”.",
  413: "That is more than the service takes in one request.",
  429: "The service has more to do than it can; trying again.",
  503: "The service is not ready yet; trying again.",
  504: "The service took too long; trying again.",
};

export class Status {
  constructor() {
    this.slow = 0;
    this.spoken = 0;
    this.gone = 0;
    this.trouble = false;
    this.seen = new Set();
  }

  /** Sets the light and the words beside it. */
  light(state, text) {
    byId("connection").dataset.state = state;
    if (byId("connection-text").textContent !== text) byId("connection-text").textContent = text;
  }

  /** The fields have changed, an answer is on its way. */
  waiting() {
    this.current("soon");
  }

  /** What is shown belongs to an older input, and nothing is on its way. */
  outdated() {
    this.current("no");
  }

  current(state) {
    const { dataset } = byId("result");
    dataset.current = state;
    if (state === "yes") dataset.shown = "yes";
    byId("stale").hidden = state !== "no";
    byId("stale").textContent = dataset.shown ? "What follows belongs to an earlier input." : "There is no result yet.";
  }

  busy(flag) {
    clearTimeout(this.slow);
    if (flag && !this.trouble) this.slow = setTimeout(() => this.light("busy", "Scoring …"), SLOW);
  }

  /** A good answer is on the page. */
  fresh(milliseconds) {
    if (this.trouble) this.note("The service answers again.");
    this.trouble = false;
    this.banner("");
    this.current("yes");
    this.light("ready", `${figure(milliseconds, milliseconds < 10 ? 1 : 0)} ms`);
  }

  /** The gist of the result, for where the result itself is out of sight. */
  glance(...parts) {
    byId("glance").replaceChildren(...parts, make("span", { class: "hint" }, "See why"));
    byId("glance").hidden = this.seen.size > 0;
  }

  /** Shows the gist while none of these elements is to be seen. */
  follow(elements) {
    const observer = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) this.seen[isIntersecting ? "add" : "delete"](target);
      byId("glance").hidden = this.seen.size > 0 || !byId("glance").childElementCount;
    });
    elements.forEach((element) => observer.observe(element));
  }

  /** The service refused or is silent; `left` are complaints that belong to no field. */
  failed(error, left) {
    this.outdated();
    if (error.status === undefined) {
      this.trouble = true;
      this.light("away", "No answer");
      this.banner("The service does not answer. Below is its last answer; trying again until it is back.");
    } else {
      this.trouble = error.passing;
      this.light(error.passing ? "away" : "refused", error.passing ? "Not ready" : "Refused");
      const known = SENTENCES[error.status] ?? (error.problem.errors?.length && !left.length ? "" : error.message);
      this.banner([known, ...left].filter(Boolean).join(" "));
    }
    const marked = document.querySelectorAll(".inputs [aria-invalid=true]").length;
    if (marked) this.say("The input has a fault: no reward.");
  }

  banner(text) {
    const banner = byId("banner");
    if (banner.textContent !== text) banner.textContent = text;
    banner.hidden = !text;
  }

  /** Said by screen readers once typing has come to rest. */
  say(text) {
    clearTimeout(this.spoken);
    this.spoken = setTimeout(() => {
      byId("live").textContent = text;
    }, SPOKEN_AFTER);
  }

  /** A short note for everybody, gone after a moment. */
  note(text) {
    clearTimeout(this.gone);
    byId("note").textContent = text;
    this.gone = setTimeout(() => {
      byId("note").textContent = "";
    }, NOTE_FOR);
  }
}
