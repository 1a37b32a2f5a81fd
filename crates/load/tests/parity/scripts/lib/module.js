export const one = 1;
export default 'of a module';
