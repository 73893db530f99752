// Imported before everything else: zod would compile its schemas with `new Function`, which the page's security policy
// refuses. It copes, but each attempt is a violation in the console.

import { config } from 'zod';

config({ jitless: true });
