const before = __ENV.URL !== undefined;
export default function () {
  try {
    __ENV.NEW = 'value';
    console.log(`set: ${__ENV.NEW}`);
  } catch (error) {
    console.log('setting throws');
  }
  console.log(JSON.stringify([before, __ENV.NOTHING, typeof __ENV]));
}
