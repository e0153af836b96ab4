/** Short names for the REST calls of the live pages. */

import { api } from "../api.js";

export const get = (url) => api("GET", url);
export const post = (url, body = {}) => api("POST", url, body);
export const patch = (url, body) => api("PATCH", url, body);

/** Every row of a paginated list, page after page, until `limit` rows. */
export async function getAll(url, limit = 2000) {
  const rows = [];
  let next = url;
  while (next && rows.length < limit) {
    const page = await get(next);
    if (Array.isArray(page)) return page;
    rows.push(...page.results);
    next = page.next && pathOf(page.next);
  }
  return rows;
}

function pathOf(url) {
  const { pathname, search } = new URL(url, location.href);
  return pathname + search;
}
