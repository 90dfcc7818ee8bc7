/** Calls to the service: replies, problem documents, and connection failures. */

/** The service refused the request: a problem document (RFC 9457). */
export class Refused extends Error {
  constructor(status, problem, retryAfter) {
    super(problem.detail || problem.title || `status ${status}`);
    this.status = status;
    this.problem = problem;
    this.retryAfter = retryAfter;
  }

  /** Whether the same request may succeed later. */
  get passing() {
    return [429, 502, 503, 504].includes(this.status);
  }
}

/** There was no reply. */
export class Unreachable extends Error {
  passing = true;
}

const TIMEOUT = 40_000;
const PROBE = { response: "", reference: 'Step 1: {"action": "add", "objects": [], "parameters": []}', suggestions: 0 };

export class Service {
  constructor() {
    this.key = "";
    this.ranges = new Map();
    this.credentials = "omit"; // so that the browser does not prompt for a key if Assay requires one
  }

  /**
   * Returns the reply to a request as { body, text, milliseconds }; throws Refused or Unreachable. `signal` ends a call
   * whose reply is not wanted any more.
   */
  async call(path, request, signal) {
    const headers = { Accept: "application/json" };
    if (request) headers["Content-Type"] = "application/json";
    if (this.key) headers.Authorization = `Bearer ${this.key}`;
    const options = {
      method: request ? "POST" : "GET",
      headers,
      body: request && JSON.stringify(request),
      credentials: this.credentials,
      cache: "no-store",
      signal: signal ? AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT)]) : AbortSignal.timeout(TIMEOUT),
    };
    const started = performance.now();
    let reply;
    let text;
    try {
      reply = await fetch(path, options);
      text = await reply.text();
    } catch {
      throw new Unreachable("The service does not answer.");
    }
    const body = parsed(text);
    if (body === undefined && this.credentials === "omit" && reply.status !== 200) {
      this.credentials = "same-origin"; // a proxy in front of Assay requires authentication: send its cookie
      return this.call(path, request, signal);
    }
    if (!reply.ok || body === undefined) {
      throw new Refused(reply.status, body ?? {}, Number(reply.headers.get("Retry-After")) || 0);
    }
    return { body, text, milliseconds: performance.now() - started };
  }

  /** Returns the reply to a group's request, with the `range` of all rewards under its settings: [least, largest]. */
  async scoreGroup(request) {
    const key = JSON.stringify(request.config);
    if (!this.ranges.has(key)) {
      const { body } = await this.call("v1/explain", { ...PROBE, config: request.config });
      this.ranges.set(key, [body.smallest_reward, body.largest_reward]);
    }
    return { ...(await this.call("v1/score", request)), range: this.ranges.get(key) };
  }
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Returns a reference as the service expects it: an object if the text is JSON with steps or any_of. */
export function referenceOf(text) {
  if (!text.trimStart().startsWith("{")) return text;
  try {
    const value = JSON.parse(text);
    return Array.isArray(value?.steps ?? value?.any_of) ? value : text;
  } catch {
    return text;
  }
}
