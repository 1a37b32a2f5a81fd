// Readers only, in a closed model, as it was documented.
import { visit } from './posts.js';

export const options = { vus: 50, duration: '20s' };

export default visit;
