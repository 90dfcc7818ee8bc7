/** Keeps an answer up to date with an input that changes all the time. */

const PAUSE = 120;
const FIRST_WAIT = 500;
const LONGEST_WAIT = 5000;

/**
 * After a short pause in typing, asks for what the input then is. One request is under way at a time; an answer to an
 * input that has changed meanwhile is dropped, and the newest input asked for. Failures that pass are tried again, at
 * growing distances.
 */
export class Loop {
  /**
   * `read()` gives the input, or null where there is nothing to ask; `ask(input)` promises the answer;
   * `show(answer, input)` and `fail(error)` take the outcome; `busy(flag)` hears when a request begins and ends.
   */
  constructor({ read, ask, show, fail, busy = () => {} }) {
    Object.assign(this, { read, ask, show, fail, busy });
    this.version = 0;
    this.flying = false;
    this.failures = 0;
    this.due = false;
    this.timer = 0;
  }

  /** The input has changed. */
  touch(pause = PAUSE) {
    this.version += 1;
    this.after(pause);
  }

  /** Nobody looks any more: what is under way is dropped. */
  rest() {
    this.version += 1;
    this.failures = 0;
    this.due = false;
    clearTimeout(this.timer);
  }

  /** Try at once what failed a moment ago. */
  hurry() {
    if (this.failures) this.after(0);
  }

  after(milliseconds) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.run(), milliseconds);
  }

  async run() {
    this.due = this.flying; // while a request is under way: go on with the newest input once it is back
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
    const wait = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** this.failures);
    this.failures += 1;
    this.after(Math.max(wait, Math.min(LONGEST_WAIT, 1000 * (error.retryAfter ?? 0))));
    this.fail(error);
  }
}
