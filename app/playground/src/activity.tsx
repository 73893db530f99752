// What goes on out of sight: the wait for the first word, and sub-agents, whose own part appears only with their result.

import type { UIMessage } from 'ai';
import type { Progress } from './use-agent.ts';

interface Props {
  busy: boolean;
  waiting: boolean;
  last: UIMessage | undefined;
  progress: Record<string, Progress>;
}

export function Activity({ busy, waiting, last, progress }: Props) {
  const shown = new Set(last?.parts.flatMap((part) => ('toolCallId' in part ? [part.toolCallId] : [])));
  const unseen = Object.values(progress).filter((news) => !shown.has(news.toolCallId));
  if (!busy && !waiting) return null;
  if (unseen.length === 0) {
    return busy && last?.role === 'user' ? (
      <p className="activity">
        <span className="dots" aria-hidden="true">
          <i />
          <i />
          <i />
        </span>
        <span className="unseen">Waiting for the first words</span>
      </p>
    ) : null;
  }
  return (
    <ul className="activity" aria-label="Sub-agents">
      {unseen.map((news) => (
        <li key={news.toolCallId}>
          <span className={news.status === 'waiting' ? 'pulse still' : 'pulse'} aria-hidden="true" />
          <span className="mono">{news.tool}</span>
          <span>{news.status === 'waiting' ? 'waits for you' : news.text || 'is working'}</span>
        </li>
      ))}
    </ul>
  );
}
