// REST calls with the session cookie and the CSRF token. A failed call throws ApiError with a sentence.

export class ApiError extends Error {
  constructor(status, detail, body) {
    super(detail);
    this.status = status;
    this.body = body;
  }
}

function cookie(name) {
  const found = document.cookie.split("; ").find((part) => part.startsWith(`${name}=`));
  return found ? decodeURIComponent(found.slice(name.length + 1)) : "";
}

function sentence(status, body) {
  if (body && typeof body.detail === "string") return body.detail;
  if (body && typeof body === "object") {
    const parts = Object.entries(body).map(([field, problem]) => {
      const text = Array.isArray(problem) ? problem.join(" ") : String(problem);
      return field === "non_field_errors" ? text : `${field}: ${text}`;
    });
    if (parts.length) return parts.join("; ");
  }
  return `The server answered ${status}.`;
}

/** api("GET", "/api/workers/") or api("POST", url, {json}) or api("POST", url, formData). Returns the JSON. */
export async function api(method, url, body, { signal } = {}) {
  const headers = { Accept: "application/json" };
  if (!["GET", "HEAD"].includes(method)) headers["X-CSRFToken"] = cookie("csrftoken");
  let payload = body;
  if (body !== undefined && !(body instanceof FormData)) {
    headers["Content-Type"] = "application/json";
    payload = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(url, { method, headers, body: payload, signal, credentials: "same-origin" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The server does not answer.", null);
  }
  const text = await response.text();
  let data = null;
  try {
    data = text ? JSON.parse(text) : null;
  } catch {
    data = null;
  }
  if (!response.ok) throw new ApiError(response.status, sentence(response.status, data), data);
  return data;
}
