// A call that one can only watch: its state, what it was given and what came of it.

import { Icon, type IconName } from './icons.tsx';
import type { Part } from './tool-part.tsx';
import type { Progress } from './use-agent.ts';

interface State {
  word: string;
  tone: 'busy' | 'good' | 'bad' | 'still';
}

function stateOf(part: Part, live: boolean): State {
  switch (part.state) {
    case 'input-streaming':
      return { word: 'preparing', tone: 'busy' };
    case 'input-available':
      return { word: 'running', tone: 'busy' };
    case 'approval-requested':
      return { word: 'waits for approval', tone: 'still' };
    case 'approval-responded':
      if (!part.approval.approved) return { word: 'denied', tone: 'still' };
      return live ? { word: 'approved, running', tone: 'busy' } : { word: 'approved', tone: 'good' };
    case 'output-available':
      return { word: part.preliminary ? 'running' : 'done', tone: part.preliminary ? 'busy' : 'good' };
    case 'output-error':
      return { word: 'failed', tone: 'bad' };
    case 'output-denied':
      return { word: 'denied', tone: 'still' };
  }
}

const ICONS: Record<State['tone'], IconName | undefined> = { busy: undefined, good: 'check', bad: 'warning', still: 'cross' };

export function ToolCard({ part, name, live, progress }: { part: Part; name: string; live: boolean; progress?: Progress | undefined }) {
  const { word, tone } = stateOf(part, live);
  const icon = ICONS[tone];
  const failed = part.state === 'output-error' ? part.errorText : undefined;
  const reason = 'approval' in part ? part.approval?.reason : undefined;
  return (
    <details className={`tool ${tone}`} data-tool={name} data-state={part.state}>
      <summary>
        <span className="mark">{icon ? <Icon name={icon} /> : <span className="spinner" aria-hidden="true" />}</span>
        <span className="what">
          <b className="mono">{name}</b> <span className="brief">{brief(part.input)}</span>
        </span>
        <span className="word">{word}</span>
        {failed && <span className="below">{failed}</span>}
        {reason && <span className="below">“{reason}”</span>}
        {tone === 'busy' && progress?.text && <span className="below mono">{progress.text}</span>}
        {part.state === 'output-available' && <span className="below mono one-line">{compact(part.output)}</span>}
      </summary>
      <Json label="Input" value={part.input} />
      {part.state === 'output-available' && <Json label="Output" value={part.output} />}
    </details>
  );
}

function Json({ label, value }: { label: string; value: unknown }) {
  if (value === undefined) return null;
  return (
    <figure>
      <figcaption>{label}</figcaption>
      <pre tabIndex={0}>{JSON.stringify(value, null, 2)}</pre>
    </figure>
  );
}

function compact(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
  return text.length > 200 ? `${text.slice(0, 199)}…` : text;
}

/** The values of an input, without its names: enough to tell two calls apart. */
function brief(input: unknown): string {
  if (typeof input !== 'object' || input === null) return '';
  const words = Object.values(input).map((value) => (typeof value === 'object' ? '…' : String(value)));
  const text = words.join(', ');
  return text.length > 60 ? `${text.slice(0, 59)}…` : text;
}
