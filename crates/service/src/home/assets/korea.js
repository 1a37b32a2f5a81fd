// The outline of the provinces, and dots on it.

import { askJson, drawn } from "./page.js";

/** By the code of Statistics Korea: the name of today, which the API's `region` takes, a short one, and in English. */
export const PROVINCES = [
  ["11", "서울특별시", "서울", "Seoul"],
  ["21", "부산광역시", "부산", "Busan"],
  ["22", "대구광역시", "대구", "Daegu"],
  ["23", "인천광역시", "인천", "Incheon"],
  ["24", "광주광역시", "광주", "Gwangju"],
  ["25", "대전광역시", "대전", "Daejeon"],
  ["26", "울산광역시", "울산", "Ulsan"],
  ["29", "세종특별자치시", "세종", "Sejong"],
  ["31", "경기도", "경기", "Gyeonggi"],
  ["32", "강원특별자치도", "강원", "Gangwon"],
  ["33", "충청북도", "충북", "North Chungcheong"],
  ["34", "충청남도", "충남", "South Chungcheong"],
  ["35", "전북특별자치도", "전북", "Jeonbuk"],
  ["36", "전라남도", "전남", "South Jeolla"],
  ["37", "경상북도", "경북", "North Gyeongsang"],
  ["38", "경상남도", "경남", "South Gyeongsang"],
  ["39", "제주특별자치도", "제주", "Jeju"],
];

/** Degrees around what is drawn; the middle latitude sets the scale of longitudes. */
const EDGE = { west: 124.55, east: 131.05, south: 33.05, north: 38.68 };
const NARROW = Math.cos((36 * Math.PI) / 180);
const UNITS_PER_DEGREE = 100;

const x = (lon) => (lon - EDGE.west) * NARROW * UNITS_PER_DEGREE;
const y = (lat) => (EDGE.north - lat) * UNITS_PER_DEGREE;
const spot = (lon, lat) => `${x(lon).toFixed(1)} ${y(lat).toFixed(1)}`;

/** Draws the provinces into `svg`; `onProvince` hears the name of the one that is clicked. */
export async function outline(svg, onProvince) {
  svg.setAttribute("viewBox", `0 0 ${x(EDGE.east).toFixed(0)} ${y(EDGE.south).toFixed(0)}`);
  const provinces = drawn("g", { class: "provinces", lang: "ko" });
  const dots = drawn("g", { class: "dots", lang: "ko" });
  svg.replaceChildren(provinces, dots);
  const { features } = await askJson("/home/provinces.geojson");
  for (const { properties, geometry } of features) {
    const rings = geometry.coordinates.flat();
    const d = rings.map((ring) => `M${ring.map(([lon, lat]) => spot(lon, lat)).join("L")}Z`).join("");
    const [, name] = PROVINCES.find(([code]) => code === properties.code) ?? [];
    const path = drawn("path", { d, "data-province": name }, drawn("title", {}, name));
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
