// One message, part by part.

import { getToolName, isReasoningUIPart, isTextUIPart, isToolUIPart, type UIMessage } from 'ai';
import { memo } from 'react';
import { Markdown } from './markdown.tsx';
import { Shown } from './shown.tsx';
import { type Answer, type Decide, ToolPart } from './tool-part.tsx';
import type { Progress } from './use-agent.ts';

interface Props {
  message: UIMessage;
  /** Its stream is open. */
  live: boolean;
  progress?: Record<string, Progress> | undefined;
  onAnswer: Answer;
  onDecide: Decide;
}

/** Only the message that is being written is drawn again with each word. */
export const Message = memo(function Message({ message, live, progress, onAnswer, onDecide }: Props) {
  return (
    <li className={`message ${message.role}`} aria-label={message.role === 'user' ? 'You' : 'Agent'}>
      {message.parts.map((part, index) => {
        if (isTextUIPart(part)) {
          if (!part.text) return null;
          return message.role === 'user' ? <p key={index}>{part.text}</p> : <Markdown key={index} text={part.text} />;
        }
        if (isReasoningUIPart(part)) return <Reasoning key={index} text={part.text} live={live && part.state === 'streaming'} />;
        if (isToolUIPart(part)) {
          return (
            <ToolPart
              key={part.toolCallId}
              part={part}
              name={getToolName(part)}
              live={live}
              progress={progress?.[part.toolCallId]}
              onAnswer={onAnswer}
              onDecide={onDecide}
            />
          );
        }
        const note = noteOf(part);
        if (!note) return <Shown key={index} part={part} />;
        return (
          <p key={index} className="note">
            {note}
          </p>
        );
      })}
    </li>
  );
});

function Reasoning({ text, live }: { text: string; live: boolean }) {
  if (!text) return null;
  return (
    <details className="reasoning" open={live || undefined}>
      <summary>{live ? 'Thinking…' : 'Thoughts'}</summary>
      <p>{text}</p>
    </details>
  );
}

const REJECTED: Record<string, string> = {
  'unknown-tool-call': 'the agent does not know its call',
  'stale-run': 'the chat has gone on without it',
  'run-stopped': 'the run was stopped',
  'malformed-approval-id': 'its approval is not one of this chat',
};

/** What the server says of answers that it could not use. */
function noteOf(part: UIMessage['parts'][number]): string | undefined {
  if (part.type === 'data-resume-rejected' && 'data' in part) {
    const { reason } = part.data as { reason: string };
    return `An answer could not be used: ${REJECTED[reason] ?? reason}.`;
  }
  return part.type === 'data-tool-output-elsewhere' ? 'This was already answered elsewhere; the first answer stays.' : undefined;
}
