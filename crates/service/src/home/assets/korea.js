// The outline of the provinces, and dots on it.

import { askJson, drawn } from "./page.js";

/** By the code of Statistics Korea: a short name that the API's `region` takes, and the English one. */
export const PROVINCES = [
  ["11", "서울", "Seoul"], ["21", "부산", "Busan"], ["22", "대구", "Daegu"], ["23", "인천", "Incheon"],
  ["24", "광주", "Gwangju"], ["25", "대전", "Daejeon"], ["26", "울산", "Ulsan"], ["29", "세종", "Sejong"],
  ["31", "경기", "Gyeonggi"], ["32", "강원", "Gangwon"], ["33", "충북", "North Chungcheong"],
  ["34", "충남", "South Chungcheong"], ["35", "전북", "North Jeolla"], ["36", "전남", "South Jeolla"],
  ["37", "경북", "North Gyeongsang"], ["38", "경남", "South Gyeongsang"], ["39", "제주", "Jeju"],
];

/** Degrees around what is drawn; the middle latitude sets the scale of longitudes. */
const EDGE = { west: 124.55, east: 131.95, south: 33.05, north: 38.68 };
const NARROW = Math.cos((36 * Math.PI) / 180);
const UNITS_PER_DEGREE = 100;

const x = (lon) => (lon - EDGE.west) * NARROW * UNITS_PER_DEGREE;
const y = (lat) => (EDGE.north - lat) * UNITS_PER_DEGREE;
const spot = (lon, lat) => `${x(lon).toFixed(1)} ${y(lat).toFixed(1)}`;

/** Draws the provinces into `svg`; `onProvince` hears the short name of the one that is clicked. */
export async function outline(svg, onProvince) {
  svg.setAttribute("viewBox", `0 0 ${x(EDGE.east).toFixed(0)} ${y(EDGE.south).toFixed(0)}`);
  const provinces = drawn("g", { class: "provinces" });
  const dots = drawn("g", { class: "dots" });
  svg.replaceChildren(provinces, dots);
  const { features } = await askJson("/home/provinces.geojson");
  for (const { properties, geometry } of features) {
    const rings = geometry.coordinates.flat();
    const d = rings.map((ring) => `M${ring.map(([lon, lat]) => spot(lon, lat)).join("L")}Z`).join("");
    const [, name] = PROVINCES.find(([code]) => code === properties.code) ?? [];
    const path = drawn("path", { d, "data-province": name }, drawn("title", {}, properties.name));
    path.addEventListener("click", () => onProvince(name));
    provinces.append(path);
  }
}

/** Shows which province is asked for; none when empty. */
export function mark(svg, name) {
  for (const path of svg.querySelectorAll(".provinces path")) {
    path.classList.toggle("asked", name !== "" && path.dataset.province === name);
  }
}

/** A dot for a position `[lat, lon]`. */
export function dot(svg, [lat, lon], name, onClick) {
  const circle = drawn("circle", { cx: x(lon).toFixed(1), cy: y(lat).toFixed(1), r: 5 }, drawn("title", {}, name));
  circle.addEventListener("click", onClick);
  svg.querySelector(".dots").append(circle);
  return circle;
}

export const clearDots = (svg) => svg.querySelector(".dots")?.replaceChildren();
