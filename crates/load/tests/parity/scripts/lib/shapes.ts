export interface Shape {
  radius: number;
}

export class Circle implements Shape {
  constructor(readonly radius: number) {}
}

export const area = <T extends Shape>(shape: T): number => Math.round(Math.PI * shape.radius ** 2);

export const enum Colour {
  Red = 1,
  Blue = Red << 3,
}

export type { Shape as Form };
