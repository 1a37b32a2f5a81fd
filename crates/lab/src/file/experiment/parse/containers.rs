//! `image`, `build` and `compose` of a variant.

use std::path::Path;

use madang_stack::container::{CONTAINER_FILES, Engine};

use super::super::reader::{Located, Reader};
use super::super::{Container, ContainerSource};

/// Keys that make a variant of containers.
pub const KEYS: [&str; 3] = ["image", "build", "compose"];

/// Reads the source of a variant's containers and the port inside. `dir` is the experiment's directory; `None` for a stored
/// experiment, whose files need not be there any more.
pub fn source(
    reader: &mut Reader<'_>,
    name: &str,
    dir: Option<&Path>,
) -> (Option<ContainerSource>, Option<u16>) {
    let image = reader.text("image");
    let build = reader.text("build");
    let compose = reader.text("compose");
    let port = reader.whole("port", 1..65536);
    let complain = |offset, why: String| reader.mistakes().add(offset, why);
    if reader.has("port") && !reader.has("image") && !reader.has("build") {
        let why = format!(
            "`port` in [variants.{name}] is the port that the server of an `image` or `build` listens at"
        );
        complain(reader.offset_of("port"), why);
    }
    if let (Some(Located { value, offset }), Some(dir)) = (&build, dir)
        && !CONTAINER_FILES.iter().any(|file| dir.join(value).join(file).is_file())
    {
        let why = format!("`build` in [variants.{name}]: there is no Dockerfile in `{value}`");
        complain(*offset, why);
    }
    if let (Some(Located { value, offset }), Some(dir)) = (&compose, dir) {
        match Engine::compose_file(&dir.join(value)).map(std::fs::read_to_string) {
            None => {
                let why =
                    format!("`compose` in [variants.{name}]: there is no compose file `{value}`");
                complain(*offset, why);
            }
            Some(Ok(text)) if !text.contains("PORT") => {
                let why = format!(
                    "`compose` in [variants.{name}]: `{value}` has to publish the server at the port in the \
                     variable PORT, such as `ports: [\"127.0.0.1:${{PORT}}:8080\"]`"
                );
                complain(*offset, why);
            }
            Some(_) => {}
        }
    }
    let source = image.map(|found| ContainerSource::Image(found.value));
    let source = source.or_else(|| build.map(|found| ContainerSource::Build(found.value.into())));
    let source =
        source.or_else(|| compose.map(|found| ContainerSource::Compose(found.value.into())));
    (source, port.and_then(|port| u16::try_from(port).ok()))
}

/// Complains of what containers cannot have.
pub fn check(reader: &Reader<'_>, name: &str, container: &Container) {
    let complain = |key: &str, why: &str| {
        let message = format!("`{key}` in [variants.{name}] {why}");
        reader.mistakes().add(reader.offset_of(key), message);
    };
    if reader.has("cgroup") {
        complain("cgroup", "is for other servers: those of containers are known");
    }
    if matches!(container.source, ContainerSource::Compose(_)) {
        if reader.has("command") {
            complain("command", "does not apply to `compose`: the file has the commands");
        }
        if reader.has("cpus") {
            complain(
                "cpus",
                "does not apply to `compose`: the file has the limits of each service",
            );
        }
    } else if reader.is_table("cpus") {
        complain("cpus", "must be a number of cores: containers have no burstable budget");
    }
    if container.port.is_some() && container.shares_network() {
        complain(
            "port",
            "is not used: with `{port}` in `command` or `env`, the server listens there",
        );
    }
}
