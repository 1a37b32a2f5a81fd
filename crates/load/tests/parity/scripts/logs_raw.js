export { default } from './lib/logs.js';
