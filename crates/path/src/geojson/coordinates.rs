//! The member `coordinates`, whose depth determines its kind.
//!
//! It may come before `type`, so it is read by its shape and checked when the type is known.

use std::fmt;

use serde::de::{self, SeqAccess, Visitor};

use super::read::{Any, Reading, Refusal};
use crate::document::wrap_longitude;
use crate::point::Point;

/// Coordinates by their depth.
pub(super) enum Coordinates {
    /// Null or an empty array.
    Nothing,
    Position(Point),
    Line(Vec<Point>),
    Lines(Vec<Vec<Point>>),
    /// Those of a `MultiPolygon`, or deeper.
    Deeper,
}

/// One item of an array of coordinates.
pub(super) enum Item {
    Number(f64),
    /// Stands for a missing elevation in some files.
    Null,
    Array(Coordinates),
}

/// Reads coordinates of any depth.
pub(super) struct Items<'r, 'l> {
    pub(super) reading: &'r mut Reading<'l>,
    /// Points read of the current member.
    pub(super) points: &'r mut usize,
}

impl<'l> Items<'_, 'l> {
    fn reborrow(&mut self) -> Any<Items<'_, 'l>> {
        Any(Items { reading: self.reading, points: self.points })
    }

    /// Reads on after the first number of a position.
    fn position<'de, A: SeqAccess<'de>>(
        &mut self,
        lon: f64,
        items: &mut A,
    ) -> Result<Point, A::Error> {
        let Some(Item::Number(lat)) = items.next_element_seed(self.reborrow())? else {
            return Err(self.refuse("a position needs a longitude and a latitude"));
        };
        let mut point = Point::new(lat, wrap_longitude(lon));
        match items.next_element_seed(self.reborrow())? {
            Some(Item::Number(ele)) => point.ele = Some(ele),
            Some(Item::Null) | None => {}
            Some(Item::Array(_)) => return Err(self.refuse("an array stands inside a position")),
        }
        // RFC 7946 section 3.1.1: further elements are for the sender's own use.
        while items.next_element::<de::IgnoredAny>()?.is_some() {}
        point.check().map_err(|reason| self.reading.refuse(Refusal::OutOfRange(reason)))?;
        if *self.points >= self.reading.lines.room() {
            let error = self.reading.lines.too_many_points();
            return Err(self.reading.refuse(Refusal::Limit(error)));
        }
        *self.points += 1;
        Ok(point)
    }

    fn refuse<E: de::Error>(&mut self, reason: &'static str) -> E {
        self.reading.refuse(Refusal::NotGeoJson(reason))
    }
}

impl<'de> Visitor<'de> for Items<'_, '_> {
    type Value = Item;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number or an array of coordinates")
    }

    fn visit_f64<E>(self, number: f64) -> Result<Item, E> {
        Ok(Item::Number(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Item, E> {
        Ok(Item::Number(number as f64))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Item, E> {
        Ok(Item::Number(number as f64))
    }

    fn visit_unit<E>(self) -> Result<Item, E> {
        Ok(Item::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Item, A::Error> {
        let mut all = match items.next_element_seed(self.reborrow())? {
            None => return Ok(Item::Array(Coordinates::Nothing)),
            Some(Item::Number(lon)) => {
                return Ok(Item::Array(Coordinates::Position(self.position(lon, &mut items)?)));
            }
            Some(Item::Null) => return Err(self.refuse("null stands where a position should")),
            Some(Item::Array(first)) => first.in_array(),
        };
        while let Some(item) = items.next_element_seed(self.reborrow())? {
            let Item::Array(next) = item else {
                return Err(self.refuse("coordinates of different depths stand in one array"));
            };
            if !all.push(next) {
                return Err(self.refuse("coordinates of different depths stand in one array"));
            }
        }
        Ok(Item::Array(all))
    }
}

impl Coordinates {
    /// An array that has `self` as its first item.
    fn in_array(self) -> Self {
        match self {
            Self::Position(point) => Self::Line(vec![point]),
            Self::Line(line) => Self::Lines(vec![line]),
            // `[[], …]`: an empty line; deeper emptiness holds no line either way.
            Self::Nothing => Self::Lines(Vec::new()),
            Self::Lines(_) | Self::Deeper => Self::Deeper,
        }
    }

    /// Adds the next item of the array; false if it is of another depth than those before it.
    fn push(&mut self, next: Self) -> bool {
        match (self, next) {
            (Self::Line(line), Self::Position(point)) => line.push(point),
            (Self::Lines(lines), Self::Line(line)) => lines.push(line),
            (Self::Lines(_) | Self::Deeper, Self::Nothing) => {}
            (Self::Deeper, Self::Lines(_) | Self::Deeper) => {}
            (all @ Self::Lines(_), Self::Lines(_)) if all.holds_nothing() => *all = Self::Deeper,
            _ => return false,
        }
        true
    }

    fn holds_nothing(&self) -> bool {
        matches!(self, Self::Lines(lines) if lines.is_empty())
    }
}
