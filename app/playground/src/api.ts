// The server's own routes: what a stock useChat does not call by itself. Addresses are relative, so that the page also
// works below a path of a proxy.

import type { UIMessage } from 'ai';

export type RunStatus = 'running' | 'suspended' | 'completed' | 'failed' | 'stopped' | 'superseded';

export interface Snapshot {
  id: string;
  messages: UIMessage[];
  status: 'idle' | 'running' | 'suspended';
  live: boolean;
  run: { id: string; status: RunStatus } | null;
  pending: { toolCallId: string; kind: string; toolName: string }[];
}

export interface ChatEntry {
  id: string;
  agent: string;
  updatedAt: string;
}

export interface ChatPage {
  chats: ChatEntry[];
  nextCursor?: string;
}

/** A refusal of the server; its message is the JSON body as text, as a stock client would give it. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    body: string,
  ) {
    super(body);
  }
}

const KEY = 'agent-server.key';

/** The key of `AGENT_SERVER_AUTH=api_key`, kept for this tab only. */
export function apiKey(): string {
  return sessionStorage.getItem(KEY) ?? '';
}

export function setApiKey(key: string): void {
  sessionStorage.setItem(KEY, key);
}

export function authHeaders(): Record<string, string> {
  const key = apiKey();
  return key ? { authorization: `Bearer ${key}` } : {};
}

async function ask(path: string, init: RequestInit = {}): Promise<Response> {
  const response = await fetch(path, { ...init, headers: { ...authHeaders(), ...init.headers } });
  if (!response.ok) throw new Refusal(response.status, await response.text());
  return response;
}

const chat = (id: string): string => `chat/${encodeURIComponent(id)}`;

/** What a reload shows, or null for a chat that the server does not know. */
export async function readSnapshot(id: string): Promise<Snapshot | null> {
  try {
    return (await (await ask(chat(id))).json()) as Snapshot;
  } catch (error) {
    if (error instanceof Refusal && error.status === 404) return null;
    throw error;
  }
}

/** With a run id, a late click cannot stop the run after it. */
export async function stopRun(id: string, runId: string | undefined): Promise<void> {
  const body = JSON.stringify(runId ? { runId } : {});
  await ask(`${chat(id)}/stop`, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
}

export async function listChats(cursor?: string): Promise<ChatPage> {
  const query = cursor ? `&cursor=${encodeURIComponent(cursor)}` : '';
  return (await (await ask(`chats?limit=30${query}`)).json()) as ChatPage;
}

export async function deleteChat(id: string): Promise<void> {
  try {
    await ask(chat(id), { method: 'DELETE' });
  } catch (error) {
    if (!(error instanceof Refusal && error.status === 404)) throw error;
  }
}
