import './without-eval.ts';
import { createRoot } from 'react-dom/client';
import { App } from './app.tsx';
import './tokens.css';
import './page.css';
import './message.css';
import './tool.css';
import './dock.css';

const root = document.getElementById('root');
if (root) createRoot(root).render(<App />);
