//! GPS paths: read GPX and GeoJSON, measure, simplify, encode.
