// Words of scripts in the page's language. The catalogue is loaded before; without one, English.

export const gettext = (words) => window.gettext?.(words) ?? words;

export const ngettext = (one, many, count) =>
  window.ngettext?.(one, many, count) ?? (count === 1 ? one : many);

/** Fills `%(name)s` places. */
export const fill = (words, values) =>
  words.replace(/%\((\w+)\)s/g, (whole, name) => String(values[name] ?? whole));
