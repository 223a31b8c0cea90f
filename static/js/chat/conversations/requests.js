// What is asked of the site; a refusal is said in words.

import { gettext } from "../../i18n.js";

export class Requests {
  constructor(refuse) {
    this.refuse = refuse;
  }

  /** The text of a part of the page; null where it cannot be had. */
  get(url) {
    return this.#send(url, {});
  }

  /** The text answered; null where it was refused, which has been said. */
  post(url, values = {}, refuse = this.refuse) {
    return this.#send(url, { method: "POST", body: new URLSearchParams(values) }, refuse);
  }

  async #send(url, options, refuse = this.refuse) {
    const headers = {
      ...JSON.parse(document.body.getAttribute("hx-headers")),
      "HX-Request": "true",
    };
    const response = await fetch(url, { ...options, headers, redirect: "error" }).catch(() => null);
    if (response?.ok) return response.text();
    refuse(await wordsOf(response));
    return null;
  }
}

async function wordsOf(response) {
  if (!response) return gettext("That did not arrive. Check the connection and try again.");
  if (response.status === 404) return gettext("That is no longer there.");
  if (response.status === 400) return response.text();
  return gettext("That did not work. Try again.");
}
