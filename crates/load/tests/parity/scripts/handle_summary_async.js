export default function () {}
export async function handleSummary(data) {
  await null;
  console.log(Object.keys(data.metrics).includes('iterations'));
  return { [`${__ENV.OUT}/later`]: 'later' };
}
