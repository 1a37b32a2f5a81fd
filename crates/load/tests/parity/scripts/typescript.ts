import http, { RefinedResponse, ResponseType } from 'k6/http';
import { check, sleep as pause } from 'k6';
import { Options } from 'k6/options';
import { Counter, type Trend } from 'k6/metrics';
import type { Shape } from './lib/shapes.ts';
import { Circle, area, Colour } from './lib/shapes.ts';

export const options: Options = {
  iterations: 2,
  thresholds: { counted: ['count==2'] },
} satisfies Options;

enum Step {
  First,
  Second = 'two',
  Last = First + 10,
}

const counted: Counter = new Counter('counted');
const trends: Trend[] = [];

interface Data {
  readonly url: string;
  steps?: Array<Step | null>;
}

abstract class Visitor<T extends object = {}> {
  protected visited = 0;
  private static count: number = 0;
  declare readonly missing: string;

  constructor(private readonly data: T, public name?: string) {
    Visitor.count += 1;
  }

  abstract visit(): void;

  get size(): number {
    return Object.keys(this.data as object).length;
  }

  static made(): number {
    return Visitor.count;
  }
}

class Reader extends Visitor<Data> {
  override visit(this: Reader, times: number = 1): void {
    this.visited! += times;
  }

  get seen() {
    return this.visited;
  }
}

function over(value: string): string;
function over(value: number): number;
function over(value: any): any {
  return <any>value;
}

namespace Text {
  export const quoted = (text: string): string => `"${text}"`;
}

export function setup(): Data {
  return { url: __ENV.URL as string, steps: [Step.First, null] };
}

export default function (data: Data): void {
  const response: RefinedResponse<'text'> = http.get<'text'>(`${data.url}/html`) as RefinedResponse<'text'>;
  const kind: ResponseType = 'text';
  check(response, { 'is there': (r): r is RefinedResponse<'text'> => r.status === 200 });
  counted.add(1);
  const reader = new Reader(data, 'r');
  reader.visit();
  const circle: Shape = new Circle(2);
  console.log(JSON.stringify([kind, Step, Step[0], Step.Last, reader.size, reader.name, reader.seen, Visitor.made(), over('a'), over(1), Text.quoted('q'), area(circle), Colour.Blue, trends.length]));
  const tuple: [string, number?] = ['a'];
  let definite!: number;
  definite = tuple?.length ?? 0;
  console.log(definite, (<number>definite) < 2 ? 'one' : 'more', typeof pause);
}
