import secrets from 'k6/secrets';
export default async function () {
  try {
    console.log(await secrets.get('cool'));
  } catch (error) {
    console.log(`${error.message || error}`);
  }
}
