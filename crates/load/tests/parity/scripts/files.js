import fs from 'k6/experimental/fs';
import csv from 'k6/experimental/csv';
const open = () => fs.open('./lib/people.csv');
const file = await open();
const rows = await csv.parse(await open(), { delimiter: ',' });
const objects = await csv.parse(await open(), { asObjects: true });
const some = await csv.parse(await open(), { fromLine: 1, toLine: 2 });
const parser = new csv.Parser(await open(), { skipFirstLine: true });
export default async function () {
  console.log(JSON.stringify(await file.stat()));
  console.log(JSON.stringify([rows.length, rows[0], rows[1]]));
  console.log(JSON.stringify([objects.length, objects[0].name, objects[1].text]));
  console.log(JSON.stringify(some));
  const buffer = new Uint8Array(8);
  console.log(await file.seek(0, fs.SeekMode.Start), await file.read(buffer), String.fromCharCode(...buffer));
  console.log(await file.seek(-3, fs.SeekMode.End), await file.read(buffer));
  for (;;) {
    const { done, value } = await parser.next();
    if (done) break;
    console.log(JSON.stringify(value));
  }
  for (const attempt of [() => file.read(null), () => file.seek('a', 0), () => file.seek(-1, 0), () => fs.open('x')]) {
    try {
      await attempt();
      console.log('no error');
    } catch (error) {
      console.log(error.name);
    }
  }
}
