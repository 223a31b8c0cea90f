// Words of scripts in the page's language. `window.words` is the catalogue of that language, which a
// script before this one sets (ragsite/languages.py); without one, English.

const { catalogue = {}, plural } = window.words ?? {};

/** Whole sentences, as literals: `scripts/words` finds them by the name of this function. */
export const gettext = (words) => {
  const found = catalogue[words];
  return (Array.isArray(found) ? found[0] : found) || words;
};

export const ngettext = (one, many, count) =>
  catalogue[one]?.[plural(count)] || (count === 1 ? one : many);

/** Fills `%(name)s` places. */
export const fill = (words, values) =>
  words.replace(/%\((\w+)\)s/g, (whole, name) => String(values[name] ?? whole));

/** A number as the page's language writes it, with the digits 0 to 9 as on the server's pages. */
export const number = (value) => value.toLocaleString(`${document.documentElement.lang}-u-nu-latn`);
