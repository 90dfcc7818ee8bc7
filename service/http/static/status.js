/** The status of the connection and the result, for the page and for screen readers. */

import { byId, fixed, make } from "./dom.js";

const SPOKEN_AFTER = 700;
const NOTE_FOR = 3000;
const SLOW = 300;

const SENTENCES = {
  401: "This service requires a key: enter it under “API key”.",
  413: "The request is larger than the service accepts.",
  429: "The service is overloaded; retrying.",
  503: "The service is not ready yet; retrying.",
  504: "The service took too long; retrying.",
};

/** What is called how where it has an error. */
const NAMES = { response: "response", reference: "reference", key: "key" };

export class Status {
  constructor() {
    this.slow = 0;
    this.spoken = 0;
    this.gone = 0;
    this.trouble = false;
    this.seen = new Set();
  }

  /** Sets the indicator and its text. */
  light(state, text) {
    byId("connection").dataset.state = state;
    if (byId("connection-text").textContent !== text) byId("connection-text").textContent = text;
  }

  /** The input has changed, and an answer is pending. */
  waiting() {
    this.current("soon");
  }

  /** The result belongs to an older input, and no answer is pending. */
  outdated() {
    this.current("no");
  }

  current(state) {
    const { dataset } = byId("result");
    dataset.current = state;
    if (state === "yes") dataset.shown = "yes";
    byId("stale").hidden = state !== "no";
    const faulty = document.querySelector(".inputs [aria-invalid=true]");
    const fix = faulty ? ` Fix the ${NAMES[faulty.id] ?? "settings"} to update it.` : "";
    byId("stale").textContent = dataset.shown ? `Showing the last valid result.${fix}` : "There is no result yet.";
  }

  busy(flag) {
    clearTimeout(this.slow);
    if (flag && !this.trouble) this.slow = setTimeout(() => this.light("busy", "Scoring …"), SLOW);
  }

  /** The page shows a valid answer. */
  fresh(milliseconds) {
    if (this.trouble) this.note("The service is available again.");
    this.trouble = false;
    this.banner("");
    this.preparing("");
    this.current("yes");
    this.light("ready", `${fixed(milliseconds, 0)} ms`);
  }

  /** A summary of the result, shown while the result is out of view. */
  glance(...parts) {
    byId("glance").replaceChildren(...parts, make("span", { class: "hint" }, "See why"));
    byId("glance").hidden = this.seen.size > 0;
  }

  /** Shows the summary while none of these elements is visible. */
  follow(elements) {
    const observer = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) this.seen[isIntersecting ? "add" : "delete"](target);
      byId("glance").hidden = this.seen.size > 0 || !byId("glance").childElementCount;
    });
    elements.forEach((element) => observer.observe(element));
  }

  /** The service refused the request or did not reply; `left` are errors without a field. */
  failed(error, left) {
    this.outdated();
    if (error.status === undefined) {
      this.trouble = true;
      this.light("away", "No answer");
      this.banner("The service does not answer. Showing its last answer; retrying.");
    } else {
      this.trouble = error.passing;
      this.light(error.passing ? "away" : "refused", error.passing ? "Not ready" : "Refused");
      const known = SENTENCES[error.status] ?? (error.problem.errors?.length && !left.length ? "" : error.message);
      this.banner([known, ...left].filter(Boolean).join(" "));
      this.preparing(error.status === 503 ? error.message : "");
    }
    const marked = document.querySelectorAll(".inputs [aria-invalid=true]").length;
    if (marked) this.say("The input has an error: no reward.");
  }

  /** Shows how far the service's preparation is: a sentence such as "Compiling kernels: 7 of 19." */
  preparing(text) {
    const [, done, all] = text.match(/(\d+) of (\d+)/) ?? [];
    byId("progress").hidden = !text;
    byId("progress-text").textContent = text;
    byId("progress-bar").hidden = !all;
    byId("progress-bar").max = Number(all ?? 1);
    byId("progress-bar").value = Number(done ?? 0);
  }

  banner(text) {
    const banner = byId("banner");
    if (banner.textContent !== text) banner.textContent = text;
    banner.hidden = !text;
  }

  /** Announces a text to screen readers after a pause in typing. */
  say(text) {
    clearTimeout(this.spoken);
    this.spoken = setTimeout(() => {
      byId("live").textContent = text;
    }, SPOKEN_AFTER);
  }

  /** Shows a short note for a moment. */
  note(text) {
    clearTimeout(this.gone);
    byId("note").textContent = text;
    this.gone = setTimeout(() => {
      byId("note").textContent = "";
    }, NOTE_FOR);
  }
}
