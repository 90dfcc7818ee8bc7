/** Calls to the service: its answers, its problem documents, and whether it answers at all. */

/** The service refused: a problem document (RFC 9457). */
export class Refused extends Error {
  constructor(status, problem, retryAfter) {
    super(problem.detail || problem.title || `status ${status}`);
    this.status = status;
    this.problem = problem;
    this.retryAfter = retryAfter;
  }

  /** Whether the same request may well succeed a little later. */
  get passing() {
    return [429, 502, 503, 504].includes(this.status);
  }
}

/** Nobody answered. */
export class Unreachable extends Error {
  passing = true;
}

const PATIENCE = 40_000;

export class Service {
  constructor() {
    this.key = "";
    this.credentials = "omit"; // so that the browser does not ask for a key itself where Assay wants one
  }

  /** The reply to a request as { body, text, milliseconds }; raises Refused or Unreachable. */
  async call(path, request) {
    const headers = { Accept: "application/json" };
    if (request) headers["Content-Type"] = "application/json";
    if (this.key) headers.Authorization = `Bearer ${this.key}`;
    const options = {
      method: request ? "POST" : "GET",
      headers,
      body: request && JSON.stringify(request),
      credentials: this.credentials,
      cache: "no-store",
      signal: AbortSignal.timeout(PATIENCE),
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
      this.credentials = "same-origin"; // something before Assay wants to know who asks: show it its cookie
      return this.call(path, request);
    }
    if (!reply.ok || body === undefined) {
      throw new Refused(reply.status, body ?? {}, Number(reply.headers.get("Retry-After")) || 0);
    }
    return { body, text, milliseconds: performance.now() - started };
  }
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** A reference as the service takes it: steps where the text is an object with steps. */
export function referenceOf(text) {
  if (!text.trimStart().startsWith("{")) return text;
  try {
    const value = JSON.parse(text);
    return Array.isArray(value?.steps) ? value : text;
  } catch {
    return text;
  }
}
