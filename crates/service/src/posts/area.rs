//! Areas of listings, and the listings of a post.
//!
//! Codes of Statistics Korea that end in 0 are those of whole municipalities; a large one has districts
//! with codes that end in 1 to 9. A post in a district is also in the listings of its
//! city, so a listing of a city covers its own code and those up to the next that ends in 0.

use super::types::{CategoryId, OfferPlace, PostValues};
use crate::accounts::RegionId;
use madang_cache::Stamp;
use std::fmt;
use std::ops::RangeInclusive;

/// The area of a listing.
#[derive(Clone, PartialEq)]
pub(crate) enum Area {
    Everywhere,
    /// A province.
    State(RegionId),
    /// A municipality with its districts, or one district.
    City(RegionId),
    /// A town of this name in a municipality or district.
    Town(RegionId, String),
}

impl Area {
    pub(super) fn covers(&self, place: &OfferPlace) -> bool {
        match self {
            Area::Everywhere => true,
            Area::State(state) => place.state == *state,
            Area::City(city) => with_districts(*city).contains(&place.city),
            Area::Town(city, town) => {
                with_districts(*city).contains(&place.city) && place.town == *town
            }
        }
    }
}

/// The name of the area in keys, stamps and cursors. The town is last, because it may contain any character.
impl fmt::Display for Area {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Area::Everywhere => f.write_str("all"),
            Area::State(id) | Area::City(id) => write!(f, "{id}"),
            Area::Town(city, name) => write!(f, "{city}.{name}"),
        }
    }
}

/// The possible codes of a municipality and its districts; a district has only its own.
pub(super) fn with_districts(city: RegionId) -> RangeInclusive<RegionId> {
    if city % 10 == 0 { city..=city + 9 } else { city..=city }
}

/// All areas of a place.
fn areas(place: &OfferPlace) -> impl Iterator<Item = Area> + '_ {
    let whole = place.city - place.city % 10;
    let cities = [Some(place.city), (whole != place.city).then_some(whole)];
    let cities = cities.into_iter().flatten();
    [Area::Everywhere, Area::State(place.state)]
        .into_iter()
        .chain(cities.flat_map(|city| [Area::City(city), Area::Town(city, place.town.clone())]))
}

/// The stamp of the listings of an area, in one category or all.
pub(super) fn listing(area: &Area, category: Option<CategoryId>) -> Stamp {
    match category {
        Some(category) => Stamp::from_args(format_args!("posts:{category}:{area}")),
        None => Stamp::from_args(format_args!("posts:*:{area}")),
    }
}

/// The stamps of all listings of a post with these values.
pub(super) fn listings(values: &PostValues) -> Vec<Stamp> {
    areas(&values.place)
        .flat_map(|area| [listing(&area, None), listing(&area, Some(values.category))])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covered(city: RegionId) -> Vec<String> {
        let place = OfferPlace { state: city / 1000, city, town: "정자동".to_owned() };
        areas(&place).map(|area| area.to_string()).collect()
    }

    #[test]
    fn a_post_is_in_its_town_its_city_its_state_and_everywhere() {
        assert_eq!(covered(11010), ["all", "11", "11010", "11010.정자동"]);
    }

    #[test]
    fn a_post_in_a_district_is_also_in_its_city() {
        let all = ["all", "31", "31023", "31023.정자동", "31020", "31020.정자동"];
        assert_eq!(covered(31023), all);
        assert_eq!(with_districts(31020), 31020..=31029);
        assert_eq!(with_districts(31023), 31023..=31023);
    }
}
