// As much Markdown as models write in chats, straight to elements: nothing is ever parsed as HTML. Whatever it does not
// know stays as text, and half-written input (a stream) is always shown.

import { memo, type ReactNode } from 'react';

const INLINE = /(`[^`\n]+`)|(\*\*[^*\n]+\*\*)|(\*[^*\s][^*\n]*\*)|\[([^\]\n]+)\]\((https?:\/\/[^\s)]+)\)|(https?:\/\/[^\s<>)]+[^\s<>).,;:!?])/g;

function inline(text: string): ReactNode[] {
  const out: ReactNode[] = [];
  let from = 0;
  for (const found of text.matchAll(INLINE)) {
    const [all, code, strong, emphasis, label, href, url] = found;
    if (found.index > from) out.push(text.slice(from, found.index));
    const key = found.index;
    if (code) out.push(<code key={key}>{code.slice(1, -1)}</code>);
    else if (strong) out.push(<strong key={key}>{inline(strong.slice(2, -2))}</strong>);
    else if (emphasis) out.push(<em key={key}>{inline(emphasis.slice(1, -1))}</em>);
    else out.push(<Link key={key} href={href ?? url ?? ''} label={label ?? url ?? ''} />);
    from = found.index + all.length;
  }
  if (from < text.length) out.push(text.slice(from));
  return out;
}

function Link({ href, label }: { href: string; label: string }) {
  return (
    <a href={href} target="_blank" rel="noreferrer noopener">
      {label}
    </a>
  );
}

interface Block {
  kind: 'text' | 'code' | 'ul' | 'ol' | 'quote' | 'heading';
  lines: string[];
}

const MARKS: [Block['kind'], RegExp][] = [
  ['heading', /^#{1,6}\s+/],
  ['ul', /^\s*[-*+]\s+/],
  ['ol', /^\s*\d+[.)]\s+/],
  ['quote', /^>\s?/],
];

function blocks(text: string): Block[] {
  const out: Block[] = [];
  let current: Block | undefined;
  for (const line of text.split('\n')) {
    const fence = /^\s*```/.test(line);
    if (current?.kind === 'code') {
      if (fence) current = undefined;
      else current.lines.push(line);
      continue;
    }
    const [kind, mark] = MARKS.find(([, pattern]) => pattern.test(line)) ?? (['text', undefined] as const);
    if (fence) out.push((current = { kind: 'code', lines: [] }));
    else if (!line.trim()) current = undefined;
    else if (current?.kind === kind && kind !== 'heading') current.lines.push(mark ? line.replace(mark, '') : line);
    // a line that goes on below an item belongs to it
    else if (kind === 'text' && (current?.kind === 'ul' || current?.kind === 'ol')) current.lines.push(`${current.lines.pop()}\n${line.trim()}`);
    else out.push((current = { kind, lines: [mark ? line.replace(mark, '') : line] }));
  }
  return out;
}

function draw({ kind, lines }: Block, key: number): ReactNode {
  const items = () => lines.map((line, index) => <li key={index}>{inline(line)}</li>);
  switch (kind) {
    case 'code':
      return (
        <pre key={key} tabIndex={0}>
          <code>{lines.join('\n')}</code>
        </pre>
      );
    case 'ul':
      return <ul key={key}>{items()}</ul>;
    case 'ol':
      return <ol key={key}>{items()}</ol>;
    case 'quote':
      return <blockquote key={key}>{inline(lines.join('\n'))}</blockquote>;
    case 'heading':
      return <h3 key={key}>{inline(lines.join(' '))}</h3>;
    case 'text':
      return <p key={key}>{inline(lines.join('\n'))}</p>;
  }
}

export const Markdown = memo(function Markdown({ text }: { text: string }) {
  return <div className="prose">{blocks(text).map(draw)}</div>;
});
