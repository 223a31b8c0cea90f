// Files out of a drop or a picker, folders and all: [{ file, path }].

const LEFT_OUT = /^(\.|~\$|thumbs\.db$|desktop\.ini$)/i; // what systems and editors leave about

/** Entries must be asked for while the drop is being handled: call this without awaiting first. */
export function entriesOf(transfer) {
  const entries = [...transfer.items]
    .filter((item) => item.kind === "file")
    .map((item) => item.webkitGetAsEntry?.());
  return entries.some(Boolean) ? entries.filter(Boolean) : null;
}

/** Walks into folders; `found` is told now and then how many files there are so far. */
export async function filesOf(entries, found) {
  const taken = [];
  const walk = async (entry) => {
    if (LEFT_OUT.test(entry.name)) return;
    if (entry.isDirectory) {
      for (const child of await childrenOf(entry)) await walk(child);
    } else {
      taken.push(await pick(entry));
      if (taken.length % 100 === 0) found(taken.length);
    }
  };
  for (const entry of entries) await walk(entry);
  return taken;
}

/** What a picker gave; files of a folder know their place in it. */
export function filesOfInput(files) {
  return [...files]
    .map((file) => ({ file, path: file.webkitRelativePath || file.name }))
    .filter(({ path }) => !path.split("/").some((part) => LEFT_OUT.test(part)));
}

async function childrenOf(folder) {
  const reader = folder.createReader();
  const children = [];
  for (;;) {
    // A hundred at a time, until none is left.
    const some = await new Promise((resolve) => reader.readEntries(resolve, () => resolve([])));
    if (!some.length) return children;
    children.push(...some);
  }
}

function pick(entry) {
  const path = entry.fullPath.replace(/^\//, "");
  return new Promise((resolve) =>
    entry.file(
      (file) => resolve({ file, path }),
      () => resolve({ file: null, path, problem: "The browser could not open this file." }),
    ),
  );
}
