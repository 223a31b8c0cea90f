// A title becomes a field where it stands: Enter saves, Escape leaves it as it was.

import { gettext } from "../../i18n.js";

export function renameInPlace(row, { hold, save }) {
  const link = row.querySelector("a");
  const field = document.createElement("input");
  Object.assign(field, { className: "rename-field", value: row.dataset.title, maxLength: 80 });
  field.dir = "auto";
  field.setAttribute("aria-label", gettext("Title of the conversation"));
  let over = false;

  async function end({ keep, focus }) {
    if (over) return;
    over = true;
    const title = field.value.trim();
    link.hidden = false;
    field.remove();
    if (focus) link.focus();
    hold(false);
    if (keep && title && title !== row.dataset.title) await save(title);
  }

  field.addEventListener("keydown", (event) => {
    if (event.isComposing || !["Enter", "Escape"].includes(event.key)) return;
    event.preventDefault();
    event.stopPropagation();
    end({ keep: event.key === "Enter", focus: true });
  });
  field.addEventListener("blur", () => end({ keep: true, focus: false }));
  hold(true);
  link.hidden = true;
  link.before(field);
  field.focus();
  field.select();
}
