// Names of keys, as the characters that a terminal sends for them.

const NAMED: Readonly<Record<string, string>> = {
  enter: "\r",
  return: "\r",
  tab: "\t",
  esc: "\x1b",
  escape: "\x1b",
  space: " ",
  backspace: "\x7f",
  bspace: "\x7f",
  delete: "\x1b[3~",
  insert: "\x1b[2~",
  up: "\x1b[A",
  down: "\x1b[B",
  right: "\x1b[C",
  left: "\x1b[D",
  home: "\x1b[H",
  end: "\x1b[F",
  pageup: "\x1b[5~",
  pagedown: "\x1b[6~",
  f1: "\x1bOP",
  f2: "\x1bOQ",
  f3: "\x1bOR",
  f4: "\x1bOS",
  f5: "\x1b[15~",
  f6: "\x1b[17~",
  f7: "\x1b[18~",
  f8: "\x1b[19~",
  f9: "\x1b[20~",
  f10: "\x1b[21~",
  f11: "\x1b[23~",
  f12: "\x1b[24~",
};

/** What a key sends: a name (`Enter`, `Ctrl-C`, `C-c`, `Alt-x`), or the text itself. */
export function typed(key: string): string {
  const name = key.toLowerCase();
  const named = Object.hasOwn(NAMED, name) ? NAMED[name] : undefined;
  if (named !== undefined) return named;
  const control = /^(?:ctrl-|ctrl\+|c-)([a-z@[\\\]^_ ])$/.exec(name);
  if (control?.[1] !== undefined) return String.fromCharCode(control[1].toUpperCase().charCodeAt(0) & 0x1f);
  const alt = /^(?:alt-|alt\+|m-)(.+)$/i.exec(key);
  if (alt?.[1] !== undefined) return `\x1b${typed(alt[1])}`;
  return key;
}
