/** Keeps an answer up to date with a changing input. */

const PAUSE = 120;
const FIRST_WAIT = 500;
const MAX_WAIT = 5000;

/**
 * Sends the input after a short pause in typing. At most one request is in flight; an answer to an outdated input is
 * dropped, and the newest input is sent. Temporary failures are retried with exponential backoff.
 */
export class Loop {
  /**
   * `read()` returns the input, or null if there is nothing to send; `ask(input)` returns a promise of the answer;
   * `show(answer, input)` and `fail(error)` receive the outcome; `busy(flag)` is called when a request begins and ends.
   */
  constructor({ read, ask, show, fail, busy = () => {} }) {
    Object.assign(this, { read, ask, show, fail, busy });
    this.version = 0;
    this.flying = false;
    this.failures = 0;
    this.due = false;
    this.timer = 0;
  }

  /** Called when the input has changed. */
  touch(pause = PAUSE) {
    this.version += 1;
    this.after(pause);
  }

  /** Drops pending work when the view is hidden. */
  rest() {
    this.version += 1;
    this.failures = 0;
    this.due = false;
    clearTimeout(this.timer);
  }

  /** Retries a failed request immediately. */
  hurry() {
    if (this.failures) this.after(0);
  }

  after(milliseconds) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.run(), milliseconds);
  }

  async run() {
    this.due = this.flying; // a request is in flight: continue with the newest input afterwards
    const input = this.flying ? null : this.read();
    if (input === null) return;
    const asked = this.version;
    this.flying = true;
    this.busy(true);
    const [answer, error] = await this.ask(input).then(
      (found) => [found, null],
      (problem) => [null, problem],
    );
    this.flying = false;
    this.busy(false);
    if (error?.passing && (this.due || asked === this.version)) {
      this.again(error);
    } else {
      this.failures = 0;
      if (this.due) this.after(0);
      if (asked === this.version) error ? this.fail(error) : this.show(answer, input);
    }
  }

  again(error) {
    const wait = Math.min(MAX_WAIT, FIRST_WAIT * 2 ** this.failures);
    const asked = Math.min(MAX_WAIT, 1000 * (error.retryAfter ?? 0));
    this.failures += 1;
    this.after(error.status === 503 && asked ? asked : Math.max(wait, asked)); // 503 reports progress: no longer waits
    this.fail(error);
  }
}
