// A tool call, by what it needs: a person's yes, a person's answer, or nothing but to be watched.

import { getToolName, isToolUIPart, type UIMessage } from 'ai';
import { Approval } from './approval.tsx';
import { OpenAnswer, QUESTIONS } from './questions.tsx';
import { ToolCard } from './tool-card.tsx';
import type { Progress, useAgent } from './use-agent.ts';

export type Part = Extract<UIMessage['parts'][number], { toolCallId: string }>;
export type Answer = ReturnType<typeof useAgent>['addToolOutput'];
export type Decide = ReturnType<typeof useAgent>['addToolApprovalResponse'];

interface Props {
  part: Part;
  name: string;
  live: boolean;
  progress?: Progress | undefined;
  onAnswer: Answer;
  onDecide: Decide;
}

export function ToolPart({ part, name, live, progress, onAnswer, onDecide }: Props) {
  switch (needs(part, name, live)) {
    case 'decision':
      return <Approval part={part} name={name} onDecide={onDecide} />;
    case 'answer': {
      const Question = (Object.hasOwn(QUESTIONS, name) && QUESTIONS[name]) || OpenAnswer;
      return (
        <Question
          name={name}
          input={part.input}
          onAnswer={(output) => void onAnswer({ tool: name, toolCallId: part.toolCallId, output })}
          onRefuse={(errorText) => void onAnswer({ state: 'output-error', tool: name, toolCallId: part.toolCallId, errorText })}
        />
      );
    }
    case 'nothing':
      return <ToolCard part={part} name={name} live={live} progress={progress} />;
  }
}

/** A browser's tool that this page has no form for looks like a running server tool, until the stream has ended. */
function needs(part: Part, name: string, live: boolean): 'decision' | 'answer' | 'nothing' {
  if (part.state === 'approval-requested') return 'decision';
  const unanswered = part.state === 'input-available' && !part.providerExecuted;
  return unanswered && (Object.hasOwn(QUESTIONS, name) || !live) ? 'answer' : 'nothing';
}

/** The name of a tool that waits for a person, if the message holds one. */
export function openCall(message: UIMessage, live: boolean): string | undefined {
  for (const part of message.parts) {
    if (isToolUIPart(part) && needs(part, getToolName(part), live) !== 'nothing') return getToolName(part);
  }
  return undefined;
}
