// Where one writes. Enter sends, Shift+Enter is a new line; while the agent answers the button stops it.

import { type KeyboardEvent, type Ref, useEffect, useImperativeHandle, useRef } from 'react';
import { Icon } from './icons.tsx';

interface Props {
  ref: Ref<HTMLTextAreaElement>;
  draft: string;
  onDraft: (text: string) => void;
  busy: boolean;
  stoppable: boolean;
  stopping: boolean;
  onSend: (text: string) => void;
  onStop: () => void;
}

export function Composer({ ref, draft, onDraft, busy, stoppable, stopping, onSend, onStop }: Props) {
  const field = useRef<HTMLTextAreaElement>(null);
  useImperativeHandle(ref, () => field.current as HTMLTextAreaElement);
  const text = draft.trim();

  useEffect(() => {
    // a touch screen would bring up its keyboard
    if (matchMedia('(hover: hover)').matches) field.current?.focus();
  }, []);
  useEffect(() => {
    const box = field.current;
    if (!box) return;
    box.style.height = 'auto';
    box.style.height = `${Math.min(box.scrollHeight, 200)}px`;
  }, [draft]);

  const send = () => {
    if (!text || busy) return;
    onDraft('');
    onSend(text);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    send();
  };
  return (
    <form
      className="composer"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <textarea
        ref={field}
        rows={1}
        aria-label="Message"
        placeholder={stoppable && !busy ? 'Or write something else' : 'Write a message'}
        value={draft}
        onChange={(event) => onDraft(event.target.value)}
        onKeyDown={onKeyDown}
      />
      {stoppable && !(text && !busy) ? (
        <button type="button" className="round stop" aria-label="Stop" disabled={stopping} onClick={onStop}>
          <Icon name="stop" />
        </button>
      ) : (
        <button type="submit" className="round" aria-label="Send" disabled={!text || busy}>
          <Icon name="send" />
        </button>
      )}
    </form>
  );
}
