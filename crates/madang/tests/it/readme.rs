//! The commands of README.md and README.ko.md work.

use crate::pages::every_command_works;

#[test]
fn every_command_of_the_english_page_works_and_shows_something() {
    every_command_works(&["README.md".to_owned()]);
}

#[test]
fn every_command_of_the_korean_page_works_and_shows_something() {
    every_command_works(&["README.ko.md".to_owned()]);
}
