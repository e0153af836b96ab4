/** Our REST API from a page: same origin, session cookie, CSRF header on whatever changes something. */

/** An answer that was not 2xx. `detail` is a sentence for the reader; `body` the parsed answer where it was JSON. */
export class ApiError extends Error {
  constructor(status, detail, body) {
    super(detail);
    this.status = status;
    this.detail = detail;
    this.body = body;
  }
}

/** GET JSON. Raises ApiError. */
export function get(url) {
  return call("GET", url);
}

/** POST JSON. Raises ApiError. */
export function post(url, body = {}) {
  return call("POST", url, body);
}

/** PATCH JSON. Raises ApiError; status 409 carries the newer version in `body.current`. */
export function patch(url, body) {
  return call("PATCH", url, body);
}

/** Every row of a paginated list, page after page, at most `limit` of them. */
export async function getAll(url, limit = 2000) {
  const rows = [];
  let next = url;
  while (next && rows.length < limit) {
    const page = await get(next);
    if (Array.isArray(page)) return page;
    rows.push(...page.results);
    next = page.next && new URL(page.next, location.href).pathname + new URL(page.next, location.href).search;
  }
  return rows;
}

async function call(method, url, body) {
  const headers = { Accept: "application/json" };
  if (body !== undefined) {
    headers["Content-Type"] = "application/json";
    headers["X-CSRFToken"] = cookie("csrftoken");
  }
  let answer;
  try {
    answer = await fetch(url, {
      method,
      headers,
      credentials: "same-origin",
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new ApiError(0, "The server does not answer.", null);
  }
  const text = await answer.text();
  const data = parse(text);
  if (!answer.ok) throw new ApiError(answer.status, sentence(data, answer.status), data);
  return data;
}

function parse(text) {
  try {
    return text ? JSON.parse(text) : null;
  } catch {
    return null;
  }
}

function sentence(data, status) {
  if (data && typeof data.detail === "string") return data.detail;
  if (data && typeof data === "object") {
    const parts = Object.entries(data).map(([name, problem]) => `${name}: ${[problem].flat().join(" ")}`);
    if (parts.length) return parts.join(" ");
  }
  if (status === 401 || status === 403) return "You may not do this; your session may have ended.";
  return `The server answered with status ${status}.`;
}

function cookie(name) {
  const found = document.cookie.split("; ").find((part) => part.startsWith(`${name}=`));
  return found ? decodeURIComponent(found.slice(name.length + 1)) : "";
}
